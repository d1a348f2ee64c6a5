"""Every API key that this package translates: one literal row, and nothing is said of it twice.

Number, name, versions and shapes stand here alone. The codec, the client and the broker's table
(`api/table.py`, which says who answers) read them from here. A bound that differs from Kafka's
own has its reason in its row; the tests compare with Kafka's schemas.
"""

from typing import NamedTuple

from josefine_broker.wire import entities as e
from josefine_broker.wire import fetch, produce


class ApiSpec(NamedTuple):
    """One API key; all versions inclusive."""

    key: int
    name: str
    min_version: int
    max_version: int
    # The first version whose headers and bodies are "flexible" (KIP-482): request header v2,
    # response header v1, compact lengths, tagged fields.
    flexible_since: int
    request: type
    response: type
    why: str = ""  # a bound is not Kafka's own


PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
SASL_HANDSHAKE = 17
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_ACLS = 29
CREATE_ACLS = 30
DELETE_ACLS = 31
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
CREATE_PARTITIONS = 37
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
DESCRIBE_CLIENT_QUOTAS = 48
ALTER_CLIENT_QUOTAS = 49
DESCRIBE_USER_SCRAM_CREDENTIALS = 50
ALTER_USER_SCRAM_CREDENTIALS = 51
DESCRIBE_QUORUM = 55
UPDATE_FEATURES = 57
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
UNREGISTER_BROKER = 64
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
DESCRIBE_TOPIC_PARTITIONS = 75
REMOVE_RAFT_VOTER = 81

# fmt: off
_ROWS = (
    ApiSpec(PRODUCE, "Produce", 0, 13, 9,
            produce.ProduceRequest, produce.ProduceResponse,
            "0 for librdkafka's sake (KAFKA-18659); the formats of 0 to 2 are refused (KIP-724)"),
    ApiSpec(FETCH, "Fetch", 4, 18, 12,
            fetch.FetchRequest, fetch.FetchResponse),
    ApiSpec(LIST_OFFSETS, "ListOffsets", 1, 11, 6,
            e.list_offsets.ListOffsetsRequest, e.list_offsets.ListOffsetsResponse),
    ApiSpec(METADATA, "Metadata", 0, 13, 9,
            e.metadata.MetadataRequest, e.metadata.MetadataResponse),
    ApiSpec(OFFSET_COMMIT, "OffsetCommit", 2, 10, 8,
            e.offset_commit.OffsetCommitRequest, e.offset_commit.OffsetCommitResponse),
    ApiSpec(OFFSET_FETCH, "OffsetFetch", 1, 10, 6,
            e.offset_fetch.OffsetFetchRequest, e.offset_fetch.OffsetFetchResponse),
    ApiSpec(FIND_COORDINATOR, "FindCoordinator", 0, 6, 3,
            e.find_coordinator.FindCoordinatorRequest, e.find_coordinator.FindCoordinatorResponse),
    ApiSpec(JOIN_GROUP, "JoinGroup", 0, 9, 6,
            e.join_group.JoinGroupRequest, e.join_group.JoinGroupResponse),
    ApiSpec(HEARTBEAT, "Heartbeat", 0, 4, 4,
            e.heartbeat.HeartbeatRequest, e.heartbeat.HeartbeatResponse),
    ApiSpec(LEAVE_GROUP, "LeaveGroup", 0, 5, 4,
            e.leave_group.LeaveGroupRequest, e.leave_group.LeaveGroupResponse),
    ApiSpec(SYNC_GROUP, "SyncGroup", 0, 5, 4,
            e.sync_group.SyncGroupRequest, e.sync_group.SyncGroupResponse),
    ApiSpec(DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5,
            e.describe_groups.DescribeGroupsRequest, e.describe_groups.DescribeGroupsResponse),
    ApiSpec(LIST_GROUPS, "ListGroups", 0, 5, 3,
            e.list_groups.ListGroupsRequest, e.list_groups.ListGroupsResponse),
    ApiSpec(SASL_HANDSHAKE, "SaslHandshake", 1, 1, 2,
            e.sasl_handshake.SaslHandshakeRequest, e.sasl_handshake.SaslHandshakeResponse,
            "behind version 0 tokens come without requests around them (KIP-152)"),
    ApiSpec(API_VERSIONS, "ApiVersions", 0, 4, 3,
            e.api_versions.ApiVersionsRequest, e.api_versions.ApiVersionsResponse),
    ApiSpec(CREATE_TOPICS, "CreateTopics", 2, 7, 5,
            e.create_topics.CreateTopicsRequest, e.create_topics.CreateTopicsResponse),
    ApiSpec(DELETE_TOPICS, "DeleteTopics", 1, 6, 4,
            e.delete_topics.DeleteTopicsRequest, e.delete_topics.DeleteTopicsResponse),
    ApiSpec(DELETE_RECORDS, "DeleteRecords", 0, 2, 2,
            e.delete_records.DeleteRecordsRequest, e.delete_records.DeleteRecordsResponse),
    ApiSpec(INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2,
            e.init_producer_id.InitProducerIdRequest, e.init_producer_id.InitProducerIdResponse),
    ApiSpec(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4,
            e.offset_for_leader_epoch.OffsetForLeaderEpochRequest,
            e.offset_for_leader_epoch.OffsetForLeaderEpochResponse),
    ApiSpec(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3,
            e.add_partitions_to_txn.AddPartitionsToTxnRequest,
            e.add_partitions_to_txn.AddPartitionsToTxnResponse),
    ApiSpec(ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3,
            e.add_offsets_to_txn.AddOffsetsToTxnRequest,
            e.add_offsets_to_txn.AddOffsetsToTxnResponse),
    ApiSpec(END_TXN, "EndTxn", 0, 5, 3,
            e.end_txn.EndTxnRequest, e.end_txn.EndTxnResponse),
    ApiSpec(WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1,
            e.write_txn_markers.WriteTxnMarkersRequest,
            e.write_txn_markers.WriteTxnMarkersResponse),
    ApiSpec(TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3,
            e.txn_offset_commit.TxnOffsetCommitRequest,
            e.txn_offset_commit.TxnOffsetCommitResponse),
    ApiSpec(DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2,
            e.describe_acls.DescribeAclsRequest, e.describe_acls.DescribeAclsResponse),
    ApiSpec(CREATE_ACLS, "CreateAcls", 1, 3, 2,
            e.create_acls.CreateAclsRequest, e.create_acls.CreateAclsResponse),
    ApiSpec(DELETE_ACLS, "DeleteAcls", 1, 3, 2,
            e.delete_acls.DeleteAclsRequest, e.delete_acls.DeleteAclsResponse),
    ApiSpec(DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4,
            e.describe_configs.DescribeConfigsRequest, e.describe_configs.DescribeConfigsResponse),
    ApiSpec(ALTER_CONFIGS, "AlterConfigs", 0, 2, 2,
            e.alter_configs.AlterConfigsRequest, e.alter_configs.AlterConfigsResponse),
    ApiSpec(DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2,
            e.describe_log_dirs.DescribeLogDirsRequest,
            e.describe_log_dirs.DescribeLogDirsResponse),
    ApiSpec(SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2,
            e.sasl_authenticate.SaslAuthenticateRequest,
            e.sasl_authenticate.SaslAuthenticateResponse),
    ApiSpec(CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2,
            e.create_partitions.CreatePartitionsRequest,
            e.create_partitions.CreatePartitionsResponse),
    ApiSpec(DELETE_GROUPS, "DeleteGroups", 0, 2, 2,
            e.delete_groups.DeleteGroupsRequest, e.delete_groups.DeleteGroupsResponse),
    ApiSpec(ELECT_LEADERS, "ElectLeaders", 0, 2, 2,
            e.elect_leaders.ElectLeadersRequest, e.elect_leaders.ElectLeadersResponse),
    ApiSpec(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1,
            e.incremental_alter_configs.IncrementalAlterConfigsRequest,
            e.incremental_alter_configs.IncrementalAlterConfigsResponse),
    ApiSpec(ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0,
            e.alter_partition_reassignments.AlterPartitionReassignmentsRequest,
            e.alter_partition_reassignments.AlterPartitionReassignmentsResponse),
    ApiSpec(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0,
            e.list_partition_reassignments.ListPartitionReassignmentsRequest,
            e.list_partition_reassignments.ListPartitionReassignmentsResponse),
    ApiSpec(OFFSET_DELETE, "OffsetDelete", 0, 0, 1,
            e.offset_delete.OffsetDeleteRequest, e.offset_delete.OffsetDeleteResponse),
    ApiSpec(DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1,
            e.describe_client_quotas.DescribeClientQuotasRequest,
            e.describe_client_quotas.DescribeClientQuotasResponse),
    ApiSpec(ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1,
            e.alter_client_quotas.AlterClientQuotasRequest,
            e.alter_client_quotas.AlterClientQuotasResponse),
    ApiSpec(DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0,
            e.describe_user_scram_credentials.DescribeUserScramCredentialsRequest,
            e.describe_user_scram_credentials.DescribeUserScramCredentialsResponse),
    ApiSpec(ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0,
            e.alter_user_scram_credentials.AlterUserScramCredentialsRequest,
            e.alter_user_scram_credentials.AlterUserScramCredentialsResponse),
    ApiSpec(DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0,
            e.describe_quorum.DescribeQuorumRequest, e.describe_quorum.DescribeQuorumResponse),
    ApiSpec(UPDATE_FEATURES, "UpdateFeatures", 1, 2, 0,
            e.update_features.UpdateFeaturesRequest, e.update_features.UpdateFeaturesResponse,
            "0 knows downgrades but not which kind (KIP-584); no client that runs today sends it"),
    ApiSpec(DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0,
            e.describe_cluster.DescribeClusterRequest, e.describe_cluster.DescribeClusterResponse),
    ApiSpec(DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0,
            e.describe_producers.DescribeProducersRequest,
            e.describe_producers.DescribeProducersResponse),
    ApiSpec(UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0,
            e.unregister_broker.UnregisterBrokerRequest,
            e.unregister_broker.UnregisterBrokerResponse),
    ApiSpec(DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0,
            e.describe_transactions.DescribeTransactionsRequest,
            e.describe_transactions.DescribeTransactionsResponse),
    ApiSpec(LIST_TRANSACTIONS, "ListTransactions", 0, 1, 0,
            e.list_transactions.ListTransactionsRequest,
            e.list_transactions.ListTransactionsResponse,
            "2 filters by a client's regular expression (KIP-1152), of a kind that takes no more "
            "than its input's time; Python has none, and a pattern could hold the broker up"),
    ApiSpec(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0,
            e.consumer_group_heartbeat.ConsumerGroupHeartbeatRequest,
            e.consumer_group_heartbeat.ConsumerGroupHeartbeatResponse),
    ApiSpec(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0,
            e.consumer_group_describe.ConsumerGroupDescribeRequest,
            e.consumer_group_describe.ConsumerGroupDescribeResponse),
    ApiSpec(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0,
            e.describe_topic_partitions.DescribeTopicPartitionsRequest,
            e.describe_topic_partitions.DescribeTopicPartitionsResponse),
    ApiSpec(REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0,
            e.remove_raft_voter.RemoveRaftVoterRequest,
            e.remove_raft_voter.RemoveRaftVoterResponse),
)
# fmt: on

APIS: dict[int, ApiSpec] = {row.key: row for row in _ROWS}


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether a supported version uses compact lengths and tagged fields (KIP-482)."""
    return api_version >= APIS[api_key].flexible_since

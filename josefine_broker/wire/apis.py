"""The table of API keys that this package translates: one literal row each.

Number, name and versions are defined only here, and the name leads to the shapes. The codec, the
client and the broker's table of handlers (`api/table.py`) use these rows. A bound that differs from
Kafka's own has its reason in its row; the tests compare with Kafka's schemas.
"""

import re
from functools import cache
from importlib import import_module
from typing import NamedTuple


class ApiSpec(NamedTuple):
    """One API key; all versions inclusive."""

    key: int
    name: str
    min_version: int
    max_version: int
    # The first version whose headers and bodies are "flexible" (KIP-482): request header v2,
    # response header v1, compact lengths, tagged fields.
    flexible_since: int
    why: str = ""  # the reason why a bound is not Kafka's
    is_declined: bool = False  # listed, and always refused (`api/declined.py`)

    @property
    def request(self) -> type:
        """The shape of a request, the same for all versions."""
        return _mirror(self, "Request") if self.is_declined else _shape(self.name, "Request")

    @property
    def response(self) -> type:
        return _mirror(self, "Response") if self.is_declined else _shape(self.name, "Response")


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
ALTER_REPLICA_LOG_DIRS = 34
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
CREATE_PARTITIONS = 37
CREATE_DELEGATION_TOKEN = 38
RENEW_DELEGATION_TOKEN = 39
EXPIRE_DELEGATION_TOKEN = 40
DESCRIBE_DELEGATION_TOKEN = 41
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
GET_TELEMETRY_SUBSCRIPTIONS = 71
PUSH_TELEMETRY = 72
LIST_CONFIG_RESOURCES = 74
DESCRIBE_TOPIC_PARTITIONS = 75
SHARE_GROUP_HEARTBEAT = 76
SHARE_GROUP_DESCRIBE = 77
SHARE_FETCH = 78
SHARE_ACKNOWLEDGE = 79
ADD_RAFT_VOTER = 80
REMOVE_RAFT_VOTER = 81
INITIALIZE_SHARE_GROUP_STATE = 83
READ_SHARE_GROUP_STATE = 84
WRITE_SHARE_GROUP_STATE = 85
DELETE_SHARE_GROUP_STATE = 86
READ_SHARE_GROUP_STATE_SUMMARY = 87
STREAMS_GROUP_HEARTBEAT = 88
STREAMS_GROUP_DESCRIBE = 89
DESCRIBE_SHARE_GROUP_OFFSETS = 90
ALTER_SHARE_GROUP_OFFSETS = 91
DELETE_SHARE_GROUP_OFFSETS = 92
STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
UNREGISTER_CONTROLLER = 94


def _declined(key: int, name: str, low: int, high: int, flexible_since: int) -> ApiSpec:
    return ApiSpec(key, name, low, high, flexible_since, is_declined=True)


# fmt: off
_ROWS = (
    ApiSpec(PRODUCE, "Produce", 0, 13, 9,
            "0 for librdkafka's sake (KAFKA-18659); the formats of 0 to 2 are refused (KIP-724)"),
    ApiSpec(FETCH, "Fetch", 4, 18, 12),
    ApiSpec(LIST_OFFSETS, "ListOffsets", 1, 11, 6),
    ApiSpec(METADATA, "Metadata", 0, 13, 9),
    ApiSpec(OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
    ApiSpec(OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
    ApiSpec(FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    ApiSpec(JOIN_GROUP, "JoinGroup", 0, 9, 6),
    ApiSpec(HEARTBEAT, "Heartbeat", 0, 4, 4),
    ApiSpec(LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    ApiSpec(SYNC_GROUP, "SyncGroup", 0, 5, 4),
    ApiSpec(DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
    ApiSpec(LIST_GROUPS, "ListGroups", 0, 5, 3),
    ApiSpec(SASL_HANDSHAKE, "SaslHandshake", 1, 1, 2,
            "after version 0 tokens come without requests around them (KIP-152)"),
    ApiSpec(API_VERSIONS, "ApiVersions", 0, 5, 3),
    ApiSpec(CREATE_TOPICS, "CreateTopics", 2, 7, 5),
    ApiSpec(DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    ApiSpec(DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    ApiSpec(INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2),
    ApiSpec(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    ApiSpec(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    ApiSpec(ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    ApiSpec(END_TXN, "EndTxn", 0, 5, 3),
    ApiSpec(WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
    ApiSpec(TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 6, 3),
    ApiSpec(DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
    ApiSpec(CREATE_ACLS, "CreateAcls", 1, 3, 2),
    ApiSpec(DELETE_ACLS, "DeleteAcls", 1, 3, 2),
    ApiSpec(DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
    ApiSpec(ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    ApiSpec(ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2),
    ApiSpec(DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
    ApiSpec(SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    ApiSpec(CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    _declined(CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 1, 3, 2),
    _declined(RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 1, 2, 2),
    _declined(EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 1, 2, 2),
    _declined(DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 1, 3, 2),
    ApiSpec(DELETE_GROUPS, "DeleteGroups", 0, 3, 2),
    ApiSpec(ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    ApiSpec(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    ApiSpec(ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0),
    ApiSpec(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    ApiSpec(OFFSET_DELETE, "OffsetDelete", 0, 0, 1),
    ApiSpec(DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    ApiSpec(ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    ApiSpec(DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    ApiSpec(ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    ApiSpec(DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0),
    ApiSpec(UPDATE_FEATURES, "UpdateFeatures", 1, 2, 0,
            "0 knows downgrades but not which kind (KIP-584); no client that runs today sends it"),
    ApiSpec(DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
    ApiSpec(DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    ApiSpec(UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0),
    ApiSpec(DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    ApiSpec(LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
    ApiSpec(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    ApiSpec(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    ApiSpec(GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0),
    ApiSpec(PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0),
    ApiSpec(LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
    ApiSpec(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
    ApiSpec(SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0),
    ApiSpec(SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0),
    ApiSpec(SHARE_FETCH, "ShareFetch", 1, 2, 0),
    ApiSpec(SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 0),
    _declined(ADD_RAFT_VOTER, "AddRaftVoter", 0, 1, 0),
    ApiSpec(REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0),
    ApiSpec(INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, 0),
    ApiSpec(READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0),
    ApiSpec(WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, 0),
    ApiSpec(DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0),
    ApiSpec(READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, 0),
    _declined(STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", 0, 1, 0),
    _declined(STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", 0, 1, 0),
    ApiSpec(DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, 0),
    ApiSpec(ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, 0),
    ApiSpec(DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, 0),
    _declined(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
              "StreamsGroupTopologyDescriptionUpdate", 0, 0, 0),
    _declined(UNREGISTER_CONTROLLER, "UnregisterController", 0, 0, 0),
)
# fmt: on

APIS: dict[int, ApiSpec] = {row.key: row for row in _ROWS}


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether a supported version uses compact lengths and tagged fields (KIP-482)."""
    return api_version >= APIS[api_key].flexible_since


@cache
def _shape(name: str, what: str) -> type:
    """Loaded on first use: a client needs a few of the shapes, and creating all of them is a third
    of the imports of a Spark Python process (0.32 of 0.91 s, measured)."""
    file = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    place = "wire" if name in ("Produce", "Fetch") else "wire.entities"
    shape: type = getattr(import_module(f"josefine_broker.{place}.{file}"), name + what)
    return shape


@cache
def _mirror(spec: ApiSpec, what: str) -> type:
    """Loaded late like those: the schemas are kio's, a package that is slow to import."""
    schemas = import_module("josefine_broker.base.schemas")
    load = schemas.load_request_schema if what == "Request" else schemas.load_response_schema
    shape: type = import_module("josefine_broker.wire.mirrored").mirrored(
        load(spec.key, spec.max_version)
    )
    return shape

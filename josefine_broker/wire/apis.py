"""The API keys and versions that this package can translate, as a literal table.

A broker may serve fewer (`handlers/table.py` says which); nobody can serve more. Every bound
that differs from Kafka's own has its reason beside it.
"""

from typing import NamedTuple


class ApiSpec(NamedTuple):
    """One API key; both versions inclusive."""

    key: int
    name: str
    min_version: int
    max_version: int


PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
LIST_GROUPS = 16
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
DESCRIBE_LOG_DIRS = 35
CREATE_PARTITIONS = 37
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
DESCRIBE_QUORUM = 55
UPDATE_FEATURES = 57
DESCRIBE_CLUSTER = 60
UNREGISTER_BROKER = 64
DESCRIBE_TOPIC_PARTITIONS = 75
REMOVE_RAFT_VOTER = 81

_SPECS = (
    # Record formats v0 and v1, which 0 to 2 are for, are refused by the broker (KIP-724).
    ApiSpec(PRODUCE, "Produce", 0, 13),
    ApiSpec(FETCH, "Fetch", 4, 18),
    ApiSpec(LIST_OFFSETS, "ListOffsets", 1, 11),
    ApiSpec(METADATA, "Metadata", 0, 13),
    ApiSpec(OFFSET_COMMIT, "OffsetCommit", 2, 10),
    ApiSpec(OFFSET_FETCH, "OffsetFetch", 1, 10),
    ApiSpec(FIND_COORDINATOR, "FindCoordinator", 0, 6),
    ApiSpec(LIST_GROUPS, "ListGroups", 0, 5),
    ApiSpec(API_VERSIONS, "ApiVersions", 0, 4),
    ApiSpec(CREATE_TOPICS, "CreateTopics", 2, 7),
    ApiSpec(DELETE_TOPICS, "DeleteTopics", 1, 6),
    ApiSpec(DELETE_RECORDS, "DeleteRecords", 0, 2),
    # 6 is two-phase commit (KIP-939), which Kafka itself still marks unstable.
    ApiSpec(INIT_PRODUCER_ID, "InitProducerId", 0, 5),
    ApiSpec(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4),
    ApiSpec(DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4),
    ApiSpec(ALTER_CONFIGS, "AlterConfigs", 0, 2),
    ApiSpec(DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5),
    ApiSpec(CREATE_PARTITIONS, "CreatePartitions", 0, 3),
    ApiSpec(ELECT_LEADERS, "ElectLeaders", 0, 2),
    ApiSpec(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1),
    ApiSpec(ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1),
    ApiSpec(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0),
    ApiSpec(DESCRIBE_QUORUM, "DescribeQuorum", 0, 2),
    # 0 knows downgrades but not which kind (KIP-584); no client that runs today sends it.
    ApiSpec(UPDATE_FEATURES, "UpdateFeatures", 1, 2),
    ApiSpec(DESCRIBE_CLUSTER, "DescribeCluster", 0, 2),
    ApiSpec(UNREGISTER_BROKER, "UnregisterBroker", 0, 0),
    ApiSpec(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0),
    ApiSpec(REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0),
)

APIS: dict[int, ApiSpec] = {spec.key: spec for spec in _SPECS}

# First version whose headers and bodies are "flexible" (KIP-482): request header v2, response
# header v1, compact lengths, tagged fields. A key that is not here has no flexible version.
FLEXIBLE_SINCE: dict[int, int] = {
    PRODUCE: 9,
    FETCH: 12,
    LIST_OFFSETS: 6,
    METADATA: 9,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 6,
    FIND_COORDINATOR: 3,
    LIST_GROUPS: 3,
    API_VERSIONS: 3,
    CREATE_TOPICS: 5,
    DELETE_TOPICS: 4,
    DELETE_RECORDS: 2,
    INIT_PRODUCER_ID: 2,
    OFFSET_FOR_LEADER_EPOCH: 4,
    DESCRIBE_CONFIGS: 4,
    ALTER_CONFIGS: 2,
    DESCRIBE_LOG_DIRS: 2,
    CREATE_PARTITIONS: 2,
    ELECT_LEADERS: 2,
    INCREMENTAL_ALTER_CONFIGS: 1,
    ALTER_PARTITION_REASSIGNMENTS: 0,
    LIST_PARTITION_REASSIGNMENTS: 0,
    DESCRIBE_QUORUM: 0,
    UPDATE_FEATURES: 0,
    DESCRIBE_CLUSTER: 0,
    UNREGISTER_BROKER: 0,
    DESCRIBE_TOPIC_PARTITIONS: 0,
    REMOVE_RAFT_VOTER: 0,
}


def is_supported(api_key: int, api_version: int) -> bool:
    """Whether this package translates that version of that key."""
    spec = APIS.get(api_key)
    return spec is not None and spec.min_version <= api_version <= spec.max_version


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether a supported version uses compact lengths and tagged fields (KIP-482)."""
    return api_version >= FLEXIBLE_SINCE[api_key]

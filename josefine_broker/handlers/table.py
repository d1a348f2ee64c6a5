"""The API table: every key this broker serves, its versions, its handler. The only registration.

ApiVersions answers from it, the routes and COMPATIBILITY.md are made of it. Versions are inclusive
and within what `wire/apis.py` can translate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from josefine_broker.base.errors import KafkaError
from josefine_broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from josefine_broker.handlers.api_versions import ApiVersionsHandler
from josefine_broker.handlers.context import Handler

API_VERSIONS_KEY = 18


class Api(NamedTuple):
    """One served API. `refuse(request, error)` is its answer when the whole request is refused;
    None: no answer is owed."""

    key: int
    name: str
    min_version: int
    max_version: int
    handler: Handler
    refuse: Callable[[Any, KafkaError], Any]


_CLIENT_APIS = (
    Api(0, "Produce", 0, 13, produce.handle, produce.refuse),
    Api(1, "Fetch", 4, 18, fetch.handle, fetch.refuse),
    Api(2, "ListOffsets", 1, 11, list_offsets.handle, list_offsets.refuse),
    Api(3, "Metadata", 0, 13, metadata.handle, metadata.refuse),
    Api(8, "OffsetCommit", 2, 10, offset_commit.handle, offset_commit.refuse),
    Api(9, "OffsetFetch", 1, 10, offset_fetch.handle, offset_fetch.refuse),
    Api(10, "FindCoordinator", 0, 6, find_coordinator.handle, find_coordinator.refuse),
    Api(16, "ListGroups", 0, 5, list_groups.handle, list_groups.refuse),
    Api(19, "CreateTopics", 2, 7, create_topics.handle, create_topics.refuse),
    Api(20, "DeleteTopics", 1, 6, delete_topics.handle, delete_topics.refuse),
    Api(21, "DeleteRecords", 0, 2, delete_records.handle, delete_records.refuse),
    Api(22, "InitProducerId", 0, 5, init_producer_id.handle, init_producer_id.refuse),
    Api(
        23,
        "OffsetForLeaderEpoch",
        2,
        4,
        offset_for_leader_epoch.handle,
        offset_for_leader_epoch.refuse,
    ),
    Api(32, "DescribeConfigs", 1, 4, describe_configs.handle, describe_configs.refuse),
    Api(33, "AlterConfigs", 0, 2, alter_configs.handle, alter_configs.refuse),
    Api(35, "DescribeLogDirs", 1, 5, describe_log_dirs.handle, describe_log_dirs.refuse),
    Api(37, "CreatePartitions", 0, 3, create_partitions.handle, create_partitions.refuse),
    Api(43, "ElectLeaders", 0, 2, elect_leaders.handle, elect_leaders.refuse),
    Api(
        44,
        "IncrementalAlterConfigs",
        0,
        1,
        incremental_alter_configs.handle,
        incremental_alter_configs.refuse,
    ),
    Api(
        45,
        "AlterPartitionReassignments",
        0,
        1,
        alter_partition_reassignments.handle,
        alter_partition_reassignments.refuse,
    ),
    Api(
        46,
        "ListPartitionReassignments",
        0,
        0,
        list_partition_reassignments.handle,
        list_partition_reassignments.refuse,
    ),
    Api(55, "DescribeQuorum", 0, 2, describe_quorum.handle, describe_quorum.refuse),
    Api(57, "UpdateFeatures", 1, 2, update_features.handle, update_features.refuse),
    Api(60, "DescribeCluster", 0, 2, describe_cluster.handle, describe_cluster.refuse),
    Api(64, "UnregisterBroker", 0, 0, unregister_broker.handle, unregister_broker.refuse),
    Api(
        75,
        "DescribeTopicPartitions",
        0,
        0,
        describe_topic_partitions.handle,
        describe_topic_partitions.refuse,
    ),
    Api(81, "RemoveRaftVoter", 0, 0, remove_raft_voter.handle, remove_raft_voter.refuse),
)

API_VERSIONS = ApiVersionsHandler(
    [(api.key, api.min_version, api.max_version) for api in _CLIENT_APIS] + [(18, 0, 4)]
)

APIS: tuple[Api, ...] = tuple(
    sorted(
        (
            *_CLIENT_APIS,
            Api(API_VERSIONS_KEY, "ApiVersions", 0, 4, API_VERSIONS.handle, API_VERSIONS.refuse),
        ),
        key=lambda api: api.key,
    )
)
BY_KEY: dict[int, Api] = {api.key: api for api in APIS}

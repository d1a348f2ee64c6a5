"""One shape per API key: what handlers and the client see, whatever version is on the wire.

Rules: plain values (int, str, bytes, bool, tuple, UUID, None, ErrorCode); durations are ints whose
name ends in `_ms`, times are milliseconds since the epoch; "no topic id" is None. Field names are
those of the newest version of Kafka's message schema, so that a reader can look each up at
kafka.apache.org/protocol. A field that only some versions carry has a default, which a request
of an older version shows and a response to an older version drops. OffsetCommit and OffsetFetch
carry name *and* id of a topic: version 10 puts the id on the wire, older ones the name.

Produce and Fetch are coded by hand and have their own shapes: `wire.produce`, `wire.fetch`.
"""

from josefine_broker.wire.entities import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    remove_raft_voter,
    sync_group,
    unregister_broker,
    update_features,
)

__all__ = [
    "alter_configs",
    "alter_partition_reassignments",
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "describe_quorum",
    "describe_topic_partitions",
    "elect_leaders",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "remove_raft_voter",
    "sync_group",
    "unregister_broker",
    "update_features",
]

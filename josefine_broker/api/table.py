"""The handlers of all API keys: a literal table, and the only registration.

Each key is a row of `wire/apis.py`, with its name and versions; here it gets the file that handles
it, guarded by its rule of `api/access.py`. ApiVersions, the routes and COMPATIBILITY.md are
generated from this table.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from josefine_broker.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    read_share_group_state,
    read_share_group_state_summary,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_share_group_state,
    write_txn_markers,
)
from josefine_broker.api.access import guarded
from josefine_broker.api.api_versions import ApiVersionsHandler
from josefine_broker.api.declined import REASONS, Declined
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Handler
from josefine_broker.wire import apis
from josefine_broker.wire.apis import ApiSpec

Refuse = Callable[[Any, KafkaError], Any]
"""The answer to a request that is refused as a whole; None: no answer is owed."""


class ApiFile(Protocol):
    """The interface of an API key's file, under these two names."""

    @property
    def handle(self) -> Handler: ...

    @property
    def refuse(self) -> Refuse: ...


class Api(NamedTuple):
    """One served API: its row, and its file's two functions, the handler guarded by its rule."""

    spec: ApiSpec
    handle: Handler
    refuse: Refuse


_FILES: Mapping[int, ApiFile] = {
    apis.PRODUCE: produce,
    apis.FETCH: fetch,
    apis.LIST_OFFSETS: list_offsets,
    apis.METADATA: metadata,
    apis.OFFSET_COMMIT: offset_commit,
    apis.OFFSET_FETCH: offset_fetch,
    apis.FIND_COORDINATOR: find_coordinator,
    apis.JOIN_GROUP: join_group,
    apis.HEARTBEAT: heartbeat,
    apis.LEAVE_GROUP: leave_group,
    apis.SYNC_GROUP: sync_group,
    apis.DESCRIBE_GROUPS: describe_groups,
    apis.LIST_GROUPS: list_groups,
    apis.SASL_HANDSHAKE: sasl_handshake,
    apis.CREATE_TOPICS: create_topics,
    apis.DELETE_TOPICS: delete_topics,
    apis.DELETE_RECORDS: delete_records,
    apis.INIT_PRODUCER_ID: init_producer_id,
    apis.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    apis.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    apis.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    apis.END_TXN: end_txn,
    apis.WRITE_TXN_MARKERS: write_txn_markers,
    apis.TXN_OFFSET_COMMIT: txn_offset_commit,
    apis.DESCRIBE_ACLS: describe_acls,
    apis.CREATE_ACLS: create_acls,
    apis.DELETE_ACLS: delete_acls,
    apis.DESCRIBE_CONFIGS: describe_configs,
    apis.ALTER_CONFIGS: alter_configs,
    apis.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    apis.DESCRIBE_LOG_DIRS: describe_log_dirs,
    apis.SASL_AUTHENTICATE: sasl_authenticate,
    apis.CREATE_PARTITIONS: create_partitions,
    apis.DELETE_GROUPS: delete_groups,
    apis.ELECT_LEADERS: elect_leaders,
    apis.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    apis.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    apis.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    apis.OFFSET_DELETE: offset_delete,
    apis.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    apis.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
    apis.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    apis.DESCRIBE_QUORUM: describe_quorum,
    apis.UPDATE_FEATURES: update_features,
    apis.DESCRIBE_CLUSTER: describe_cluster,
    apis.DESCRIBE_PRODUCERS: describe_producers,
    apis.UNREGISTER_BROKER: unregister_broker,
    apis.DESCRIBE_TRANSACTIONS: describe_transactions,
    apis.LIST_TRANSACTIONS: list_transactions,
    apis.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    apis.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    apis.GET_TELEMETRY_SUBSCRIPTIONS: get_telemetry_subscriptions,
    apis.PUSH_TELEMETRY: push_telemetry,
    apis.LIST_CONFIG_RESOURCES: list_config_resources,
    apis.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    apis.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    apis.SHARE_GROUP_DESCRIBE: share_group_describe,
    apis.SHARE_FETCH: share_fetch,
    apis.SHARE_ACKNOWLEDGE: share_acknowledge,
    apis.REMOVE_RAFT_VOTER: remove_raft_voter,
    apis.INITIALIZE_SHARE_GROUP_STATE: initialize_share_group_state,
    apis.READ_SHARE_GROUP_STATE: read_share_group_state,
    apis.WRITE_SHARE_GROUP_STATE: write_share_group_state,
    apis.DELETE_SHARE_GROUP_STATE: delete_share_group_state,
    apis.READ_SHARE_GROUP_STATE_SUMMARY: read_share_group_state_summary,
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    apis.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    apis.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets,
    **{key: Declined(key) for key in REASONS},
}

API_VERSIONS = ApiVersionsHandler(apis.APIS[key] for key in sorted((*_FILES, apis.API_VERSIONS)))

SERVED: Mapping[int, Api] = {
    key: Api(apis.APIS[key], guarded(key, file.handle, file.refuse), file.refuse)
    for key, file in sorted({**_FILES, apis.API_VERSIONS: API_VERSIONS}.items())
}
"""By key, in key order."""

"""The access rules of requests: a literal table with a row for every served API key.

It follows Apache Kafka ("Operations and Resources on Protocols" in its security manual). A row is a
tuple of steps that must all be passed; an empty one allows every client.

Requests that only brokers send to each other are refused, with or without ACLs, on a listener that
brokers do not use: otherwise an authenticated client could claim that followers have records they
lack.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import update_wrapper
from typing import Any

from josefine_broker.api.declined import REASONS
from josefine_broker.api.rules.asker import CODES, After, Asker, Refuse, Rule, authorized
from josefine_broker.api.rules.groups import (
    coordinators,
    deleted_offsets,
    described_topics,
    fetched_offsets,
    subscribed_topics,
)
from josefine_broker.api.rules.kinds import (
    NOT_ASKED,
    cluster,
    each,
    each_topic,
    seen,
    whole,
    with_operations,
)
from josefine_broker.api.rules.share_groups import (
    described_share_offsets,
    described_share_topics,
    each_share_topic,
    shared_group,
)
from josefine_broker.api.rules.topics import (
    configs,
    created_topics,
    fetch,
    metadata_topics,
    produce,
    topic_partitions,
)
from josefine_broker.api.rules.transactions import (
    BROKERS_SINCE,
    added_partitions,
    new_producer,
    topics_of_transactions,
)
from josefine_broker.base.acls import CLUSTER_NAME, Operation, ResourceType
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, Handler, RequestInfo
from josefine_broker.wire import apis

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DELETE = Operation.READ, Operation.WRITE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

OPEN: Rule = ()
SHARE_STATE = (
    apis.INITIALIZE_SHARE_GROUP_STATE,
    apis.READ_SHARE_GROUP_STATE,
    apis.WRITE_SHARE_GROUP_STATE,
    apis.DELETE_SHARE_GROUP_STATE,
    apis.READ_SHARE_GROUP_STATE_SUMMARY,
)
"""Requests to share coordinators, which only brokers send."""
IS_MEMBER = whole(READ, GROUP, "group_id")
IS_PRODUCER = whole(WRITE, TRANSACTIONAL_ID, "transactional_id")


def _cluster_operations(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
    def after(answer: Any) -> Any:
        if answer.cluster_authorized_operations == NOT_ASKED:
            return answer
        bits = asker.operations(CLUSTER, CLUSTER_NAME) if asker.may_cluster(DESCRIBE) else 0
        return replace(answer, cluster_authorized_operations=bits)

    return request, after


RULES: Mapping[int, Rule] = {
    apis.PRODUCE: (produce,),
    apis.FETCH: (fetch,),
    apis.LIST_OFFSETS: (each(DESCRIBE, TOPIC, "topics", "topics", "name"),),
    apis.METADATA: (metadata_topics, _cluster_operations),
    apis.OFFSET_COMMIT: (IS_MEMBER, each_topic(READ, "topics", "topics")),
    apis.OFFSET_FETCH: (fetched_offsets,),
    apis.FIND_COORDINATOR: (coordinators,),
    apis.JOIN_GROUP: (IS_MEMBER,),
    apis.HEARTBEAT: (IS_MEMBER,),
    apis.LEAVE_GROUP: (IS_MEMBER,),
    apis.SYNC_GROUP: (IS_MEMBER,),
    apis.DESCRIBE_GROUPS: (
        each(DESCRIBE, GROUP, "groups", "groups"),
        with_operations(GROUP, "groups", "group_id", "authorized_operations"),
    ),
    apis.LIST_GROUPS: (seen(DESCRIBE, GROUP, "groups", "group_id"),),
    apis.SASL_HANDSHAKE: OPEN,
    apis.API_VERSIONS: OPEN,
    apis.CREATE_TOPICS: (created_topics,),
    apis.DELETE_TOPICS: (each_topic(DELETE, "topics", "responses"),),
    apis.DELETE_RECORDS: (each(DELETE, TOPIC, "topics", "topics", "name"),),
    apis.INIT_PRODUCER_ID: (new_producer,),
    apis.OFFSET_FOR_LEADER_EPOCH: (each(DESCRIBE, TOPIC, "topics", "topics", "topic"),),
    apis.ADD_PARTITIONS_TO_TXN: (added_partitions,),
    apis.ADD_OFFSETS_TO_TXN: (IS_PRODUCER, IS_MEMBER),
    apis.END_TXN: (IS_PRODUCER,),
    apis.WRITE_TXN_MARKERS: (cluster(Operation.CLUSTER_ACTION),),
    apis.TXN_OFFSET_COMMIT: (
        IS_PRODUCER,
        IS_MEMBER,
        each_topic(READ, "topics", "topics"),
    ),
    apis.DESCRIBE_ACLS: (cluster(DESCRIBE),),
    apis.CREATE_ACLS: (cluster(ALTER),),
    apis.DELETE_ACLS: (cluster(ALTER),),
    apis.DESCRIBE_CONFIGS: (configs(DESCRIBE_CONFIGS, "results"),),
    apis.ALTER_CONFIGS: (configs(ALTER_CONFIGS, "responses"),),
    apis.ALTER_REPLICA_LOG_DIRS: (cluster(ALTER),),
    apis.DESCRIBE_LOG_DIRS: (cluster(DESCRIBE),),
    apis.SASL_AUTHENTICATE: OPEN,
    apis.CREATE_PARTITIONS: (each(ALTER, TOPIC, "topics", "results", "name"),),
    apis.DELETE_GROUPS: (each(DELETE, GROUP, "groups_names", "results"),),
    apis.ELECT_LEADERS: (cluster(ALTER),),
    apis.INCREMENTAL_ALTER_CONFIGS: (configs(ALTER_CONFIGS, "responses"),),
    apis.ALTER_PARTITION_REASSIGNMENTS: (cluster(ALTER),),
    apis.LIST_PARTITION_REASSIGNMENTS: (cluster(DESCRIBE),),
    apis.OFFSET_DELETE: (whole(DELETE, GROUP, "group_id"), deleted_offsets),
    apis.DESCRIBE_CLIENT_QUOTAS: (cluster(DESCRIBE_CONFIGS),),
    apis.ALTER_CLIENT_QUOTAS: (cluster(ALTER_CONFIGS),),
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: (cluster(DESCRIBE),),
    apis.ALTER_USER_SCRAM_CREDENTIALS: (cluster(ALTER),),
    apis.DESCRIBE_QUORUM: (cluster(DESCRIBE),),
    apis.UPDATE_FEATURES: (cluster(ALTER),),
    apis.DESCRIBE_CLUSTER: (_cluster_operations,),
    apis.DESCRIBE_PRODUCERS: (each(READ, TOPIC, "topics", "topics", "name"),),
    apis.UNREGISTER_BROKER: (cluster(ALTER),),
    apis.GET_TELEMETRY_SUBSCRIPTIONS: OPEN,
    apis.PUSH_TELEMETRY: OPEN,
    apis.DESCRIBE_TRANSACTIONS: (
        each(DESCRIBE, TRANSACTIONAL_ID, "transactional_ids", "transaction_states"),
        topics_of_transactions,
    ),
    apis.LIST_TRANSACTIONS: (
        seen(DESCRIBE, TRANSACTIONAL_ID, "transaction_states", "transactional_id"),
    ),
    apis.CONSUMER_GROUP_HEARTBEAT: (IS_MEMBER, subscribed_topics),
    apis.CONSUMER_GROUP_DESCRIBE: (
        each(DESCRIBE, GROUP, "group_ids", "groups"),
        described_topics,
        with_operations(GROUP, "groups", "group_id", "authorized_operations"),
    ),
    apis.DESCRIBE_TOPIC_PARTITIONS: (
        topic_partitions,
        with_operations(TOPIC, "topics", "name", "topic_authorized_operations"),
    ),
    apis.SHARE_GROUP_HEARTBEAT: (IS_MEMBER, subscribed_topics),
    apis.SHARE_GROUP_DESCRIBE: (
        each(DESCRIBE, GROUP, "group_ids", "groups"),
        described_share_topics,
        with_operations(GROUP, "groups", "group_id", "authorized_operations"),
    ),
    apis.SHARE_FETCH: (shared_group,),  # and READ on each topic (api/shared/share_sessions.py)
    apis.SHARE_ACKNOWLEDGE: (shared_group,),
    apis.REMOVE_RAFT_VOTER: (cluster(ALTER),),
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: (described_share_offsets,),
    apis.ALTER_SHARE_GROUP_OFFSETS: (IS_MEMBER, each_share_topic),
    apis.DELETE_SHARE_GROUP_OFFSETS: (whole(DELETE, GROUP, "group_id"), each_share_topic),
    apis.LIST_CONFIG_RESOURCES: (cluster(DESCRIBE_CONFIGS),),
    **dict.fromkeys(REASONS, OPEN),
    apis.ADD_RAFT_VOTER: (cluster(ALTER),),
    **dict.fromkeys(SHARE_STATE, (cluster(Operation.CLUSTER_ACTION),)),
}


BROKERS: Mapping[int, Callable[[RequestInfo, Any], bool]] = {
    apis.FETCH: lambda _, request: bool(request.replica_id >= 0),
    apis.ADD_PARTITIONS_TO_TXN: lambda info, _: bool(info.header.api_version >= BROKERS_SINCE),
    **dict.fromkeys((apis.WRITE_TXN_MARKERS, *SHARE_STATE), lambda *_: True),
}
"""Whether only brokers send this request: those that need CLUSTER_ACTION."""


def guarded(api_key: int, handle: Handler, refuse: Refuse) -> Handler:
    """The handler, guarded by its rule."""
    rule, is_brokers = RULES[api_key], BROKERS.get(api_key)

    def ask(ctx: Context, info: RequestInfo, request: Any) -> Any:
        if (
            is_brokers is not None
            and info.listener in ctx.clients.listeners_apart
            and is_brokers(info, request)
        ):
            raise KafkaError(
                CODES[CLUSTER], f"no broker comes through the listener {info.listener}"
            )
        if ctx.clients.authorizer is None:
            return handle(ctx, info, request)
        return authorized(rule, ctx, info, request, refuse, _go_on(handle, ctx, info))

    return update_wrapper(ask, handle)


def _go_on(handle: Handler, ctx: Context, info: RequestInfo) -> Callable[[Any], Any]:
    return lambda request: handle(ctx, info, request)

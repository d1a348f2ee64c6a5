"""What clients of a group send, as functions of a `World`; an answer may be a `Parked`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings, Context, OffsetsSettings
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire import apis
from josefine_broker.wire.entities import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    sync_group,
)
from josefine_broker.wire.entities import find_coordinator as e_find
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import World

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 20_000
SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
"""Version 0, the topic `orders`, no user data."""


def group_world(**settings: Any) -> World:
    """A broker with the topic `orders` of three partitions, and a coordinator. `settings` are those
    of groups; nobody is waited for at first."""
    settings.setdefault("initial_rebalance_delay_ms", 0)
    offsets = OffsetsSettings(groups=GroupSettings(**settings))
    world = World(BrokerSettings(auto_create_topics=False, data_directory="/data", offsets=offsets))
    world.create(partitions=3)
    find_coordinator(world)
    return world


class At:
    """One of several brokers, to be asked as a `World` is."""

    def __init__(self, cluster: Replicas, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    @property
    def ctx(self) -> Context:
        return self._cluster.ctx[self._broker_id]

    def ask(
        self, api_key: int, request: Any, *, version: int | None = None, client_id: str = "t"
    ) -> Any:
        return self._cluster.ask(self._broker_id, api_key, request, version)


Broker = World | At


def find_coordinator(broker: Broker) -> None:
    """The offsets topic is made."""
    request = e_find.FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
    broker.ask(apis.FIND_COORDINATOR, request)


def said(answer: Any) -> Any:
    """The answer, which must have come."""
    if isinstance(answer, Parked):
        assert answer.done, "it waits"
        return answer.response
    return answer


def join(
    world: Broker,
    member_id: str = "",
    *,
    group: str = GROUP,
    instance_id: str | None = None,
    protocols: Sequence[str] = ("range",),
    version: int | None = None,
    client_id: str = "c",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    protocol_type: str = "consumer",
) -> Any:
    """As a client does that was told its id, if it has one."""
    e = join_group
    request = e.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=tuple(
            e.JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in protocols
        ),
    )
    return world.ask(apis.JOIN_GROUP, request, version=version, client_id=client_id)


def newcomer(world: Broker, **changes: Any) -> Any:
    """Joins twice: first to be told its id (KIP-394)."""
    told = join(world, **changes)
    assert told.error_code is ErrorCode.member_id_required
    return join(world, told.member_id, **changes)


def sync(
    world: Broker,
    joined: Any,
    assignments: dict[str, bytes] | None = None,
    *,
    group: str = GROUP,
    version: int | None = None,
    **changes: Any,
) -> Any:
    """Behind the answer to a join; the leader has assignments."""
    e = sync_group
    fields: dict[str, Any] = {
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol_name,
        **changes,
    }
    request = e.SyncGroupRequest(
        group_id=group,
        assignments=tuple(
            e.SyncGroupRequestAssignment(member_id=key, assignment=each)
            for key, each in (assignments or {}).items()
        ),
        **fields,
    )
    return world.ask(apis.SYNC_GROUP, request, version=version)


def stable(world: Broker, **changes: Any) -> Any:
    """A group of one member, who has all; the answer to its join."""
    has_instance = changes.get("instance_id") is not None
    joined = said(join(world, **changes) if has_instance else newcomer(world, **changes))
    group = changes.get("group", GROUP)
    instance = {"group_instance_id": changes["instance_id"]} if has_instance else {}
    answer = sync(world, joined, {joined.member_id: b"all"}, group=group, **instance)
    assert said(answer).assignment == b"all"
    return joined


def beat(world: Broker, joined: Any, *, group: str = GROUP, **changes: Any) -> ErrorCode:
    fields: dict[str, Any] = {
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        **changes,
    }
    request = heartbeat.HeartbeatRequest(group_id=group, **fields)
    code: ErrorCode = world.ask(apis.HEARTBEAT, request).error_code
    return code


def leave(world: Broker, *members: tuple[str, str | None], version: int = 5) -> Any:
    e = leave_group
    leaving = tuple(
        e.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        for member_id, instance_id in members
    )
    request = e.LeaveGroupRequest(group_id=GROUP, members=leaving)
    return world.ask(apis.LEAVE_GROUP, request, version=version)


def commit(
    world: Broker,
    offset: int,
    joined: Any = None,
    *,
    group: str = GROUP,
    topic: str = "orders",
    version: int = 9,
    **changes: Any,
) -> ErrorCode:
    """Of partition 0; as a member, or as a simple consumer."""
    e = offset_commit
    fields: dict[str, Any] = {
        "generation_id_or_member_epoch": -1 if joined is None else joined.generation_id,
        "member_id": "" if joined is None else joined.member_id,
        **changes,
    }
    part = e.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = (e.OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
    request = e.OffsetCommitRequest(group_id=group, topics=topics, **fields)
    answer = said(world.ask(apis.OFFSET_COMMIT, request, version=version))
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


def committed(world: Broker, group: str = GROUP) -> dict[str, int]:
    """Topic → committed offset of partition 0."""
    found = world.ctx.clients.groups.coordinator.offsets.committed(group)
    return {tp.topic: each.offset for tp, each in found.items() if tp.partition == 0}


def described(world: Broker, group: str = GROUP, *, version: int = 6, **fields: Any) -> Any:
    request = describe_groups.DescribeGroupsRequest(groups=(group,), **fields)
    return world.ask(apis.DESCRIBE_GROUPS, request, version=version).groups[0]


def listed(world: Broker, **filters: Any) -> list[tuple[str, str]]:
    answer = world.ask(apis.LIST_GROUPS, list_groups.ListGroupsRequest(**filters))
    assert answer.error_code is ErrorCode.none
    return [(each.group_id, each.group_state) for each in answer.groups]


def delete(world: Broker, *groups: str) -> dict[str, ErrorCode]:
    request = delete_groups.DeleteGroupsRequest(groups_names=groups)
    answer = said(world.ask(apis.DELETE_GROUPS, request))
    return {each.group_id: each.error_code for each in answer.results}


def delete_offset(world: Broker, *topics: str, group: str = GROUP) -> Any:
    """Of partition 0 of these topics: (error of the whole, error by topic)."""
    e = offset_delete
    part = e.OffsetDeleteRequestPartition(partition_index=0)
    wanted = tuple(e.OffsetDeleteRequestTopic(name=each, partitions=(part,)) for each in topics)
    answer = said(
        world.ask(apis.OFFSET_DELETE, e.OffsetDeleteRequest(group_id=group, topics=wanted))
    )
    return answer.error_code, {t.name: t.partitions[0].error_code for t in answer.topics}

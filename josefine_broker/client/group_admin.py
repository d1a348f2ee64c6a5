"""Administration of groups: list, state and members, committed offsets.

Every broker lists its groups; each group's coordinator answers the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import topic_name
from josefine_broker.client.consumer_protocol import CONSUMER, decode_assignment
from josefine_broker.client.effects import Operation
from josefine_broker.client.groups import NO_OFFSET, ask_coordinator
from josefine_broker.client.operations import ask_each_broker, refresh
from josefine_broker.client.session import Attempts, Session
from josefine_broker.client.share_admin import SHARE, describe_members
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

TEXT = "text"
"""Protocol and type of the text protocol's groups."""
DEAD = "Dead"
EMPTY = "Empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group of a list; `coordinator` is a broker id."""

    group: str
    state: str
    protocol_type: str
    group_type: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member and its assignment; empty while its group rebalances."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members; `state` is DEAD for a missing group."""

    group: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    """Epoch of a consumer protocol or share group; None: it is a classic group."""

    @property
    def is_active(self) -> bool:
        """Whether it has members, or may have some in a moment."""
        return self.state not in (EMPTY, DEAD)


def list_groups(
    session: Session,
    states: Iterable[str],
    now_ms: int,
    deadline_ms: int,
    types: Collection[str] = (),
) -> Operation[list[GroupListing]]:
    """The groups of all brokers by name, filtered by `states` and by `types` if any are given."""
    attempts = session.start(now_ms, deadline_ms, "list groups")
    request = e.list_groups.ListGroupsRequest(
        states_filter=tuple(states), types_filter=tuple(types)
    )
    responses = yield from ask_each_broker(
        session, attempts, apis.LIST_GROUPS, request, _list_error
    )
    found = [
        GroupListing(
            group=each.group_id,
            state=each.group_state,
            protocol_type=each.protocol_type,
            group_type=each.group_type,
            coordinator=node,
        )
        for node, response in responses
        for each in response.groups
        if not types or each.group_type in types  # ListGroups before version 5 has no type filter
    ]
    return sorted(found, key=lambda each: each.group)


def _list_error(response: e.list_groups.ListGroupsResponse) -> KafkaError | None:
    code = response.error_code
    return None if code is ErrorCode.none else KafkaError(code, code.name.replace("_", " "))


def describe_group(
    session: Session, group: str, now_ms: int, deadline_ms: int
) -> Operation[GroupDescription]:
    """The coordinator's description of a group of any protocol; a missing group is DEAD."""
    attempts = session.start(now_ms, deadline_ms, f"group '{group}'")
    classic = yield from _describe_classic(session, attempts, group)
    # Brokers may list a share group here, too, without its members.
    if classic.state != DEAD and classic.protocol_type != SHARE:
        return classic
    found = yield from _describe_consumers(session, attempts, group)
    if found is None:
        found = yield from _describe_share(session, attempts, group)
    return found or classic


def _describe_classic(
    session: Session, attempts: Attempts, group: str
) -> Operation[GroupDescription]:
    response = yield from ask_coordinator(
        session,
        attempts,
        group,
        apis.DESCRIBE_GROUPS,
        e.describe_groups.DescribeGroupsRequest(groups=(group,)),
        lambda r: _group_error(group, r.groups[0].error_code, ErrorCode.group_id_not_found),
    )
    # DescribeGroups 6 (KIP-1043) has an error for an unknown group, older versions call it Dead:
    # the caller gets Dead from any broker.
    described = response.groups[0]
    is_missing = described.error_code is ErrorCode.group_id_not_found
    return GroupDescription(
        group=group,
        state=DEAD if is_missing else described.group_state,
        protocol_type=described.protocol_type,
        assignor=described.protocol_data,
        coordinator=session.coordinators[group],
        members=tuple(
            GroupMember(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                host=each.client_host.removeprefix("/"),
                assigned=_assigned(described.protocol_type, each.member_assignment),
            )
            for each in described.members
        ),
    )


def _describe_consumers(
    session: Session, attempts: Attempts, group: str
) -> Operation[GroupDescription | None]:
    """A consumer protocol group (KIP-848); None: there is none, or the broker does not know
    them."""
    request = e.consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=(group,))
    try:
        response = yield from ask_coordinator(
            session,
            attempts,
            group,
            apis.CONSUMER_GROUP_DESCRIBE,
            request,
            lambda r: _group_error(group, r.groups[0].error_code, ErrorCode.group_id_not_found),
        )
    except KafkaError as error:
        if error.code is ErrorCode.unsupported_version:  # a broker before KIP-848
            return None
        raise
    described = response.groups[0]
    if described.error_code is not ErrorCode.none:
        return None
    return _of_members(session, group, described, CONSUMER)


def _describe_share(
    session: Session, attempts: Attempts, group: str
) -> Operation[GroupDescription | None]:
    """A share group (KIP-932); None: there is none."""
    described = yield from describe_members(session, attempts, group)
    if described is None:
        return None
    return _of_members(session, group, described, SHARE)


def _of_members(
    session: Session,
    group: str,
    described: e.consumer_group_describe.DescribedGroup | e.share_group_describe.DescribedGroup,
    protocol_type: str,
) -> GroupDescription:
    """A group whose coordinator knows the members' partitions (KIP-848, KIP-932). Members of share
    groups have no instance ids."""
    return GroupDescription(
        group=group,
        state=described.group_state,
        protocol_type=protocol_type,
        assignor=described.assignor_name,
        coordinator=session.coordinators[group],
        members=tuple(
            GroupMember(
                member_id=each.member_id,
                # The two entities differ in this field alone.
                instance_id=getattr(each, "instance_id", None),
                client_id=each.client_id,
                host=each.client_host.removeprefix("/"),
                assigned=tuple(
                    TopicPartition(topic.topic_name, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for each in described.members
        ),
        epoch=described.group_epoch,
    )


def _assigned(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...]:
    """Members of other protocol types have assignments of other kinds; the assignment of a text
    protocol subscription is the name of its partition."""
    if protocol_type == TEXT:
        topic, _, index = assignment.decode(errors="replace").rpartition("-")
        return (TopicPartition(topic, int(index)),) if index.isdigit() else ()
    if protocol_type != CONSUMER:
        return ()
    try:
        return decode_assignment(assignment)
    except CorruptData:
        return ()


def all_committed(
    session: Session, group: str, now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, int]]:
    """All offsets that the group committed in existing topics."""
    attempts = session.start(now_ms, deadline_ms, f"offsets of group '{group}'")
    yield from refresh(session, attempts, None)
    entities = e.offset_fetch
    response = yield from ask_coordinator(
        session,
        attempts,
        group,
        apis.OFFSET_FETCH,
        entities.OffsetFetchRequest(
            groups=(entities.OffsetFetchRequestGroup(group_id=group, topics=None),)
        ),
        lambda r: _group_error(group, r.groups[0].error_code),
    )
    return {
        TopicPartition(name, p.partition_index): p.committed_offset
        for topic in response.groups[0].topics
        for name in (topic_name(session.cluster, topic.name, topic.topic_id),)
        for p in topic.partitions
        if name and p.committed_offset != NO_OFFSET
    }


def delete_group(session: Session, group: str, now_ms: int, deadline_ms: int) -> Operation[None]:
    """Delete the group with all its offsets. Raises KafkaError: it has members, or is missing."""
    attempts = session.start(now_ms, deadline_ms, f"delete group '{group}'")
    yield from ask_coordinator(
        session,
        attempts,
        group,
        apis.DELETE_GROUPS,
        e.delete_groups.DeleteGroupsRequest(groups_names=(group,)),
        lambda r: _group_error(group, r.results[0].error_code),
    )


_SAID = {
    ErrorCode.group_id_not_found: "does not exist",
    ErrorCode.non_empty_group: "has members: stop them first",
    ErrorCode.invalid_group_id: "cannot be the name of a group",
}


def _group_error(group: str, code: ErrorCode, *no_errors: ErrorCode) -> KafkaError | None:
    if code is ErrorCode.none or code in no_errors:
        return None
    return KafkaError(code, f"group '{group}' {_SAID.get(code, code.name.replace('_', ' '))}")

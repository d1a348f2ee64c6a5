"""JoinGroup: a newcomer, a member that joins again, and a static member's new process.

Rules: who joins is answered when the join phase is over, or at once where nothing changes for the
group. A newcomer without an instance id is told its member id first (KIP-394). A process that comes
with an instance id that is a member's takes its place: the process before is fenced (KIP-345), and
a stable group goes on as it is.
"""

from dataclasses import replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups import protocols
from josefine_broker.engine.groups.group import Group, Written
from josefine_broker.engine.groups.rebalancing import after_loss, complete_if_all_joined, prepare
from josefine_broker.engine.groups.states import GroupState, MemberEvent, MemberState
from josefine_broker.engine.groups.values import (
    NO_MEMBER,
    GroupSettings,
    Identity,
    Join,
    JoinAnswer,
    Member,
    Ticket,
)
from josefine_broker.engine.partition.fetch_session import Rng

NEWCOMER_TIMEOUT_MS = 300_000
"""How long the join of a newcomer waits: it cannot heartbeat, and nobody else would notice that its
client is gone (as Kafka)."""

NAME_CHARS_MAX = 249
"""Of a client's name in its member id: a string of the protocol has 32,767 bytes at most."""

RESERVED_MAX = 10_000
"""Ids told to newcomers of one group that have not come back with them. Past that the oldest is
forgotten: its client is given another."""


def join(
    group: Group, request: Join, ticket: Ticket, settings: GroupSettings, now_ms: int, rng: Rng
) -> None:
    """One JoinGroup whose session timeout is within the bounds."""
    member_id = request.member_id
    if not _has_room(group, member_id, settings):
        if member_id in group.members:
            group.remove(member_id)
            after_loss(group, settings, now_ms)
        group.reserved.pop(member_id, None)
        group.answer(ticket, JoinAnswer(error=ErrorCode.group_max_size_reached))
    elif not group.understands(request.protocol_type, request.protocols):
        refusal = JoinAnswer(error=ErrorCode.inconsistent_group_protocol, member_id=member_id)
        group.answer(ticket, refusal)
    elif member_id == NO_MEMBER:
        _newcomer(group, request, ticket, settings, now_ms, rng)
    elif member_id in group.reserved and request.instance_id is None:
        _add(group, request, member_id, ticket, settings, now_ms)
    else:
        code = group.check(Identity(member_id, request.instance_id))
        if code is ErrorCode.none:
            _again(group, group.members[member_id], request, ticket, settings, now_ms)
        else:
            group.answer(ticket, JoinAnswer(error=code, member_id=member_id))


def _has_room(group: Group, member_id: str, settings: GroupSettings) -> bool:
    """Whether it may join a group of limited size. While members join, those count who have: the
    last to come are out where the limit was lowered."""
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if not group.in_rebalance:
        return member is not None or len(group.members) < settings.size_max
    if member is not None and member.state is MemberState.JOINING:
        return True
    return len(group.in_state(MemberState.JOINING)) < settings.size_max


def _newcomer(
    group: Group, request: Join, ticket: Ticket, settings: GroupSettings, now_ms: int, rng: Rng
) -> None:
    instance_id = request.instance_id
    named = request.client_id if instance_id is None else instance_id
    member_id = f"{named[:NAME_CHARS_MAX]}-{UUID(int=rng.getrandbits(128), version=4)}"
    if instance_id is not None and instance_id in group.instances:
        before = group.members[group.instances[instance_id]]
        _take_over(group, before, member_id, request, ticket, settings, now_ms)
    elif request.takes_id_first and instance_id is None:
        if len(group.reserved) >= RESERVED_MAX:
            del group.reserved[next(iter(group.reserved))]
        group.reserved[member_id] = now_ms + request.session_timeout_ms
        answer = JoinAnswer(error=ErrorCode.member_id_required, member_id=member_id)
        group.answer(ticket, answer)
    else:
        _add(group, request, member_id, ticket, settings, now_ms)


def _add(
    group: Group,
    request: Join,
    member_id: str,
    ticket: Ticket,
    settings: GroupSettings,
    now_ms: int,
) -> None:
    group.reserved.pop(member_id, None)
    if not group.members:
        group.protocol_type = request.protocol_type
    group.saw_newcomer()
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        ticket=ticket,
        is_new=True,
    )
    group.put(member)
    group.sessions[member_id] = now_ms + NEWCOMER_TIMEOUT_MS
    _rebalance(group, settings, now_ms)


def _rebalance(group: Group, settings: GroupSettings, now_ms: int) -> None:
    """Somebody's join waits: the others are called, or have been."""
    if group.in_rebalance:
        complete_if_all_joined(group, now_ms)
    else:
        prepare(group, settings, now_ms)


def _again(
    group: Group,
    member: Member,
    request: Join,
    ticket: Ticket,
    settings: GroupSettings,
    now_ms: int,
) -> None:
    """A member joins again. One with nothing new, which perhaps never got its answer, is told what
    is, and its session begins anew: its client counts it from this join on, and sends the first
    heartbeat only after it. A stable group's leader wants a rebalance: for more partitions, say."""
    is_same = member.protocols == request.protocols
    wants_rebalance = group.state is GroupState.STABLE and group.leader_id == member.member_id
    if group.has_generation and is_same and not wants_rebalance:
        group.heard(member, now_ms)
        group.answer(ticket, group.current(member.member_id))
        return
    group.wait_to_join(member, ticket, **_renewed(request))
    _rebalance(group, settings, now_ms)


def _renewed(request: Join) -> dict[str, object]:
    """What a member that joins again may have changed."""
    return {
        "protocols": request.protocols,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "session_timeout_ms": request.session_timeout_ms,
    }


def _take_over(
    group: Group,
    before: Member,
    member_id: str,
    request: Join,
    ticket: Ticket,
    settings: GroupSettings,
    now_ms: int,
) -> None:
    """A new process has the instance id of a member: it is that member, under a new member id."""
    leader_before = group.leader_id
    group.remove(before.member_id, told=ErrorCode.fenced_instance_id)
    if leader_before == before.member_id:
        group.leader_id = member_id
    member = replace(
        before,
        member_id=member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        ticket=None,
        is_new=False,
        **_renewed(request),  # type: ignore[arg-type]
    )
    group.put(member)
    group.heard(member, now_ms)
    keeps = group.state is GroupState.STABLE and group.protocol_name == protocols.select(
        group.members.values()
    )
    if not keeps:
        # While an assignment is made the leader may have named the former id: all join again.
        group.wait_to_join(member, ticket)
        _rebalance(group, settings, now_ms)
        return
    member = member.moved(MemberEvent.TAKE_OVER, ticket=ticket)
    group.put(member)
    answer = group.current(member_id)
    is_leader = answer.leader_id == member_id
    if request.may_skip_assignment:
        answer = replace(answer, skip_assignment=is_leader)
    elif is_leader:
        # It cannot be told to leave the assignment as it is: so it must not know that it leads.
        answer = replace(answer, leader_id=before.member_id, members=())
    group.store(group.record(), Written(group.generation, taken_over=answer))

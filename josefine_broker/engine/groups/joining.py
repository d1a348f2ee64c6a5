"""The JoinGroup request: of a new member, of one that joins again, and of a static member's new
process.

Rules: a join is answered when the join phase is over, or at once if nothing changes for the group.
A new member without an instance id gets a member id first (KIP-394). A process with the instance id
of an existing member takes its place: the previous process is fenced (KIP-345), and a stable group
continues unchanged.
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
"""How long the join of a new member waits. It cannot send heartbeats, so a client that is gone
would go unnoticed otherwise (as in Kafka)."""

NAME_CHARS_MAX = 249
"""Of a client's name in its member id: strings of the protocol have at most 32,767 bytes."""

RESERVED_MAX = 10_000
"""Member ids of one group that were sent to new members which have not joined with them yet. Above
this the oldest is forgotten: its client gets another one."""


def join(
    group: Group, request: Join, ticket: Ticket, settings: GroupSettings, now_ms: int, rng: Rng
) -> None:
    """Handle one JoinGroup whose session timeout is within the limits."""
    member_id = request.member_id
    if not _has_room(group, member_id, settings):
        # The limit was lowered below the size of the group: a member that is refused and stays
        # would be waited for until the end of the join phase.
        if member_id in group.members:
            group.remove(member_id)
            after_loss(group, settings, now_ms)
        group.reserved.pop(member_id, None)
        group.answer(ticket, JoinAnswer(error=ErrorCode.group_max_size_reached))
    # Checked before anything changes: the group would be left without a common protocol.
    elif not group.understands(request.protocol_type, request.protocols):
        refusal = JoinAnswer(error=ErrorCode.inconsistent_group_protocol, member_id=member_id)
        group.answer(ticket, refusal)
    elif member_id == NO_MEMBER:
        _newcomer(group, request, ticket, settings, now_ms, rng)
    # The second step of KIP-394: the client returns with the id that it was given.
    elif member_id in group.reserved and request.instance_id is None:
        _add(group, request, member_id, ticket, settings, now_ms)
    else:
        code = group.check(Identity(member_id, request.instance_id))
        if code is ErrorCode.none:
            _again(group, group.members[member_id], request, ticket, settings, now_ms)
        else:
            group.answer(ticket, JoinAnswer(error=code, member_id=member_id))


def _has_room(group: Group, member_id: str, settings: GroupSettings) -> bool:
    """Whether it may join a group of limited size. During a rebalance, only members that have
    joined count: if the limit was lowered, the last ones to join are refused."""
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
    """A join without a member id: a new member, or the next process of a static one (KIP-345)."""
    instance_id = request.instance_id
    # As in Kafka: the name is for people who list the group, the UUID makes the id unique. It comes
    # from `rng`, so a simulation with the same seed has the same ids.
    named = request.client_id if instance_id is None else instance_id
    member_id = f"{named[:NAME_CHARS_MAX]}-{UUID(int=rng.getrandbits(128), version=4)}"
    if instance_id is not None and instance_id in group.instances:
        before = group.members[group.instances[instance_id]]
        _take_over(group, before, member_id, request, ticket, settings, now_ms)
    # KIP-394: the id is sent first, and the member counts once it comes back with it. A client that
    # never got its answer would otherwise remain as a member until its session expires.
    elif request.takes_id_first and instance_id is None:
        # The oldest id goes. Its client gets UNKNOWN_MEMBER_ID, and asks for another.
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
    """Add a member that nobody knows, which calls all others to join again."""
    group.reserved.pop(member_id, None)
    if not group.members:
        group.protocol_type = request.protocol_type
    # KIP-134: a first round with newcomers is extended.
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
    # Its own timeout starts with its first answer: while it waits it sends no heartbeat.
    group.sessions[member_id] = now_ms + NEWCOMER_TIMEOUT_MS
    _rebalance(group, settings, now_ms)


def _rebalance(group: Group, settings: GroupSettings, now_ms: int) -> None:
    """Start a rebalance after a join, or check whether the one in progress is complete."""
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
    """Handle the join of an existing member. Without a change, perhaps because it never got its
    answer, it gets the current generation, and its session is renewed: its client counts from this
    join on, and sends its first heartbeat only after it. A join of a stable group's leader asks for
    a rebalance, for example because there are more partitions.

    A member that joins again while the group rebalances takes the place of its own earlier request,
    and may bring other protocols and timeouts.
    """
    # Byte by byte: a subscription that differs may need another assignment.
    is_same = member.protocols == request.protocols
    wants_rebalance = group.state is GroupState.STABLE and group.leader_id == member.member_id
    if group.has_generation and is_same and not wants_rebalance:
        group.heard(member, now_ms)
        group.answer(ticket, group.current(member.member_id))
        return
    group.wait_to_join(member, ticket, **_renewed(request))
    _rebalance(group, settings, now_ms)


def _renewed(request: Join) -> dict[str, object]:
    """The fields that a member may change when it joins again."""
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
    """Give a static member's place to a new process: the same member under a new member id."""
    leader_before = group.leader_id
    # A process that is still there gets this error for its waiting request, and stops.
    group.remove(before.member_id, error=ErrorCode.fenced_instance_id)
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
    # With another list of protocols another assignor may be selected: what is stored would be the
    # assignment of the wrong one.
    keeps = group.state is GroupState.STABLE and group.protocol_name == protocols.select(
        group.members.values()
    )
    if not keeps:
        # During an assignment the leader may have named the previous id: all join again.
        group.wait_to_join(member, ticket)
        _rebalance(group, settings, now_ms)
        return
    member = member.moved(MemberEvent.TAKE_OVER, ticket=ticket)
    group.put(member)
    answer = group.current(member_id)
    is_leader = answer.leader_id == member_id
    # KIP-814, since JoinGroup 9: the leader learns that it leads, and assigns nothing.
    if request.may_skip_assignment:
        answer = replace(answer, skip_assignment=is_leader)
    elif is_leader:
        # It cannot be asked to leave the assignment unchanged, so it must not learn that it leads.
        answer = replace(answer, leader_id=before.member_id, members=())
    # Stored before the answer: after a failover the new id must be known, or its process is fenced.
    group.store(group.record(), Written(group.generation, taken_over=answer))

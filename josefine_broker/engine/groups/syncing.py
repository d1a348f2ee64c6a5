"""The SyncGroup, Heartbeat and LeaveGroup requests, and the check of offset commits.

Rules: an assignment is sent once it is stored, and only to a member of its generation. A process
that is not a member (it left, was lost, or is fenced by its successor) or that names another
generation is refused, and so commits nothing. A sync, a heartbeat and a commit each renew their
member's session.
"""

from collections.abc import Sequence
from dataclasses import replace

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.group import Group, Written
from josefine_broker.engine.groups.rebalancing import (
    after_loss,
    assigned,
    complete_if_all_joined,
)
from josefine_broker.engine.groups.states import GroupState, MemberEvent, MemberState
from josefine_broker.engine.groups.values import (
    NO_MEMBER,
    GroupSettings,
    Identity,
    Sync,
    SyncAnswer,
    Ticket,
)


def sync(group: Group, request: Sync, ticket: Ticket, now_ms: int) -> None:
    """Handle one SyncGroup: the leader's has the assignment, the others request theirs."""
    code = _may_sync(group, request)
    if code is not ErrorCode.none:
        group.answer(ticket, SyncAnswer(error=code))
        return
    member = group.members[request.identity.member_id]
    group.heard(member, now_ms)
    # A retry after a lost answer, or a member that syncs late: the assignment is stored already.
    if group.state is GroupState.STABLE:
        group.answer(ticket, assigned(group, member.assignment))
        group.put(member.moved(MemberEvent.ASSIGNMENT))
    else:
        group.answer_error(member, ErrorCode.rebalance_in_progress)  # an earlier sync of it
        group.put(member.moved(MemberEvent.SYNC, ticket=ticket))
        if group.leader_id == member.member_id:
            _store_assignment(group, request)
    # All have synced: no member is left that the deadline would remove.
    if not group.in_state(MemberState.JOINED):
        group.deadline_ms = None


def _may_sync(group: Group, request: Sync) -> ErrorCode:
    """No error, or why this member gets no assignment. Kafka's order: the identity, the generation,
    the protocol (KIP-559), and only then the state."""
    code = group.check(request.identity)
    if code is not ErrorCode.none:
        return code
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    for said, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if said is not None and known is not None and said != known:
            return ErrorCode.inconsistent_group_protocol
    return ErrorCode.rebalance_in_progress if group.in_rebalance else ErrorCode.none


def _store_assignment(group: Group, request: Sync) -> None:
    """Store the leader's assignment; a member that it omits gets an empty one. A second assignment
    of this generation is ignored: the first is being stored."""
    # No member gets its assignment before it is stored: after a failover the next coordinator must
    # know the assignment that members work by.
    if any(each.generation == group.generation for each in group.writes.values()):
        return
    # Members that the leader invents are ignored.
    given = dict(request.assignments)
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    members = tuple(
        replace(each, assignment=assignments[each.member_id]) for each in group.members.values()
    )
    record = replace(group.record(), members=members)
    group.store(record, Written(group.generation, assignments=assignments))


def heartbeat(group: Group, identity: Identity, generation: int, now_ms: int) -> ErrorCode:
    """Renew a member's session; returns whether it must join again.

    The session is renewed during a rebalance, too: this answer is how a client learns of it, and it
    may still have records to process before it joins.
    """
    code = _is_of(group, identity, generation)
    if code is not ErrorCode.none:
        return code
    group.heard(group.members[identity.member_id], now_ms)
    return ErrorCode.rebalance_in_progress if group.in_rebalance else ErrorCode.none


def _is_of(group: Group, identity: Identity, generation: int) -> ErrorCode:
    """Whether that is a member of this generation; one that is still joining is of none."""
    code = group.check(identity)
    if code is not ErrorCode.none:
        return code
    is_of = generation == group.generation and not group.members[identity.member_id].is_new
    return ErrorCode.none if is_of else ErrorCode.illegal_generation


def leave(
    group: Group, leaving: Sequence[Identity], settings: GroupSettings, now_ms: int
) -> list[ErrorCode]:
    """Remove several members; returns the result of each. An admin may name a static one by its
    instance id alone, because its process is gone.

    LeaveGroup names several members since version 3 (KIP-345). One rebalance serves all of them.
    """
    codes = []
    has_lost = False
    for member_id, instance_id in leaving:
        if member_id == NO_MEMBER and instance_id is not None:
            member_id = group.instances.get(instance_id, NO_MEMBER)
        # It never became a member; as in Kafka, to leave is a success then.
        if group.reserved.pop(member_id, None) is not None:
            codes.append(ErrorCode.none)
            continue
        code = group.check(Identity(member_id, instance_id))
        if code is ErrorCode.none:
            group.remove(member_id)
            has_lost = True
        codes.append(code)
    if has_lost:
        after_loss(group, settings, now_ms)
    else:
        # An id that is given back may be the last one that the join phase waited for.
        complete_if_all_joined(group, now_ms)
    return codes


def may_commit(group: Group, identity: Identity, generation: int, now_ms: int) -> ErrorCode:
    """Whether offsets may be committed by a client with this identity. A group without members
    accepts them from clients without a generation: simple consumers and admin clients. While a
    rebalance completes, a member does not know yet what it owns: its offsets are the last
    generation's."""
    # Also an admin that resets the offsets of a group whose members are all gone.
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.none
    code = _is_of(group, identity, generation)
    if code is not ErrorCode.none:
        return code
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    group.heard(group.members[identity.member_id], now_ms)
    return ErrorCode.none

"""SyncGroup, Heartbeat, LeaveGroup, and whether a member may commit offsets.

Rules: an assignment is told once it is stored, and only to a member of its generation; who is no
member (left, lost, fenced by its successor) or of another generation is refused, and so commits
nothing. A sync, a heartbeat and a commit keep their member's session alive.
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
    """One SyncGroup: the leader's carries the assignment, the others' ask for theirs."""
    code = _may_sync(group, request)
    if code is not ErrorCode.none:
        group.answer(ticket, SyncAnswer(error=code))
        return
    member = group.members[request.identity.member_id]
    group.heard(member, now_ms)
    if group.state is GroupState.STABLE:
        group.answer(ticket, assigned(group, member.assignment))
        group.put(member.moved(MemberEvent.ASSIGNMENT))
    else:
        group.answer_error(member, ErrorCode.rebalance_in_progress)  # an earlier sync of it
        group.put(member.moved(MemberEvent.SYNC, ticket=ticket))
        if group.leader_id == member.member_id:
            _store_assignment(group, request)
    if not group.in_state(MemberState.JOINED):
        group.deadline_ms = None


def _may_sync(group: Group, request: Sync) -> ErrorCode:
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
    """Who is not named in it gets nothing. A second one is not listened to: the first is on its
    way."""
    if any(each.generation == group.generation for each in group.writes.values()):
        return
    given = dict(request.assignments)
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    members = tuple(
        replace(each, assignment=assignments[each.member_id]) for each in group.members.values()
    )
    record = replace(group.record(), members=members)
    group.store(record, Written(group.generation, assignments=assignments))


def heartbeat(group: Group, identity: Identity, generation: int, now_ms: int) -> ErrorCode:
    """Whether all is well with a member, whose session begins anew."""
    code = _is_of(group, identity, generation)
    if code is not ErrorCode.none:
        return code
    group.heard(group.members[identity.member_id], now_ms)
    return ErrorCode.rebalance_in_progress if group.in_rebalance else ErrorCode.none


def _is_of(group: Group, identity: Identity, generation: int) -> ErrorCode:
    """Whether that is a member of this generation; a newcomer is of none."""
    code = group.check(identity)
    if code is not ErrorCode.none:
        return code
    is_of = generation == group.generation and not group.members[identity.member_id].is_new
    return ErrorCode.none if is_of else ErrorCode.illegal_generation


def leave(
    group: Group, leaving: Sequence[Identity], settings: GroupSettings, now_ms: int
) -> list[ErrorCode]:
    """Several members leave; what came of each. A static one may be named by its instance alone:
    by an admin, for its process is gone."""
    codes = []
    has_lost = False
    for member_id, instance_id in leaving:
        if member_id == NO_MEMBER and instance_id is not None:
            member_id = group.instances.get(instance_id, NO_MEMBER)
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
        complete_if_all_joined(group, now_ms)
    return codes


def may_commit(group: Group, identity: Identity, generation: int, now_ms: int) -> ErrorCode:
    """Whether offsets may be committed by who says that. A group without members takes them from
    anybody who claims no generation: from simple consumers, and from admin clients."""
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.none
    code = _is_of(group, identity, generation)
    if code is not ErrorCode.none:
        return code
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    group.heard(group.members[identity.member_id], now_ms)
    return ErrorCode.none

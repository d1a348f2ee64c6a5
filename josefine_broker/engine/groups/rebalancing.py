"""The rebalance of a classic group: how it gets to its next generation, and its timeouts.

Rules:
- a rebalance calls every member; it ends when all have joined, or after the longest rebalance
  timeout of any member: dynamic members that did not join are removed, static ones stay;
- a group that was empty first waits for others (`group.initial.rebalance.delay.ms`);
- a member that joined and does not sync within that timeout is removed;
- a member whose session has expired is removed, unless a request of it waits for us; our answer
  renews the session.
So every waiting join and sync ends, whichever other members are lost.
"""

from dataclasses import replace

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups import protocols
from josefine_broker.engine.groups.group import FirstRound, Group, Written, is_heard
from josefine_broker.engine.groups.states import GroupEvent, GroupState, MemberEvent, MemberState
from josefine_broker.engine.groups.values import GroupSettings, JoinAnswer, SyncAnswer

POSTPONED_MS_MIN = 1_000
"""Minimum extension of a join phase in which nobody joined: clients choose their rebalance timeout,
which may be 0."""


def prepare(group: Group, settings: GroupSettings, now_ms: int) -> None:
    """Call every member to join. Waiting syncs are answered; waiting joins count as joined."""
    was_empty = group.state is GroupState.EMPTY
    lacks_assignment = group.state is GroupState.COMPLETING_REBALANCE
    for member in tuple(group.members.values()):
        ticket = member.ticket
        if member.state is MemberState.SYNCING:
            group.answer_error(member, ErrorCode.rebalance_in_progress)
            group.heard(member, now_ms)
            ticket = None
        # No assignment of the last generation was stored: what a member still has is of an earlier
        # one.
        assignment = b"" if lacks_assignment else member.assignment
        group.put(member.moved(MemberEvent.REBALANCE, ticket=ticket, assignment=assignment))
    group.on(GroupEvent.REBALANCE)
    delay_ms = settings.initial_rebalance_delay_ms
    if was_empty and delay_ms > 0:
        # KIP-134: the delay grows with newcomers, up to the longest timeout of the members.
        left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.first_round = FirstRound(delay_ms=delay_ms, remaining_ms=left_ms)
        group.deadline_ms = now_ms + delay_ms
        return
    group.deadline_ms = now_ms + group.rebalance_timeout_ms
    complete_if_all_joined(group, now_ms)


def complete_if_all_joined(group: Group, now_ms: int) -> None:
    """End the join phase early if every member has joined; not in a group's first round."""
    if group.in_rebalance and group.first_round is None and group.all_joined:
        complete_join(group, now_ms)


def complete_join(group: Group, now_ms: int) -> None:
    """End the join phase: the members that joined form the next generation."""
    for member in group.in_state(MemberState.CALLED):
        # KIP-345: a static member keeps its place until its session ends, so a restart costs no
        # rebalance.
        if member.instance_id is None:
            group.remove(member.member_id)
    group.first_round = None
    joined = group.in_state(MemberState.JOINING)
    if not joined and group.members:  # only static members, and none of them has returned
        group.deadline_ms = now_ms + max(group.rebalance_timeout_ms, POSTPONED_MS_MIN)
        return
    group.generation += 1
    if not joined:
        _become_empty(group)
        return
    leads = group.members.get(group.leader_id or "")
    # The leader stays if it is there: sticky assignors remember what they assigned.
    if leads is None or leads.state is not MemberState.JOINING:
        group.leader_id = joined[0].member_id
    group.protocol_name = protocols.select(group.members.values())
    group.on(GroupEvent.JOINED)
    group.deadline_ms = now_ms + group.rebalance_timeout_ms
    for member in tuple(group.members.values()):
        group.answer(member.ticket, group.current(member.member_id))
        # While its join waited, the member sent no heartbeat: its session starts with this answer.
        group.heard(member, now_ms)
        group.told(member, MemberEvent.GENERATION, is_new=False)


def _become_empty(group: Group) -> None:
    """The generation without members is stored, too: the next members continue after its number."""
    group.protocol_name = group.leader_id = group.deadline_ms = group.empty_since_ms = None
    group.on(GroupEvent.EMPTIED)
    group.store(group.record(), Written(group.generation))


def after_loss(group: Group, settings: GroupSettings, now_ms: int) -> None:
    """Rebalance after members left or were lost: the others take over their partitions.

    Outside of a generation no rebalance has to start: the loss may have been the last member that
    the join phase in progress waited for.
    """
    if group.has_generation:
        prepare(group, settings, now_ms)
    else:
        complete_if_all_joined(group, now_ms)


def tick(group: Group, settings: GroupSettings, now_ms: int) -> None:
    """Handle what is due."""
    overdue = [
        key
        for key, each in group.members.items()
        if group.sessions[key] <= now_ms and not is_heard(each)
    ]
    for member_id in overdue:
        group.remove(member_id)
    group.counts.members_lost += len(overdue)
    # KIP-394: ids that were given to clients which never came back.
    late = [key for key, until_ms in group.reserved.items() if until_ms <= now_ms]
    for member_id in late:
        del group.reserved[member_id]
    if overdue:
        after_loss(group, settings, now_ms)
    elif late:
        complete_if_all_joined(group, now_ms)
    if group.deadline_ms is not None and group.deadline_ms <= now_ms:
        _deadline(group, settings, now_ms)


def _deadline(group: Group, settings: GroupSettings, now_ms: int) -> None:
    """The join phase is over, is extended for newcomers, or members that never synced are
    removed.

    KIP-134: newcomers extend the first join phase by the configured delay at a time, until the
    longest
    rebalance timeout of a member is used up.
    """
    first = group.first_round
    if group.in_rebalance and first is not None and first.has_newcomer and first.remaining_ms:
        delay_ms = min(settings.initial_rebalance_delay_ms, first.remaining_ms)
        left_ms = max(first.remaining_ms - first.delay_ms, 0)
        group.first_round = FirstRound(delay_ms=delay_ms, remaining_ms=left_ms)
        group.deadline_ms = now_ms + delay_ms
    elif group.in_rebalance:
        complete_join(group, now_ms)
    else:
        group.deadline_ms = None
        missing = group.in_state(MemberState.JOINED)
        for member in missing:
            group.remove(member.member_id)
        if missing:
            prepare(group, settings, now_ms)


def stored(
    group: Group,
    settings: GroupSettings,
    write_id: int,
    error: ErrorCode,
    stamped_ms: int,
    now_ms: int,
) -> None:
    """The result of storing a record. `stamped_ms`: the wall clock time in the record."""
    written = group.writes.pop(write_id, None)
    # The group continued without this write, or was loaded again: its result means nothing now.
    if written is None or written.generation != group.generation:
        return
    if written.taken_over is not None:
        _taken_over(group, written.taken_over, error, now_ms)
    # Offsets expire by the time in the record (KIP-211), so the next coordinator, which only has
    # the record, computes the same.
    elif group.state is GroupState.EMPTY:
        group.empty_since_ms = stamped_ms
    elif written.assignments is not None and group.state is GroupState.COMPLETING_REBALANCE:
        if error is ErrorCode.none:
            _assign(group, written.assignments, now_ms)
        else:
            for member in group.in_state(MemberState.SYNCING):
                group.answer_error(member, error)
                group.put(replace(member, ticket=None))  # answered, so `prepare` must not answer
            prepare(group, settings, now_ms)


def _assign(group: Group, assignments: dict[str, bytes], now_ms: int) -> None:
    """Make the stored assignment valid, and send it to the members that wait."""
    group.on(GroupEvent.ASSIGNED)
    for member in tuple(group.members.values()):
        assignment = assignments.get(member.member_id, b"")
        # It joined and has not synced yet: its own SyncGroup gets the assignment.
        if member.state is not MemberState.SYNCING:
            group.put(replace(member, assignment=assignment))
            continue
        group.answer(member.ticket, assigned(group, assignment))
        group.heard(member, now_ms)
        group.told(member, MemberEvent.ASSIGNMENT, assignment=assignment)


def assigned(group: Group, assignment: bytes) -> SyncAnswer:
    """The answer to a member with this assignment."""
    return SyncAnswer(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def _taken_over(group: Group, answer: JoinAnswer, error: ErrorCode, now_ms: int) -> None:
    """Answer a static member whose new id is stored, or not: then it retries with another one."""
    member = group.members.get(answer.member_id)
    if member is None or member.state is not MemberState.TAKING_OVER:
        return
    if error is not ErrorCode.none:
        group.answer(member.ticket, JoinAnswer(error=error))
    else:
        group.answer(member.ticket, answer)
    group.heard(member, now_ms)
    group.told(member, MemberEvent.TAKEN_OVER)

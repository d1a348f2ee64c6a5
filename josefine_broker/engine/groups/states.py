"""The states of a group and of a member, each with its transition table.

Rules: every transition is in a table; a pair that is not listed is a broken invariant. The states
of a group and their names are Kafka's, because clients see them; a member's states are ours, for
what Kafka keeps in flags and callbacks.
"""

from enum import Enum

from josefine_broker.base.errors import Fatal


class GroupState(Enum):
    """The state of a group."""

    EMPTY = "Empty"  # has no members; it stays for its committed offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waits for its members to join, or to join again
    COMPLETING_REBALANCE = "CompletingRebalance"  # a new generation, waiting for its assignment
    STABLE = "Stable"  # the assignment is stored: members heartbeat and commit
    DEAD = "Dead"  # removed here: deleted, expired, or moved to another broker


class GroupEvent(Enum):
    """The events that change a group's state."""

    REBALANCE = "rebalance"  # a member joined, left, changed or was lost: all must join again
    JOINED = "joined"  # the join phase is over, with members
    EMPTIED = "emptied"  # the join phase is over, without members
    ASSIGNED = "assigned"  # the leader's assignment is stored
    REMOVED = "removed"  # deleted, expired, or moved to another broker


GROUP_TRANSITIONS: dict[tuple[GroupState, GroupEvent], GroupState] = {
    (GroupState.EMPTY, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.EMPTY, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.PREPARING_REBALANCE, GroupEvent.JOINED): GroupState.COMPLETING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEvent.EMPTIED): GroupState.EMPTY,
    (GroupState.PREPARING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNED): GroupState.STABLE,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.STABLE, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.STABLE, GroupEvent.REMOVED): GroupState.DEAD,
}


class MemberState(Enum):
    """The state of a member in its group's rebalance."""

    JOINING = "joining"  # its join waits for the others
    JOINED = "joined"  # is in the generation, and has not sent its sync
    SYNCING = "syncing"  # its sync waits for the leader's assignment
    ASSIGNED = "assigned"  # has got its assignment
    CALLED = "called"  # a rebalance started: it must join again
    TAKING_OVER = "taking over"  # returned under a new id (KIP-345); its join waits for the record
    GONE = "gone"  # left, was lost, or another process has its instance id


class MemberEvent(Enum):
    """The events that change a member's state."""

    JOIN = "join"  # its join has arrived, and waits
    GENERATION = "generation"  # the join phase is over: it is in the new generation
    SYNC = "sync"  # its sync has arrived, and waits
    ASSIGNMENT = "assignment"  # it gets its assignment
    REBALANCE = "rebalance"  # all members must join again
    TAKE_OVER = "take over"  # a new process has its instance id, and keeps its assignment
    TAKEN_OVER = "taken over"  # the new member id is stored, or storing it failed
    REMOVE = "remove"  # it left, was lost, or is fenced by its successor


MEMBER_TRANSITIONS: dict[tuple[MemberState, MemberEvent], MemberState] = {
    (MemberState.JOINING, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.JOINING, MemberEvent.GENERATION): MemberState.JOINED,
    (MemberState.JOINING, MemberEvent.REBALANCE): MemberState.JOINING,
    (MemberState.JOINING, MemberEvent.REMOVE): MemberState.GONE,
    (MemberState.JOINED, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.JOINED, MemberEvent.SYNC): MemberState.SYNCING,
    (MemberState.JOINED, MemberEvent.ASSIGNMENT): MemberState.ASSIGNED,
    (MemberState.JOINED, MemberEvent.REBALANCE): MemberState.CALLED,
    (MemberState.JOINED, MemberEvent.TAKE_OVER): MemberState.TAKING_OVER,
    (MemberState.JOINED, MemberEvent.REMOVE): MemberState.GONE,
    (MemberState.SYNCING, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.SYNCING, MemberEvent.SYNC): MemberState.SYNCING,
    (MemberState.SYNCING, MemberEvent.ASSIGNMENT): MemberState.ASSIGNED,
    (MemberState.SYNCING, MemberEvent.REBALANCE): MemberState.CALLED,
    (MemberState.SYNCING, MemberEvent.REMOVE): MemberState.GONE,
    (MemberState.ASSIGNED, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.ASSIGNED, MemberEvent.ASSIGNMENT): MemberState.ASSIGNED,
    (MemberState.ASSIGNED, MemberEvent.REBALANCE): MemberState.CALLED,
    (MemberState.ASSIGNED, MemberEvent.TAKE_OVER): MemberState.TAKING_OVER,
    (MemberState.ASSIGNED, MemberEvent.REMOVE): MemberState.GONE,
    (MemberState.CALLED, MemberEvent.JOIN): MemberState.JOINING,
    # Only a static member: it keeps its place without joining again.
    (MemberState.CALLED, MemberEvent.GENERATION): MemberState.JOINED,
    (MemberState.CALLED, MemberEvent.REMOVE): MemberState.GONE,
    # The join that waits answers the call.
    (MemberState.TAKING_OVER, MemberEvent.REBALANCE): MemberState.JOINING,
    (MemberState.TAKING_OVER, MemberEvent.JOIN): MemberState.JOINING,
    (MemberState.TAKING_OVER, MemberEvent.ASSIGNMENT): MemberState.TAKING_OVER,
    (MemberState.TAKING_OVER, MemberEvent.TAKE_OVER): MemberState.TAKING_OVER,
    (MemberState.TAKING_OVER, MemberEvent.TAKEN_OVER): MemberState.ASSIGNED,
    (MemberState.TAKING_OVER, MemberEvent.REMOVE): MemberState.GONE,
}


def next_group_state(state: GroupState, event: GroupEvent) -> GroupState:
    """The state after an event. Raises Fatal for a pair that the table does not list."""
    after = GROUP_TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a group that is {state.value} cannot take {event.value}")
    return after


def next_member_state(state: MemberState, event: MemberEvent) -> MemberState:
    """The state after an event. Raises Fatal for a pair that the table does not list."""
    after = MEMBER_TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a member that is {state.value} cannot take {event.value}")
    return after

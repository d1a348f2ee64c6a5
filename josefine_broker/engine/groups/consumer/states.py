"""The states of a consumer-protocol group and of its members, each with its transition table.

Rules: every transition is in a table; a pair that is not listed is a broken invariant. The states
and their names are KIP-848's, because clients see the group's and the log has the member's.
"""

from enum import Enum
from typing import TypeAlias

from josefine_broker.base.errors import Fatal


class ConsumerGroupState(Enum):
    """The state of a group."""

    EMPTY = "Empty"  # has no members; it stays for its committed offsets
    ASSIGNING = "Assigning"  # its epoch is newer than its target assignment
    RECONCILING = "Reconciling"  # some members do not have their target assignment yet
    STABLE = "Stable"  # every member has its target assignment
    DEAD = "Dead"  # removed here: deleted, expired, or became a classic group


class ConsumerGroupEvent(Enum):
    """The events that change a group's state."""

    CHANGED = "changed"  # members or subscriptions differ from those of the target assignment
    ASSIGNED = "assigned"  # the target assignment is computed for the group's epoch
    CONVERGED = "converged"  # the last member has got its target assignment
    REJOINED = "rejoined"  # a classic member sent another JoinGroup, and its SyncGroup is due
    EMPTIED = "emptied"  # the last member is gone
    REMOVED = "removed"  # deleted, expired, or a classic member took the group id
    LEFT = "left to classic"  # only classic members are left: they become a classic group


GROUP_TRANSITIONS: dict[tuple[ConsumerGroupState, ConsumerGroupEvent], ConsumerGroupState] = {
    (ConsumerGroupState.EMPTY, ConsumerGroupEvent.CHANGED): ConsumerGroupState.ASSIGNING,
    (ConsumerGroupState.EMPTY, ConsumerGroupEvent.REMOVED): ConsumerGroupState.DEAD,
    (ConsumerGroupState.ASSIGNING, ConsumerGroupEvent.CHANGED): ConsumerGroupState.ASSIGNING,
    (ConsumerGroupState.ASSIGNING, ConsumerGroupEvent.ASSIGNED): ConsumerGroupState.RECONCILING,
    (ConsumerGroupState.ASSIGNING, ConsumerGroupEvent.EMPTIED): ConsumerGroupState.EMPTY,
    (ConsumerGroupState.RECONCILING, ConsumerGroupEvent.CHANGED): ConsumerGroupState.ASSIGNING,
    (ConsumerGroupState.RECONCILING, ConsumerGroupEvent.CONVERGED): ConsumerGroupState.STABLE,
    (ConsumerGroupState.RECONCILING, ConsumerGroupEvent.EMPTIED): ConsumerGroupState.EMPTY,
    (ConsumerGroupState.STABLE, ConsumerGroupEvent.CHANGED): ConsumerGroupState.ASSIGNING,
    (ConsumerGroupState.STABLE, ConsumerGroupEvent.REJOINED): ConsumerGroupState.RECONCILING,
    (ConsumerGroupState.STABLE, ConsumerGroupEvent.EMPTIED): ConsumerGroupState.EMPTY,
    (ConsumerGroupState.ASSIGNING, ConsumerGroupEvent.LEFT): ConsumerGroupState.DEAD,
    (ConsumerGroupState.RECONCILING, ConsumerGroupEvent.LEFT): ConsumerGroupState.DEAD,
    (ConsumerGroupState.STABLE, ConsumerGroupEvent.LEFT): ConsumerGroupState.DEAD,
}


class ConsumerMemberState(Enum):
    """A member's progress towards its target assignment. The numbers are those in the log."""

    STABLE = 1  # has the target assignment of its epoch
    UNREVOKED_PARTITIONS = 2  # has to revoke partitions, and has not confirmed that it did
    UNRELEASED_PARTITIONS = 3  # in its epoch; waits, or has yet to release what it owned


class ConsumerMemberEvent(Enum):
    """The events that change a member's state: its target compared with what it owns."""

    MUST_GIVE_UP = "must give up"  # it owns partitions that are not in its target
    MUST_WAIT = "must wait"  # others own part of its target, or it rejoined and lost partitions
    HAS_ALL = "has all"  # it owns its target


_State: TypeAlias = ConsumerMemberState
_Event: TypeAlias = ConsumerMemberEvent

MEMBER_TRANSITIONS: dict[tuple[_State, _Event], _State] = {
    (_State.STABLE, _Event.MUST_GIVE_UP): _State.UNREVOKED_PARTITIONS,
    (_State.STABLE, _Event.MUST_WAIT): _State.UNRELEASED_PARTITIONS,
    (_State.STABLE, _Event.HAS_ALL): _State.STABLE,
    (_State.UNREVOKED_PARTITIONS, _Event.MUST_GIVE_UP): _State.UNREVOKED_PARTITIONS,
    (_State.UNREVOKED_PARTITIONS, _Event.MUST_WAIT): _State.UNRELEASED_PARTITIONS,
    (_State.UNREVOKED_PARTITIONS, _Event.HAS_ALL): _State.STABLE,
    (_State.UNRELEASED_PARTITIONS, _Event.MUST_GIVE_UP): _State.UNREVOKED_PARTITIONS,
    (_State.UNRELEASED_PARTITIONS, _Event.MUST_WAIT): _State.UNRELEASED_PARTITIONS,
    (_State.UNRELEASED_PARTITIONS, _Event.HAS_ALL): _State.STABLE,
}


def next_group_state(state: ConsumerGroupState, event: ConsumerGroupEvent) -> ConsumerGroupState:
    """The state after an event. Raises Fatal for a pair that the table does not list."""
    after = GROUP_TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a consumer group that is {state.value} cannot take {event.value}")
    return after


def next_member_state(
    state: ConsumerMemberState, event: ConsumerMemberEvent
) -> ConsumerMemberState:
    """The state after an event. Every pair is listed: a target can change at any time."""
    return MEMBER_TRANSITIONS[state, event]

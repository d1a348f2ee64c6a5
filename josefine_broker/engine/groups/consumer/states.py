"""The states of a group of the consumer protocol and of its members, each with its one table.

Rules: nothing moves but by a table; a pair that is not listed is a broken invariant. The states and
their names are KIP-848's, for clients are told the group's and the log has the member's.
"""

from enum import Enum
from typing import TypeAlias

from josefine_broker.base.errors import Fatal


class ConsumerGroupState(Enum):
    """What a group does."""

    EMPTY = "Empty"  # has no members; it stays for its committed offsets
    ASSIGNING = "Assigning"  # its epoch is newer than its target assignment
    RECONCILING = "Reconciling"  # some member does not have what the target gives it yet
    STABLE = "Stable"  # every member has what the target gives it
    DEAD = "Dead"  # is gone from here: deleted, expired, or became a classic group


class ConsumerGroupEvent(Enum):
    """What moves a group."""

    CHANGED = "changed"  # members or what they read are others than the target was made for
    ASSIGNED = "assigned"  # the target assignment is made for the group's epoch
    CONVERGED = "converged"  # the last member has what the target gives it
    REJOINED = "rejoined"  # a classic member sent another JoinGroup, and its SyncGroup is to come
    EMPTIED = "emptied"  # nobody is left
    REMOVED = "removed"  # deleted, expired, or a classic member took the name over
    LEFT = "left to classic"  # only classic members are left: they go on as a classic group


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
    """How far a member is on its way to its target assignment. The numbers are the log's."""

    STABLE = 1  # has what the target of its epoch gives it
    UNREVOKED_PARTITIONS = 2  # was told to give partitions up, and did not say yet that it did
    UNRELEASED_PARTITIONS = 3  # of its epoch; what is its, or was before it began anew, is not free


class ConsumerMemberEvent(Enum):
    """What moves a member: what its target says of what it has."""

    MUST_GIVE_UP = "must give up"  # it has partitions that the target does not give it
    MUST_WAIT = "must wait"  # others have what the target gives it, or it began anew and lost some
    HAS_ALL = "has all"  # it has what the target gives it


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
    """Raises Fatal for a pair that the table does not list."""
    after = GROUP_TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a consumer group that is {state.value} cannot take {event.value}")
    return after


def next_member_state(
    state: ConsumerMemberState, event: ConsumerMemberEvent
) -> ConsumerMemberState:
    """Every pair is listed: a target can change at any time."""
    return MEMBER_TRANSITIONS[state, event]

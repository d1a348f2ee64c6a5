"""The states of a record in a share partition and of a share group, each with its transition table.

Rules: every transition is in a table; a pair that is not listed is a broken invariant. The states
and names of a group are KIP-932's, because clients see them; the numbers of a record's states are
those in the log and in the state requests. A record that is acquired is stored as available: its
lock is known to the partition's leader alone, and ends with it.
"""

from enum import Enum
from typing import TypeAlias

from josefine_broker.base.errors import Fatal


class RecordState(Enum):
    """The state of a record that is in flight."""

    AVAILABLE = 0  # may be acquired by any member
    ACQUIRED = 1  # a member has it, until its lock ends
    ACKNOWLEDGED = 2  # accepted: it is never delivered again
    ARCHIVING = 3  # as archived, but its dead letter is not written yet (KIP-1191)
    ARCHIVED = 4  # rejected, without a record, or delivered too often: never delivered again


class RecordEvent(Enum):
    """The events that change a record's state."""

    ACQUIRE = "acquire"  # a member's fetch gets it, and its delivery count grows
    ACCEPT = "accept"  # its member has processed it
    RELEASE = "release"  # its member gives it back, or the lock ended
    RENEW = "renew"  # its member needs more time (KIP-1222)
    REJECT = "reject"  # its member can never process it
    GAP = "gap"  # its member has found no record at this offset
    EXHAUST = "exhaust"  # given back after the last delivery that the group allows
    DEAD_LETTER = "dead letter"  # rejected or exhausted, in a group with dead letters
    LETTER_ENDED = "letter ended"  # its dead letter is written, or cannot be
    DISCARD = "discard"  # of an aborted transaction: nobody is to see it


_R: TypeAlias = RecordState
_E: TypeAlias = RecordEvent

RECORD_TRANSITIONS: dict[tuple[RecordState, RecordEvent], RecordState] = {
    (_R.AVAILABLE, _E.ACQUIRE): _R.ACQUIRED,
    (_R.AVAILABLE, _E.DISCARD): _R.ARCHIVED,
    (_R.ACQUIRED, _E.ACCEPT): _R.ACKNOWLEDGED,
    (_R.ACQUIRED, _E.RELEASE): _R.AVAILABLE,
    (_R.ACQUIRED, _E.RENEW): _R.ACQUIRED,
    (_R.ACQUIRED, _E.REJECT): _R.ARCHIVED,
    (_R.ACQUIRED, _E.GAP): _R.ARCHIVED,
    (_R.ACQUIRED, _E.EXHAUST): _R.ARCHIVED,
    (_R.ACQUIRED, _E.DEAD_LETTER): _R.ARCHIVING,
    # The limit of deliveries was lowered.
    (_R.AVAILABLE, _E.DEAD_LETTER): _R.ARCHIVING,
    (_R.ARCHIVING, _E.LETTER_ENDED): _R.ARCHIVED,
}

# No transition leaves ACKNOWLEDGED or ARCHIVED: a finished record that came back would be processed
# again although its member was assured that it is not.
FINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""The states in which a record is finished. The start offset passes it."""
IN_USE = frozenset({RecordState.ACQUIRED, RecordState.ARCHIVING})
"""The states in which this leader has something to do for a record."""
LETTERED = frozenset({RecordEvent.REJECT, RecordEvent.EXHAUST})
"""The events that lead to a dead letter, in a group that has them."""


class ShareGroupState(Enum):
    """The state of a group."""

    EMPTY = "Empty"  # has no members; the state of its partitions stays
    STABLE = "Stable"  # has members, each with its assignment
    DEAD = "Dead"  # removed here


class ShareGroupEvent(Enum):
    """The events that change a group's state."""

    CHANGED = "changed"  # a member joined or left, or the subscribed topics differ
    EMPTIED = "emptied"  # the last member is gone
    REMOVED = "removed"  # deleted


# A group with members cannot be removed: DeleteGroups refuses it with NON_EMPTY_GROUP.
GROUP_TRANSITIONS: dict[tuple[ShareGroupState, ShareGroupEvent], ShareGroupState] = {
    (ShareGroupState.EMPTY, ShareGroupEvent.CHANGED): ShareGroupState.STABLE,
    (ShareGroupState.EMPTY, ShareGroupEvent.REMOVED): ShareGroupState.DEAD,
    (ShareGroupState.STABLE, ShareGroupEvent.CHANGED): ShareGroupState.STABLE,
    (ShareGroupState.STABLE, ShareGroupEvent.EMPTIED): ShareGroupState.EMPTY,
}


def next_record_state(state: RecordState, event: RecordEvent) -> RecordState:
    """The state after an event. Raises Fatal for a pair that the table does not list."""
    after = RECORD_TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a record that is {state.name} cannot take {event.value}")
    return after


def next_group_state(state: ShareGroupState, event: ShareGroupEvent) -> ShareGroupState:
    """The state after an event. Raises Fatal for a pair that the table does not list."""
    after = GROUP_TRANSITIONS.get((state, event))
    if after is None:
        raise Fatal(f"a share group that is {state.value} cannot take {event.value}")
    return after

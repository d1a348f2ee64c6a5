"""Spans: consecutive records of a share partition in the same state, and the ranges that members
name. See `partition.py`."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.values import Ack, AckType, Acquired

NOBODY = ""
"""The member of a span that is not acquired."""
NO_WRITE = -1
"""Smaller than the number of every write: these start at 0."""
FIRST = attrgetter("first")
"""The key by which spans are searched."""


class Span(NamedTuple):
    """Consecutive records in the same state."""

    first: int
    last: int
    """Inclusive: a single record has `first == last`."""
    state: RecordState = RecordState.AVAILABLE
    deliveries: int = 0
    """How often they have been acquired, the delivery of now included."""
    member_id: str = NOBODY
    """The member that has them, while they are acquired,"""
    lock_end_ms: int = 0
    """until then."""
    settles: RecordState | None = None
    """The state after the write that is to store it; None: no change is waiting."""
    write: int = NO_WRITE
    """The number of that write; of an archiving span, of the write that stores that it is one."""
    is_rejected: bool = False
    """Whether a member has rejected it, and not its delivery count ended it."""

    @property
    def is_locked(self) -> bool:
        """Whether its member has it, and has not answered for it yet."""
        return self.state is RecordState.ACQUIRED and self.settles is None


def runs_of(acks: Iterable[Ack]) -> Iterator[tuple[int, int, AckType]]:
    """The acknowledged records as runs of one type. Raises KafkaError(invalid_request) unless a
    batch has one type for all of its records, or one for each.

    A client that answers for each record sends one type each. As runs they cost one span for a
    stretch of equal answers.
    """
    for first, last, types in acks:
        if len(types) == 1:
            yield first, last, types[0]
            continue
        if len(types) != last - first + 1:
            message = f"{len(types)} acknowledge types for the offsets {first} to {last}"
            raise KafkaError(ErrorCode.invalid_request, message)
        start = first
        for offset, ack_type in enumerate(types, first):
            if offset == last or types[offset - first + 1] is not ack_type:
                yield start, offset, ack_type
                start = offset + 1


def joined(acquired: Sequence[Acquired]) -> list[Acquired]:
    """Neighbours with equal counts as one."""
    found: list[Acquired] = []
    for each in acquired:
        if found and (found[-1].last, found[-1].deliveries) == (each.first - 1, each.deliveries):
            found[-1] = found[-1]._replace(last=each.last)
        else:
            found.append(each)
    return found


def not_acquired(first: int, last: int) -> KafkaError:
    """The refusal of an answer for records that its member has not got."""
    message = f"the offsets {first} to {last} are not acquired by this member"
    return KafkaError(ErrorCode.invalid_record_state, message)

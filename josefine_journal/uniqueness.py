"""Whether a store has one event of each sequence number: tells copies from contradictions.

Rules: an append that repeats what an earlier one said (a tail of the log that was written again) is
a copy, which readers pass over; one that says something else of a number is an error with both
places, and no event of it is given; a journal without either is gone through once, one with copies
twice, and nothing of it is kept.
"""

from collections.abc import Callable, Iterator

from josefine_journal.actions import Append, SeqRange
from josefine_journal.errors import DataIntegrityViolated
from josefine_journal.records import ActionRecord, event_records

Appends = Callable[[int], Iterator[list[ActionRecord]]]
"""A journal's appends that have a number from that one on, in the order of the log."""


def unique(appends: Appends, begin: int) -> Iterator[list[ActionRecord]]:
    """The same from `begin` on. Raises DataIntegrityViolated before what contradicts is given,
    JournalError for a value that must be compared and cannot be read."""
    furthest = 0
    earlier = _Earlier(appends, begin)
    for part in appends(begin):
        for record in part:
            numbers = _numbers(record)
            if numbers.first <= furthest:
                earlier.check(record)
            furthest = max(furthest, numbers.last)
        yield part


class _Earlier:
    """The appends once more, for who looks for the first ones of some numbers."""

    def __init__(self, appends: Appends, begin: int) -> None:
        self._appends = appends
        self._begin = begin
        self._rest: Iterator[ActionRecord] | None = None
        self._passed = 0
        """The furthest number of what `rest` is behind: a copied tail goes on where it is."""

    def check(self, later: ActionRecord) -> None:
        numbers = _numbers(later)
        if self._rest is None or numbers.first <= self._passed:
            first = max(self._begin, numbers.first)
            self._rest = (each for part in self._appends(first) for each in part)
            self._passed = 0
        for record in self._rest:
            if record.offset >= later.offset:
                break
            self._passed = max(self._passed, _numbers(record).last)
            if _is_copy(later, record):
                return  # what else has these numbers was compared with that one
            self._compare(record, later)
        self._rest = None

    def _compare(self, record: ActionRecord, later: ActionRecord) -> None:
        one, other = _numbers(record), _numbers(later)
        if other.last < one.first or one.last < other.first:
            return
        events = {each.event.seq_nr: each.event for each in event_records(record)}
        for each in event_records(later):
            number = each.event.seq_nr
            if number >= self._begin and events.get(number, each.event) != each.event:
                raise DataIntegrityViolated(number, record=str(record), later=str(later))


def _is_copy(later: ActionRecord, record: ActionRecord) -> bool:
    return _numbers(later) == _numbers(record) and later.value == record.value


def _numbers(record: ActionRecord) -> SeqRange:
    assert isinstance(record.action, Append), record
    return record.action.range

"""The check that a store has one event per sequence number: it distinguishes copies from conflicts.

Rules: an append with the same events as an earlier one (a tail of the log that was written again)
is a copy, which readers skip; an append with another event of a number is an error with both
places, and none of its events is returned; a journal without either is read once, one with copies
twice, and nothing is kept in memory.
"""

from collections.abc import Callable, Iterator

from josefine_journal.actions import Append, SeqRange
from josefine_journal.errors import DataIntegrityViolated
from josefine_journal.records import ActionRecord, event_records

Appends = Callable[[int], Iterator[list[ActionRecord]]]
"""Returns a journal's appends from a sequence number on, in the order of the log."""


def unique(appends: Appends, begin: int) -> Iterator[list[ActionRecord]]:
    """The appends from `begin` on, without copies. Raises DataIntegrityViolated before it returns a
    conflicting append, and JournalError for an unreadable value that must be compared."""
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
    """A second pass over the appends, which finds the first append of a number."""

    def __init__(self, appends: Appends, begin: int) -> None:
        self._appends = appends
        self._begin = begin
        self._rest: Iterator[ActionRecord] | None = None
        self._passed = 0
        """The largest number that the second pass has reached: a copied tail continues there."""

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
                return  # later appends with these numbers were compared with that one
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

"""The window of a read: a journal's unreplicated actions up to the read's mark.

Rules: refused actions have no effect; the actions are kept, so that a short window is read once;
beyond `kept_bytes_max` it is read again from `resume` on, so that a long window takes no memory;
values are decoded only when one of their events is returned, and no event is returned before the
whole window was searched for deletes and purges.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from josefine_journal.actions import Append, Delete, Purge
from josefine_journal.events import SeqNr
from josefine_journal.head import EMPTY, Head, combine, head_of
from josefine_journal.moved import Left, moved_of
from josefine_journal.records import ActionRecord, EventRecord, event_records
from josefine_journal.reduction import Last, behind, counts

ACTION_BYTES = 256
"""Bytes that an action counts in addition to its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The offset from which the window was not kept, and the journal's state before it."""

    offset: int
    last: Last | None
    lost_to: int


class Window:
    """The only mutable class: takes one journal's records in the order of the log."""

    def __init__(self, before: Last | None, *, kept_bytes_max: int, lost_to: int = 0) -> None:
        """`before`: the journal's state before the window; `lost_to`: see `reduction.counts`."""
        self._last = before
        self._lost_to = lost_to
        self._deleted_to = 0
        self._head: Head = EMPTY
        self._kept: list[ActionRecord] = []
        self._kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max
        self._resume: Resume | None = None
        self._is_begun_anew = False
        self._left: Left | None = None

    @property
    def left(self) -> Left | None:
        """The partition to which the journal was moved, unless actions followed."""
        return self._left

    @property
    def is_begun_anew(self) -> bool:
        """Whether it contains an unconditional purge: then the state before it does not matter."""
        return self._is_begun_anew

    @property
    def last(self) -> Last | None:
        """The journal's last sequence number so far."""
        return self._last

    @property
    def lost_to(self) -> int:
        """End of the lost range that still matters."""
        return self._lost_to

    @property
    def pointer(self) -> SeqNr | None:
        return None if self._last is None else self._last.seq_nr

    @property
    def deleted_to(self) -> int:
        """Sequence number up to which events are deleted, including those before the window; 0:
        none."""
        return self._deleted_to

    @property
    def is_purged(self) -> bool:
        """Whether everything before the window is purged."""
        return self._head.purged_offset is not None

    @property
    def kept(self) -> Iterable[ActionRecord]:
        """The kept appends, up to `resume`, in order."""
        return tuple(self._kept)

    @property
    def resume(self) -> Resume | None:
        """The offset from which the remaining appends must be read; None: all are kept."""
        return self._resume

    def take(self, record: ActionRecord, *, is_held: bool = False) -> bool:
        """Add a record; whether it is valid: False for a refused one.

        `is_held`: it is in memory anyway, so it is kept regardless of the limit.
        """
        before = self._last
        if not counts(record.placed, before, self._lost_to):
            return False
        self._last = behind(record.placed, before)
        self._head = combine(self._head, head_of(record.action, record.offset))
        if isinstance(record.action, Purge):
            self._lost_to = 0
            moved = moved_of(record.headers)
            self._left = moved if isinstance(moved, Left) else None
            if record.action.expected_offset is None:
                self._is_begun_anew = True
            self._kept, self._kept_bytes, self._resume, self._deleted_to = [], 0, None, 0
        elif isinstance(record.action, Delete):
            self._deleted_to = max(self._deleted_to, min(record.action.to, _number(before)))
        elif isinstance(record.action, Append):
            self._left = None
            if self._resume is None:
                self._keep(record, before, is_held)
        return True

    def _keep(self, record: ActionRecord, before: Last | None, is_held: bool) -> None:
        size = 0 if is_held else record.value_bytes + ACTION_BYTES
        if self._kept_bytes + size > self._kept_bytes_max:
            self._resume = Resume(offset=record.offset, last=before, lost_to=self._lost_to)
            return
        self._kept.append(record)
        self._kept_bytes += size


def _number(last: Last | None) -> int:
    return 0 if last is None else last.seq_nr


class Reading:
    """The events that a read returns: each number once, strictly increasing."""

    def __init__(self, begin: int) -> None:
        """`begin` is the first sequence number that may be returned."""
        self._next = begin

    def events(self, record: ActionRecord) -> Iterator[EventRecord]:
        """The events of an append that were not returned before. Raises JournalError."""
        assert isinstance(record.action, Append), record
        if record.action.range.last < self._next:
            return
        for each in event_records(record):
            if each.event.seq_nr >= self._next:
                self._next = each.event.seq_nr + 1
                yield each

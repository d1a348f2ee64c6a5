"""The valid actions of a partition during a move, each as the record to write into the new
partition. Values, no I/O except the store's snapshot.

Rules: refused appends are left out; an expectation that was met is kept, because the copies meet it
too; a valid conditional purge loses its condition; an unreadable record is copied as it is, because
it harms only its own journal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.records.builder import Record
from josefine_journal.actions import (
    ACTION_HEADER,
    Action,
    Append,
    Mark,
    Purge,
    encode_action,
    with_partitions,
)
from josefine_journal.errors import JournalError
from josefine_journal.moved import MOVED_HEADER, Copied, Left, Move, encode_moved, moved_of
from josefine_journal.ports import Snapshot
from josefine_journal.records import ActionRecord, action_record
from josefine_journal.reduction import Last, Placed, behind, counts
from josefine_journal.settling import lost_to_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One action of a journal."""

    key: str
    offset: int
    record: Record
    """The record without the header of a move."""
    is_alive: bool
    """Whether the journal exists after it."""
    is_left: bool = False
    """The purge with which this move ended the journal here; it is not part of its history."""
    copied: Copied | None = None

    def copy(self, moved: Copied) -> Record:
        headers = (*self.record.headers, (MOVED_HEADER, encode_moved(moved)))
        return self.record._replace(headers=headers)


@dataclass(slots=True)
class Partition:
    """A partition of a moved topic, with its journals' last sequence numbers so far."""

    number: int
    move: Move
    snapshot: Snapshot | None = None
    lasts: dict[str, tuple[Last | None, int]] = field(default_factory=dict)
    """(last, end of the lost range that matters) of journals in the topic's part."""

    def target(self, key: str) -> int:
        return partition_for_key(key.encode(), self.move.count)

    def is_moving(self, key: str) -> bool:
        """Whether the journal moves from this partition to another one."""
        return self._source(key) == self.number != self.target(key)

    def is_strange(self, key: str) -> bool:
        """Whether the journal belongs here now and belonged elsewhere before."""
        return self._source(key) != self.number == self.target(key)

    def is_written_by_others(self, topic: str, record: Record) -> bool:
        """Whether a record is an action of a moving journal, other than the purge of its move."""
        key = None if record.key is None else _text(record.key)
        if not key or not self.is_moving(key):
            return False
        try:
            action = action_record(topic, self.number, record)
        except JournalError:
            return True
        if action is None or isinstance(action.action, Mark):
            return False
        moved = moved_of(action.headers)
        return not (isinstance(moved, Left) and moved.move == self.move)

    def _source(self, key: str) -> int:
        return partition_for_key(key.encode(), self.move.count_before)

    def know(self, records: Sequence[Record]) -> None:
        """Query the store for the last sequence numbers of journals not seen before."""
        if self.snapshot is None:
            return
        keys = {_text(each.key) for each in records if each.key} - {None}
        unknown = sorted(key for key in keys if key is not None and key not in self.lasts)
        found = self.snapshot.lasts(self.number, unknown) if unknown else {}
        for key in unknown:
            last = found.get(key)
            self.lasts[key] = last, lost_to_of(self.snapshot, self.number, key, last)

    def items(self, topic: str, records: Sequence[Record]) -> list[Item]:
        """The items of the topic's records."""
        found = (self._item(topic, each) for each in records)
        return [each for each in found if each is not None]

    def _item(self, topic: str, record: Record) -> Item | None:
        key = None if record.key is None else _text(record.key)
        if not key:
            return None
        try:
            action = action_record(topic, self.number, record)
        except JournalError:
            return Item(key=key, offset=record.offset, record=record, is_alive=True)
        if action is None or isinstance(action.action, Mark):
            return None
        last, lost_to = self.lasts.get(key, (None, 0))
        if not counts(action.placed, last, lost_to):
            return None
        after = behind(action.placed, last)
        self.lasts[key] = after, 0 if isinstance(action.action, Purge) else lost_to
        settled = _settled(action.action, last)
        count = self.move.count_before
        if settled is not action.action:
            record = _encoded(replace(action, action=settled), key, count)
        else:
            record = _stamped(record, count)
        return _item_of(key, action, record, after is not None, self.move)


def items_of_rows(rows: Sequence[tuple[str, ActionRecord]], part: Partition) -> list[Item]:
    """The items of the store's rows. Whether a journal exists follows from its rows only."""
    count = part.move.count_before
    return [
        _item_of(key, row, _encoded(row, key, count), not isinstance(row.action, Purge), part.move)
        for key, row in rows
    ]


def _item_of(key: str, action: ActionRecord, record: Record, is_alive: bool, move: Move) -> Item:
    moved = moved_of(action.headers)
    plain = tuple(each for each in record.headers if each[0] != MOVED_HEADER)
    return Item(
        key=key,
        offset=action.offset,
        record=record._replace(headers=plain),
        is_alive=is_alive,
        is_left=isinstance(moved, Left) and moved.move == move,
        copied=moved if isinstance(moved, Copied) else None,
    )


def _settled(action: Action, last: Last | None) -> Action:
    """A valid action, without an expectation that its copy would not meet."""
    if isinstance(action, Purge) and action.expected_offset is not None:
        return replace(action, expected_offset=None)
    if isinstance(action, Append) and action.expected_seq_nr is not None:
        unconditional = replace(action, expected_seq_nr=None)
        is_met = counts(Placed(offset=0, action=action), last)
        return action if is_met else unconditional  # it was valid only because records were lost
    return action


def _encoded(row: ActionRecord, key: str, count: int) -> Record:
    """The original record of a row, except for what the store does not keep."""
    value = row.value
    if value is None and isinstance(row.action, Append):
        value = b""  # its events are deleted: only its number is needed
    headers = ((ACTION_HEADER, encode_action(row.action, count)), *row.headers)
    return Record(key.encode(), value, headers, row.timestamp_ms, row.offset)


def _stamped(record: Record, count: int) -> Record:
    """The record with the move's partition count, if it has an older one; else unchanged."""
    headers = tuple(
        (name, with_partitions(value, count) if name == ACTION_HEADER and value else value)
        for name, value in record.headers
    )
    return record._replace(headers=headers)


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None

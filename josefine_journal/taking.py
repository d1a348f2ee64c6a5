"""The records of a partition that a round of replication has read, by journal. Values, no I/O.

Rules: foreign records are skipped; a record with an unreadable header becomes a dead letter if
these are enabled, otherwise the range ends before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER
from josefine_journal.errors import JournalError, RecordsLost
from josefine_journal.records import ActionRecord, action_record

RECORD_BYTES = 128
"""Bytes that a record counts in addition to its key and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An unreadable record, and the reason."""

    topic: str
    partition: int
    record: Record
    error: JournalError


@dataclass(slots=True)
class Taken:
    """The records of a partition from `begin` (None: nothing is stored) to `end` (exclusive)."""

    topic: str
    partition: int
    begin: int | None
    end: int
    records: int = 0
    size: int = 0
    by_key: dict[str, list[ActionRecord]] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    lost: RecordsLost | None = None

    def take_all(self, records: Sequence[Record], *, buries: bool) -> JournalError | None:
        """Add records; returns the error of the record at which the range ended, which is then at
        `end`; None: all were added."""
        for record in records:
            try:
                self._take(record)
            except JournalError as error:
                if not buries:
                    return error
                letter = DeadLetter(
                    topic=self.topic, partition=self.partition, record=record, error=error
                )
                self.dead.append(letter)
            self.records += 1
            self.size += RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
            self.end = record.offset + 1
        return None

    def _take(self, record: Record) -> None:
        key = _id_of(record)
        found = None if key is None else action_record(self.topic, self.partition, record)
        if key is not None and found is not None:
            self.by_key.setdefault(key, []).append(found)


def _id_of(record: Record) -> str | None:
    """The journal's id; None: the key is not a valid id, so the record is foreign."""
    if not record.key or not any(name == ACTION_HEADER for name, _ in record.headers):
        return None
    try:
        return record.key.decode()
    except UnicodeDecodeError:
        return None

"""What a replicator takes of a log: a partition's records by journal. Values, no I/O.

Rules: what is nobody's journal is passed over; a record whose header cannot be read is a dead
letter where these are wanted, and else ends what is taken, before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER
from josefine_journal.errors import JournalError, RecordsLost
from josefine_journal.records import ActionRecord, action_record

RECORD_BYTES = 128
"""What a record counts beside its key and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that no reader of its journal can read, and why."""

    topic: str
    partition: int
    record: Record
    error: JournalError


@dataclass(slots=True)
class Taken:
    """What was read of a partition from `begin` (None: nothing is stored) to `end`, exclusive."""

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
        """The error of the record that ends it, which is then at `end`; None: all are taken."""
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
    """The journal's id; None: nobody's, for nobody can ask for it."""
    if not record.key or not any(name == ACTION_HEADER for name, _ in record.headers):
        return None
    try:
        return record.key.decode()
    except UnicodeDecodeError:
        return None

"""Snapshots of an entity: its state after the event of a sequence number, from which its recovery
starts. Values and rules, no I/O.

Rules: a row saves a snapshot, or deletes rows, or both; a snapshot exists if a row saves it and no
row deletes it, in whatever order the rows arrived; a sequence number has one snapshot. The value
is encoded like that of an append with one event of that number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from josefine_journal.actions import PayloadType
from josefine_journal.errors import JournalError
from josefine_journal.events import (
    SEQ_NR_MAX,
    Event,
    Events,
    JsonObject,
    Payload,
    PayloadMetadata,
    SeqNr,
)
from josefine_journal.payloads import decode_payload, encode_payload

KEPT_MAX = 10
"""Snapshots per journal: a save beyond that deletes those with the smallest numbers."""
TIME_MS_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySnapshot:
    """A snapshot as it was saved; the time is the writer's."""

    seq_nr: SeqNr
    timestamp_ms: int
    payload: Payload | None
    metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A snapshot with its value encoded."""

    seq_nr: int
    timestamp_ms: int
    payload_type: PayloadType
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The row of one save or deletion."""

    key: str
    id: str
    """Unique id of the row."""
    saved: Saved | None = None
    gone: frozenset[str] = field(default_factory=frozenset)
    """Ids of the rows whose snapshots it deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """A selection of a journal's snapshots; all bounds are inclusive."""

    min_seq_nr: int = 0
    max_seq_nr: int = SEQ_NR_MAX
    min_timestamp_ms: int = 0
    max_timestamp_ms: int = TIME_MS_MAX

    def takes(self, saved: Saved) -> bool:
        in_time = self.min_timestamp_ms <= saved.timestamp_ms <= self.max_timestamp_ms
        return in_time and self.min_seq_nr <= saved.seq_nr <= self.max_seq_nr


ALL = Criteria()


def encoded(snapshot: EntitySnapshot) -> Saved:
    """Encode a snapshot. Raises JournalError if that is not possible."""
    try:
        event = Event(seq_nr=snapshot.seq_nr, payload=snapshot.payload)
    except ValueError as error:
        raise JournalError(f"snapshot: {error}") from error
    metadata = PayloadMetadata(data=snapshot.metadata)
    kind, value = encode_payload(Events(events=(event,), metadata=metadata))
    return Saved(
        seq_nr=event.seq_nr, timestamp_ms=snapshot.timestamp_ms, payload_type=kind, value=value
    )


def decoded(saved: Saved) -> EntitySnapshot:
    """The reverse. Raises JournalError."""
    found = decode_payload(saved.payload_type, saved.value)
    return EntitySnapshot(
        seq_nr=SeqNr(saved.seq_nr),
        timestamp_ms=saved.timestamp_ms,
        payload=found.events[0].payload,
        metadata=found.metadata.data,
    )


def there(rows: Iterable[Row]) -> list[tuple[str, Saved]]:
    """The existing snapshots of one journal with their row ids: largest number first, then the
    latest."""
    found = list(rows)
    gone = frozenset().union(*(row.gone for row in found))
    left = [(row.id, row.saved) for row in found if row.saved is not None and row.id not in gone]
    return sorted(left, key=lambda e: (e[1].seq_nr, e[1].timestamp_ms, e[0]), reverse=True)


def given(rows: Iterable[Row], criteria: Criteria) -> list[Saved]:
    """The snapshots for a reader: one per number, even if two writers saved it concurrently."""
    found: dict[int, Saved] = {}
    for _, saved in there(rows):
        if criteria.takes(saved):
            found.setdefault(saved.seq_nr, saved)
    return list(found.values())


def replaced(rows: Iterable[Row], saved: Saved, kept_max: int) -> frozenset[str]:
    """The rows that a save deletes: the older snapshot of its number, and those above the limit."""
    others = there(rows)
    same = {row_id for row_id, each in others if each.seq_nr == saved.seq_nr}
    rest = [row_id for row_id, _ in others if row_id not in same]
    return frozenset(same) | frozenset(rest[max(0, kept_max - 1) :])


def deleted(rows: Iterable[Row], criteria: Criteria) -> frozenset[str]:
    """The rows that a deletion deletes."""
    return frozenset(row_id for row_id, saved in there(rows) if criteria.takes(saved))


def least(rows: Sequence[Row], *, is_whole: bool) -> list[Row]:
    """The smallest equivalent of these rows, whatever other rows exist; `is_whole`: there are no
    others."""
    gone = frozenset().union(*(row.gone for row in rows))
    here = {row.id for row in rows}
    found = []
    for row in rows:
        elsewhere = frozenset() if is_whole else row.gone - here
        saved = None if row.id in gone else row.saved
        if saved is not None or elsewhere:
            found.append(replace(row, saved=saved, gone=elsewhere))
    return found

"""The ports of a journal: a log, and optionally a store. Protocols and values.

Each has two implementations: `topic.py` and `delta_store.py`, and the in-memory ones of the
simulation tests (tests/support/journal_world.py).
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from josefine_broker.records.builder import Record
from josefine_journal.events import SeqNr
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last


class Log(Protocol):
    """The topic of some journals."""

    topic: str

    @property
    def topic_id(self) -> UUID | None: ...

    async def partition_count(self) -> int: ...

    async def partition_of(self, key: bytes) -> int: ...

    async def start_offset(self, partition: int) -> int: ...

    async def start_offsets(self, partitions: Sequence[int]) -> dict[int, int]: ...

    async def configs(self) -> Mapping[str, str]:
        """The topic's configuration by name; empty if this client may not describe it."""
        ...

    async def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        """End offsets (exclusive) of the records that consumers may see."""
        ...

    async def write(self, partition: int, record: Record) -> int: ...

    async def write_all(self, partition: int, records: Sequence[Record]) -> None:
        """Write one batch: all records or none, in this order."""
        ...

    def read(self, partition: int, begin: int, end: int) -> AsyncGenerator[list[Record], None]:
        """The records in the range. Raises RecordsGone if the log starts after `begin`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The summary of a journal's rows in the store."""

    last: Last | None = None
    """The last sequence number, also if that event is deleted."""
    deleted_to: int = 0
    """Sequence number up to which events are deleted; 0: none."""
    begin_offset: int = 0
    """Rows with a smaller offset have no effect: they are from before a purge."""

    @property
    def pointer(self) -> SeqNr | None:
        return None if self.last is None else self.last.seq_nr


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The part of one commit for one partition: rows, and the new end of the replicated range.

    `begin` is the end that the writer expects in the store (None: nothing of the partition is
    stored), `end` is exclusive; the records are resolved, and their offsets are in between.
    """

    partition: int
    begin: int | None
    end: int
    records: Sequence[tuple[str, ActionRecord]]
    """Records, each with its journal's id."""
    lost_to: int = 0
    """End (exclusive) of the lost range that this commit skips; 0: none."""


class Snapshot(Protocol):
    """The store at one moment: rows and replicated offsets of the same commit."""

    def replicated(self, partition: int) -> int | None:
        """The end offset (exclusive) of a partition's stored range; None: nothing is stored."""
        ...

    def lost_to(self, partition: int) -> int:
        """The end offset (exclusive) of the last lost range; 0: none."""
        ...

    def outline(self, partition: int, key: str) -> Outline: ...

    def lasts(self, partition: int, keys: Sequence[str]) -> Mapping[str, Last]:
        """The last sequence numbers of those journals that have one."""
        ...

    def history(self, partition: int) -> Iterator[list[tuple[str, ActionRecord]]]:
        """All rows of a partition with their journals' ids, in the order of the log."""
        ...

    def appends(
        self, partition: int, key: str, outline: Outline, begin: int
    ) -> Iterator[list[ActionRecord]]:
        """Appends in the order of the log, without those that end before the number `begin`."""
        ...


class Store(Protocol):
    """The store of a topic's journals. Raises StoreError for anything else at its path."""

    def snapshot(self, partitions: Sequence[int]) -> Snapshot:
        """The newest snapshot of these partitions, with every commit before the call."""
        ...

    def commit(self, batches: Sequence[Batch]) -> None:
        """Commit all batches or none. Raises Overtaken if another writer committed first."""
        ...

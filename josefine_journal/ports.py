"""What a journal needs of the world: a log, and perhaps a store beside it. Protocols and values.

Each has two implementations: `topic.py` and `delta_store.py`, and those in memory that the tests'
lives run on (tests/support/journal_world.py).
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
        """The topic's, by name; empty where this client may not see them."""
        ...

    async def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        """Exclusive ends: of what consumers may see."""
        ...

    async def write(self, partition: int, record: Record) -> int: ...

    async def write_all(self, partition: int, records: Sequence[Record]) -> None:
        """As one batch: all of them or none, in this order."""
        ...

    def read(self, partition: int, begin: int, end: int) -> AsyncGenerator[list[Record], None]:
        """Raises RecordsGone where the log begins behind `begin`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What a journal's rows in the store amount to."""

    last: Last | None = None
    """Its number is there also where the event is deleted."""
    deleted_to: int = 0
    """Up to where events are gone; 0: none."""
    begin_offset: int = 0
    """Rows below it count for nothing: they are from before a purge."""

    @property
    def pointer(self) -> SeqNr | None:
        return None if self.last is None else self.last.seq_nr


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one commit does to one partition: rows, and how far it is replicated with them.

    `begin` is where the writer believes the store to end (None: nothing of the partition is
    there), `end` is exclusive; the records are settled, and lie between the two.
    """

    partition: int
    begin: int | None
    end: int
    records: Sequence[tuple[str, ActionRecord]]
    """Each with its journal's id."""
    lost_to: int = 0
    """Exclusive end of what was lost and is passed over with this commit; 0: nothing."""


class Snapshot(Protocol):
    """The store at one moment: rows and replicated offsets of the same commit."""

    def replicated(self, partition: int) -> int | None:
        """The exclusive end of what is stored of a partition; None: nothing was replicated."""
        ...

    def lost_to(self, partition: int) -> int:
        """The exclusive end of the last range that was lost before it was stored; 0: none."""
        ...

    def outline(self, partition: int, key: str) -> Outline: ...

    def lasts(self, partition: int, keys: Sequence[str]) -> Mapping[str, Last]:
        """Those of them that have one."""
        ...

    def history(self, partition: int) -> Iterator[list[tuple[str, ActionRecord]]]:
        """All rows of a partition with their journals' ids, in the order of the log."""
        ...

    def appends(
        self, partition: int, key: str, outline: Outline, begin: int
    ) -> Iterator[list[ActionRecord]]:
        """In the order of the log; those are left out that end before sequence number `begin`."""
        ...


class Store(Protocol):
    """Raises StoreError for what is no store of ours."""

    def snapshot(self, partitions: Sequence[int]) -> Snapshot:
        """The newest of these partitions: what was committed before the call is in it."""
        ...

    def commit(self, batches: Sequence[Batch]) -> None:
        """All of it or nothing. Raises Overtaken where another writer was there before."""
        ...

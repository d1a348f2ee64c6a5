"""The journals of a topic, for asyncio: append, read, pointer, delete, purge, mark.

A read begins with a mark of its own: it sees every append that was acknowledged before, whoever
wrote it, and ends there. How far a journal was read is remembered with its last sequence number,
and the next call begins there if it can. An append that expects a sequence number is refused by
every reader where the journal has another one at its place in the log; its writer reads up to there
before it answers. With a store beside the topic, the topic may lose what is replicated; without one
it must keep its records (no retention, no compaction). A topic that got more partitions is refused
until its journals were moved (`moving.py`).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.records.builder import Record
from josefine_journal.actions import Action, Delete, Mark, Purge
from josefine_journal.calls import Calls
from josefine_journal.errors import ConcurrentWriter, JournalError
from josefine_journal.events import SEQ_NR_MAX, SEQ_NR_MIN, Event, SeqNr
from josefine_journal.head_cache import BYTES_MAX, HeadCache
from josefine_journal.heads import Heads
from josefine_journal.notifying import WAIT_S, stored
from josefine_journal.opening import finite_retention
from josefine_journal.ports import Log, Store
from josefine_journal.readers import Readers
from josefine_journal.records import (
    EventRecord,
    Headers,
    PartitionOffset,
    RecordMetadata,
    encode_append,
    headers_of,
)
from josefine_journal.reduction import Placed, behind, counts
from josefine_journal.remembered import Folded, Remembered
from josefine_journal.topic import TopicLog
from josefine_journal.uniqueness import unique
from josefine_journal.viewing import Viewer
from josefine_journal.window import Reading, Window

T = TypeVar("T")

KEPT_BYTES_MAX = 1024 * 1024
"""Of a journal's unreplicated appends; past that they are read twice, and memory stays as it is."""


class Journals:
    """Every journal of one topic; the topic must exist.

    `origin` and `version` say in each action who wrote it.
    """

    def __init__(
        self,
        client: AsyncClient | None,
        topic: str,
        *,
        origin: str | None = None,
        version: str | None = None,
        store: Path | Store | None = None,
        log: Log | None = None,
        kept_bytes_max: int = KEPT_BYTES_MAX,
        head_cache_bytes_max: int = BYTES_MAX,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rng: Random | None = None,
        calls: Calls | None = None,
        unique_seq_nrs: bool = True,
        readers: Readers | None = None,
    ) -> None:
        """Opens nothing; the client stays its owner's to close. `store` is the folder of a Delta
        store (docs/journal.md); who gives a `log` needs no client; `head_cache_bytes_max` 0: each
        reader reads the topic by itself; `calls` counts what is done; without `unique_seq_nrs` the
        first event of a number is read where the store has others, else they are an error;
        `readers` read the topic in the client's stead."""
        assert client is not None or log is not None
        self.topic: Log = log or TopicLog(client, topic, readers)  # type: ignore[arg-type]
        self._store = store
        self._opened: tuple[object, Store] | None = None
        self.origin = origin
        self.version = version
        self.kept_bytes_max = kept_bytes_max
        self.clock_ms = clock_ms
        self.rng = rng or Random()
        self.remembered = Remembered()
        self.heads = None
        if head_cache_bytes_max:
            self.heads = Heads(self.topic, HeadCache(head_cache_bytes_max), calls=calls)
        self.calls = calls
        self.unique_seq_nrs = unique_seq_nrs

    async def store(self) -> Store | None:
        """Of the topic as it is now. Raises KafkaError for one that does not exist."""
        count = await self.topic.partition_count()  # the topic's id is known with it
        if not isinstance(self._store, Path):
            return self._store
        opened = self.topic.topic_id, count
        if self._opened is None or self._opened[0] != opened:
            from josefine_journal.delta_store import DeltaStore  # who has no store needs no Arrow

            topic = self.topic.topic
            store = DeltaStore(self._store, topic, opened[0], partition_count=count)
            self._opened = opened, store
        return self._opened[1]

    async def replicated(self, place: PartitionOffset, timeout_s: float = WAIT_S) -> None:
        """When the store has that place of the topic. Raises JournalError after so long."""
        store = await self.store()
        if store is None:
            raise JournalError(f"no store of topic '{self.topic.topic}' is named")
        await stored(store, self.topic.topic, place, timeout_s)

    async def retention_warning(self) -> str | None:
        """What will be lost, where the topic does not keep its records and no store has them."""
        finite = finite_retention(await self.topic.configs()) if self._store is None else []
        if not finite:
            return None
        return (
            f"topic '{self.topic.topic}' has {' and '.join(finite)} and no store is named: events "
            "that leave the topic are lost, and journals that began before them cannot be read; "
            "replicate it and name the store (--store), or set the retention to -1"
        )

    def journal(self, key: str) -> "Journal":
        """The journal of that id. Raises JournalError for an id that cannot be."""
        return Journal(self, key)


class Journal:
    """One journal. Raises JournalError, and KafkaError where the broker is the cause."""

    def __init__(self, journals: Journals, key: str) -> None:
        self._journals = journals
        self._topic = journals.topic
        self.key = key
        self._key = _encoded(key)

    async def append(
        self,
        events: Sequence[Event],
        metadata: RecordMetadata | None = None,
        headers: Headers = (),
        expected_seq_nr: int | None = None,
    ) -> PartitionOffset:
        """Write all events or none of them, as one record.

        `expected_seq_nr` is the journal's last sequence number as this writer knows it (0: there is
        none); the events are behind it. Raises ConcurrentWriter where another writer was faster:
        the events are not there.
        """
        with self._timed("append"):
            return await self._append(events, metadata, headers, expected_seq_nr)

    async def _append(
        self,
        events: Sequence[Event],
        metadata: RecordMetadata | None,
        headers: Headers,
        expected_seq_nr: int | None,
    ) -> PartitionOffset:
        action, value = encode_append(
            events,
            metadata or RecordMetadata(),
            origin=self._journals.origin,
            version=self._journals.version,
            expected_seq_nr=expected_seq_nr,
        )
        if expected_seq_nr is None:
            return await self._write(action, value, headers)
        viewer = await self._viewer()
        known = await viewer.known(await self._topic.partition_of(self._key))
        at = await self._write(action, value, headers)
        before = await (await self._viewer()).last_at(at, known)
        placed = Placed(offset=at.offset, action=action)
        is_taken = counts(placed, before.last, before.lost_to)
        last = behind(placed, before.last) if is_taken else before.last
        self._remember(replace(before, end_offset=at.offset + 1, last=last))
        if not is_taken:
            found = before.pointer or 0
            raise ConcurrentWriter(self._name, expected=expected_seq_nr, found=found)
        return at

    async def read(self, from_seq_nr: int = SEQ_NR_MIN) -> AsyncGenerator[EventRecord, None]:
        """The events from that number on, in order, each once; ends at what is there now."""
        async for chunk in self.chunks(from_seq_nr):
            for each in chunk:
                yield each

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        """A call, as it is counted."""
        calls, begun = self._journals.calls, time.perf_counter()
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            if calls is not None:
                calls.ended(self._topic.topic, kind, time.perf_counter() - begun, error)

    async def chunks(
        self, from_seq_nr: int = SEQ_NR_MIN
    ) -> AsyncGenerator[list[EventRecord], None]:
        """`read`, as many events at a time as come together; no list is empty."""
        with self._timed("read"):  # up to its first event: the rest is its reader's time, too
            mark = await self._mark()
            viewer = await self._viewer()
            kept = self._journals.kept_bytes_max
            view = await viewer.look(mark, wanted=from_seq_nr, kept_bytes_max=kept)
            self._remember(view.folded)
        window = view.window
        reading = Reading(max(from_seq_nr, view.deleted_to + 1))
        if view.stored is not None and not window.is_purged:
            begin = max(from_seq_nr, view.deleted_to + 1)
            is_checked = self._journals.unique_seq_nrs
            parts = unique(view.stored.appends, begin) if is_checked else view.stored.appends(begin)
            while (part := await asyncio.to_thread(_next, parts)) is not None:
                if found := [event for each in part for event in reading.events(each)]:
                    yield found
        for record in window.kept:
            if found := list(reading.events(record)):
                yield found
        if (resume := window.resume) is None:
            return
        again = Window(resume.last, kept_bytes_max=0, lost_to=resume.lost_to)
        async for records in viewer.actions(resume.offset, mark):
            taken = [each for each in records if again.take(each) and each.value is not None]
            if found := [event for each in taken for event in reading.events(each)]:
                yield found

    async def pointer(self) -> SeqNr | None:
        """The last sequence number, also of events that are deleted; None: nothing was written
        since the journal was purged, or ever."""
        with self._timed("pointer"):
            mark = await self._mark()
            view = await (await self._viewer()).look(mark, wanted=SEQ_NR_MAX + 1)
            self._remember(view.folded)
            return view.pointer

    async def delete(self, to: int = SEQ_NR_MAX) -> PartitionOffset | None:
        """Delete the events up to and with `to` that are there now; None: the journal is empty,
        and nothing was written."""
        if to < SEQ_NR_MIN:
            raise JournalError(f"{self._name}: {to} is no sequence number to delete up to")
        with self._timed("delete"):
            pointer = await self.pointer()
            if pointer is None:
                return None
            journals = self._journals
            reached = SeqNr(min(to, pointer))
            action = Delete(to=reached, origin=journals.origin, version=journals.version)
            return await self._write(action)

    async def purge(self, *, expected_offset: int | None = None) -> PartitionOffset:
        """Make it a journal that was never written.

        `expected_offset`: only if its last append still stands there; nobody is told if not.
        """
        origin, version = self._journals.origin, self._journals.version
        action = Purge(origin=origin, version=version, expected_offset=expected_offset)
        with self._timed("purge"):
            return await self._write(action)

    async def mark(self, name: str) -> PartitionOffset:
        """Write a place in the log that changes nothing."""
        origin, version = self._journals.origin, self._journals.version
        return await self._write(Mark(id=name, origin=origin, version=version))

    @property
    def _name(self) -> str:
        return f"journal '{self._key.decode()}' of topic '{self._topic.topic}'"

    async def _write(
        self, action: Action, value: bytes | None = None, headers: Headers = ()
    ) -> PartitionOffset:
        partition = await self._topic.partition_of(self._key)
        count = await self._topic.partition_count()
        named = headers_of(action, headers, count)
        record = Record(self._key, value, named, self._journals.clock_ms())
        offset = await self._topic.write(partition, record)
        return PartitionOffset(partition=partition, offset=offset)

    async def _mark(self) -> PartitionOffset:
        """Where this read ends."""
        return await self.mark(f"{self._journals.rng.getrandbits(128):032x}")

    async def _viewer(self) -> Viewer:
        journals = self._journals
        store = await journals.store()
        return Viewer(self._key, self._topic, store, journals.remembered, journals.heads)

    def _remember(self, folded: Folded) -> None:
        """The journal as it is there."""
        self._journals.remembered.put(self._key, self._topic.topic_id, folded)


def _next(parts: Iterator[T]) -> T | None:
    return next(parts, None)


def _encoded(key: str) -> bytes:
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise JournalError(f"journal id {key!r} is no UTF-8") from error
    if not encoded:
        raise JournalError("a journal's id has at least one character")
    return encoded

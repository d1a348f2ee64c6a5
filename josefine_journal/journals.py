"""The asyncio API of a topic's journals: append, read, pointer, delete, purge, mark.

A read first writes a mark: it sees every append of any writer that was acknowledged before, and
ends at the mark. The end of the last read is remembered with the last sequence number, and the next
call starts there if possible. An append with an expected sequence number is refused by every reader
if the journal has another one at that offset; its writer reads up to the append before it returns.
With a store, the topic may lose replicated records; without one it must keep all records (no
retention, no compaction). A topic with more partitions than before is refused until its journals
are moved (`moving.py`).
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
"""Memory for a journal's unreplicated appends; beyond it they are read twice."""


class Journals:
    """Every journal of one topic; the topic must exist.

    `origin` and `version` are written into each action and identify its writer.
    """

    def __init__(
        self,
        client: AsyncClient | None,
        topic: str,
        *,
        origin: str | None = None,
        version: str | None = None,
        store: Path | str | Store | None = None,
        log: Log | None = None,
        kept_bytes_max: int = KEPT_BYTES_MAX,
        head_cache_bytes_max: int = BYTES_MAX,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rng: Random | None = None,
        calls: Calls | None = None,
        unique_seq_nrs: bool = True,
        readers: Readers | None = None,
    ) -> None:
        """Opens nothing; the caller closes the client. `store`: the folder of a Delta store
        or its URI in S3 (docs/reference/journal.md); `log`: replaces the client;
        `head_cache_bytes_max` 0: none; `calls`: counts the calls; `unique_seq_nrs`: two different
        events of one number in the store are an error, without it the first one is read; `readers`:
        read the topic instead of the client."""
        assert client is not None or log is not None
        self.topic: Log = log or TopicLog(client, topic, readers)  # type: ignore[arg-type]
        self._store = store
        # Opened at the first use: only then the topic's id is known, by which stores are checked.
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
        """The store of the current topic. Raises KafkaError for a topic that does not exist."""
        count = await self.topic.partition_count()  # this request also returns the topic's id
        if not isinstance(self._store, Path | str):
            return self._store
        opened = self.topic.topic_id, count
        if self._opened is None or self._opened[0] != opened:
            from josefine_journal.delta_store import DeltaStore  # without a store Arrow is optional

            topic = self.topic.topic
            store = DeltaStore(self._store, topic, opened[0], partition_count=count)
            self._opened = opened, store
        return self._opened[1]

    async def replicated(self, place: PartitionOffset, timeout_s: float = WAIT_S) -> None:
        """Wait until the store has that offset of the topic; JournalError after the timeout."""
        store = await self.store()
        if store is None:
            raise JournalError(f"no store is given for topic '{self.topic.topic}'")
        await stored(store, self.topic.topic, place, timeout_s)

    async def retention_warning(self) -> str | None:
        """A warning if the topic's retention will delete records that no store has; else None."""
        finite = finite_retention(await self.topic.configs()) if self._store is None else []
        if not finite:
            return None
        return (
            f"topic '{self.topic.topic}' has {' and '.join(finite)} and no store is given: events "
            "that leave the topic are lost, and journals that started before them cannot be read; "
            "replicate it and name the store (--store), or set the retention to -1"
        )

    def journal(self, key: str) -> "Journal":
        """The journal of that id. Raises JournalError for an invalid id."""
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

        `expected_seq_nr` is the journal's last sequence number as known to this writer (0: no
        event); the new events must have larger ones. Raises ConcurrentWriter if another writer was
        faster: then the events are not part of the journal.
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
        """The current events from that number on, in order, each once."""
        async for chunk in self.chunks(from_seq_nr):
            for each in chunk:
                yield each

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        """Count a call with its duration."""
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
        """As `read`, in lists of events that arrive together; no list is empty."""
        with self._timed("read"):  # up to the first event: later time includes the caller's own
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
        """The last sequence number, also if that event is deleted; None: the journal was never
        written, or not since its purge."""
        with self._timed("pointer"):
            mark = await self._mark()
            view = await (await self._viewer()).look(mark, wanted=SEQ_NR_MAX + 1)
            self._remember(view.folded)
            return view.pointer

    async def delete(self, to: int = SEQ_NR_MAX) -> PartitionOffset | None:
        """Delete the existing events up to and including `to`; None: the journal is empty, and
        nothing was written."""
        if to < SEQ_NR_MIN:
            raise JournalError(f"{self._name}: cannot delete up to {to}: not a sequence number")
        with self._timed("delete"):
            pointer = await self.pointer()
            if pointer is None:
                return None
            journals = self._journals
            reached = SeqNr(min(to, pointer))
            action = Delete(to=reached, origin=journals.origin, version=journals.version)
            return await self._write(action)

    async def purge(self, *, expected_offset: int | None = None) -> PartitionOffset:
        """Delete the whole journal, as if it had never been written.

        `expected_offset`: only if its last append is still at that offset; otherwise the purge has
        no effect, which is not reported.
        """
        origin, version = self._journals.origin, self._journals.version
        action = Purge(origin=origin, version=version, expected_offset=expected_offset)
        with self._timed("purge"):
            return await self._write(action)

    async def mark(self, name: str) -> PartitionOffset:
        """Write a mark, which changes nothing; returns its place."""
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
        """Write the mark at which this read ends."""
        return await self.mark(f"{self._journals.rng.getrandbits(128):032x}")

    async def _viewer(self) -> Viewer:
        journals = self._journals
        store = await journals.store()
        return Viewer(self._key, self._topic, store, journals.remembered, journals.heads)

    def _remember(self, folded: Folded) -> None:
        """Remember how far the journal is read."""
        self._journals.remembered.put(self._key, self._topic.topic_id, folded)


def _next(parts: Iterator[T]) -> T | None:
    return next(parts, None)


def _encoded(key: str) -> bytes:
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise JournalError(f"journal id {key!r} is not valid UTF-8") from error
    if not encoded:
        raise JournalError("a journal's id must not be empty")
    return encoded

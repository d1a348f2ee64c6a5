"""The move of a widened topic's journals to the partitions to which their ids map now.

Rules: a journal's actions are copied in order and unchanged, with their place (`moved`), first
those of the store and then those of the topic. When all are copied, a purge ends each journal in
its old partition; then every partition gets a mark with the new count, and last the store. Until
then the topic cannot be opened, so no writer sees half of a move. Each step finds its own earlier
results, so a move that crashed anywhere is started again and ends with the same result. The store's
rows are not written: a replicator does that once the topic can be opened again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER, Mark, Purge, partitions_of
from josefine_journal.errors import JournalError, RecordsGone, RecordsLost, TopicWidened
from josefine_journal.failpoints import nothing_fails
from josefine_journal.history import Item, Partition, items_of_rows
from josefine_journal.moved import MOVED_HEADER, Copied, Left, Move, encode_moved
from josefine_journal.opening import check_cleanup, check_placement, finite_retention, tails
from josefine_journal.ports import Log, Store
from josefine_journal.records import headers_of

MARK_KEY = b"josefine-journal-move"
BATCH_BYTES = 256 * 1024
BATCH_RECORDS = 500
ATTEMPTS = 5
"""Passes over the topic; another one is needed if records were written during the last one."""
NAMED_MAX = 5
"""Journals that an error names."""


@dataclass(slots=True, kw_only=True)
class Moved:
    """The result of a run; `count_before` None: there was nothing to do."""

    count_before: int | None
    count: int
    journals: int = 0
    records: int = 0


@dataclass(slots=True)
class _Found:
    """The result of one scan of all partitions."""

    ends: dict[int, int] = field(default_factory=dict)
    """Partition → end of the scan (exclusive)."""
    alive: dict[int, set[str]] = field(default_factory=dict)
    """Journals that are still in their old partition."""
    left: set[str] = field(default_factory=set)
    """Journals that this move purged in their old partition: records may have been written between
    copy and purge. A journal with any other purge has nothing to copy; after the purge of an
    earlier move it is where it belongs."""
    copied: dict[tuple[int, int], int] = field(default_factory=dict)
    """(old, new partition) → the last copied offset."""
    strangers: dict[str, int] = field(default_factory=dict)
    """Journals that were written to their new partition by something other than a move → that
    partition."""


class Mover:
    """The move of one topic, which must have no other writers meanwhile."""

    def __init__(
        self,
        log: Log,
        store: Store | None,
        count: int,
        *,
        stored_count: int | None = None,
        count_before: int | None = None,
        batch_records: int = BATCH_RECORDS,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        at: Callable[[str], None] = nothing_fails,
    ) -> None:
        """`log` is opened without the check of its partition count. `stored_count`: recorded in the
        store; `count`: of the topic; `count_before`: given by the user, for records of older
        programs."""
        self._log = log
        self._store = store
        self._count = count
        self._stored_count = stored_count
        self._count_before = count_before
        self._batch_records = batch_records
        self._clock_ms = clock_ms
        self._at = at

    async def run(self) -> Moved:
        """Raises JournalError for a topic that cannot be moved, and RecordsLost if neither store
        nor topic have a journal complete; then nothing is written."""
        configs = await self._log.configs()
        check_cleanup(self._log.topic, configs)
        before = await self._recorded()
        done = Moved(count_before=before, count=self._count)
        if before is None:
            return done
        if finite := finite_retention(configs):
            raise JournalError(
                f"topic '{self._log.topic}' has {' and '.join(finite)}: moved records keep their "
                "timestamps, so retention would delete them before they are replicated; set it to "
                "-1 until the topic is moved and replicated"
            )
        move = Move(count_before=before, count=self._count)
        for _ in range(ATTEMPTS):
            if await self._pass(move, done):
                return done
        raise JournalError(
            f"topic '{self._log.topic}' was written during each of {ATTEMPTS} passes: stop its "
            "writers, then move it again; the move continues where it ended"
        )

    async def _recorded(self) -> int | None:
        """The count that the journals were written with; None: it equals the topic's."""
        found = await tails(self._log, self._count)
        headers = (
            dict(each.headers).get(ACTION_HEADER) for part in found.values() for each in part
        )
        counts = {partitions_of(each) for each in headers if each is not None}
        counts = {self._stored_count, self._count_before, *counts} - {None, self._count}
        if len(counts) > 1:
            raise JournalError(
                f"topic '{self._log.topic}' has records of {sorted(filter(None, counts))} "
                "partitions: one move is from one count"
            )
        if counts:
            return next(iter(counts))
        try:
            check_placement(self._log.topic, self._count, found)
        except TopicWidened as error:
            raise JournalError(
                f"{error}; its records do not have the old count: pass it with --from COUNT"
            ) from error
        return None

    async def _pass(self, move: Move, done: Moved) -> bool:
        """One pass; False if records were written meanwhile."""
        found = await self._look(move)
        self._check_split(found)
        for partition in range(move.count_before):
            await self._copy(move, partition, found, done)
        for partition, keys in found.alive.items():
            await self._leave(move, partition, sorted(keys))
        done.journals += sum(map(len, found.alive.values()))
        self._at("moved_left")
        for partition in range(move.count_before):
            if await self._is_written(Partition(partition, move), found.ends[partition]):
                return False
        await self._settle_count()
        return True

    async def _is_written(self, part: Partition, begin: int) -> bool:
        """Whether a moving journal was written by others, before or after its purge."""
        end = (await self._log.end_offsets((part.number,)))[part.number]
        async for records in self._log.read(part.number, begin, end):
            if any(part.is_written_by_others(self._log.topic, each) for each in records):
                return True
        return False

    async def _look(self, move: Move) -> _Found:
        found = _Found(ends=await self._log.end_offsets(range(self._count)))
        for number in range(self._count):
            part = Partition(number, move)
            alive: set[str] = set()
            async for items in self._items(part, found.ends[number]):
                for item in items:
                    if item.copied is not None and item.copied.move == move:
                        where = item.copied.partition, number
                        found.copied[where] = max(found.copied.get(where, -1), item.copied.offset)
                    elif part.is_moving(item.key):
                        if item.is_left:
                            found.left.add(item.key)
                        (alive.add if item.is_alive else alive.discard)(item.key)
                    elif part.is_strange(item.key) and item.is_alive:
                        found.strangers[item.key] = number
                    elif part.is_strange(item.key):
                        found.strangers.pop(item.key, None)
            if alive:
                found.alive[number] = alive
        return found

    def _check_split(self, found: _Found) -> None:
        """Raises JournalError for journals that were written in both partitions."""
        alive = {key: number for number, keys in found.alive.items() for key in keys}
        split = sorted(alive.keys() & found.strangers.keys())
        if not split:
            return
        named = ", ".join(
            f"'{key}' (partitions {alive[key]} and {found.strangers[key]})"
            for key in split[:NAMED_MAX]
        )
        raise JournalError(
            f"journals of topic '{self._log.topic}' were written before and after it was widened, "
            f"by a program that did not see their earlier events: {named}; read both partitions, "
            'and append a purge (header journal.action: {"purge":{}}) to the unwanted one'
        )

    async def _copy(self, move: Move, number: int, found: _Found, done: Moved) -> None:
        """Copy the actions of a partition that belong elsewhere and are not copied yet."""
        part = Partition(number, move)
        waiting: dict[int, list[Record]] = {}
        concerned = {key for key in found.left if part.is_moving(key)}
        concerned |= found.alive.get(number, set())
        async for items in self._items(part, found.ends[number]):
            for item in items:
                if item.key not in concerned:
                    continue
                target = part.target(item.key)
                if item.is_left or item.offset <= found.copied.get((number, target), -1):
                    continue
                moved = Copied(move=move, partition=number, offset=item.offset)
                records = waiting.setdefault(target, [])
                records.append(item.copy(moved))
                done.records += 1
                if len(records) >= self._batch_records or _bytes(records) >= BATCH_BYTES:
                    await self._write(target, waiting.pop(target))
        for target, records in waiting.items():
            await self._write(target, records)

    async def _leave(self, move: Move, number: int, keys: Sequence[str]) -> None:
        """Write the purges that end journals in their old partition."""
        part = Partition(number, move)
        for begin in range(0, len(keys), self._batch_records):
            records = []
            for key in keys[begin : begin + self._batch_records]:
                left = encode_moved(Left(move=move, partition=part.target(key)))
                headers = headers_of(Purge(), ((MOVED_HEADER, left),), move.count_before)
                records.append(Record(key.encode(), None, headers, self._clock_ms()))
            await self._write(number, records)

    async def _settle_count(self) -> None:
        """Mark every partition with the new count: from here on the topic can be opened."""
        for number in range(self._count):
            headers = headers_of(Mark(id="moved"), (), self._count)
            mark = Record(MARK_KEY, None, headers, self._clock_ms())
            await self._write(number, [mark])
        self._at("moved_marked")
        set_count = getattr(self._store, "set_partition_count", None)
        if set_count is not None:
            await asyncio.to_thread(set_count, self._count)

    async def _write(self, number: int, records: Sequence[Record]) -> None:
        await self._log.write_all(number, records)
        self._at("moved_some")

    async def _items(self, part: Partition, end: int) -> AsyncIterator[Sequence[Item]]:
        """The valid actions of a partition, in order: first the store's, then the topic's."""
        begin = 0
        if self._store is not None:
            part.snapshot = await asyncio.to_thread(self._store.snapshot, (part.number,))
            begin = part.snapshot.replicated(part.number) or 0
            rows = part.snapshot.history(part.number)
            while (chunk := await asyncio.to_thread(next, rows, None)) is not None:
                yield items_of_rows(chunk, part)
        async for items in self._topic_items(part, begin, end):
            yield items

    async def _topic_items(
        self, part: Partition, begin: int, end: int
    ) -> AsyncIterator[Sequence[Item]]:
        """The valid actions of the topic's part. Raises RecordsLost if the log starts later."""
        try:
            async for records in self._log.read(part.number, begin, end):
                await asyncio.to_thread(part.know, records)
                yield part.items(self._log.topic, records)
        except RecordsGone as error:
            start = await self._log.start_offset(part.number)
            raise RecordsLost(self._log.topic, part.number, begin=begin, end=start) from error


def _bytes(records: Sequence[Record]) -> int:
    return sum(len(each.key or b"") + len(each.value or b"") for each in records)

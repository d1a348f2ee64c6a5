"""Rounds of the Spark replicator, driven by the shell of the replicator without a JVM
(`josefine_journal.replicating`), with the same commits, expiry, metrics, signals and waits.

Rules: a round reads the topic's end offsets first, so Spark runs only for new records. The rest is
as in the other replicator: lost records are an error or skipped, marks alone are stored once a
minute, and the other replicator buries an unreadable record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import JournalError, Overtaken, RecordsLost, StoreError
from josefine_journal.failpoints import nothing_fails
from josefine_journal.ports import Batch, Log
from josefine_journal.replicator import EMPTY_COMMIT_MS, CommitTimer, Replicator, Round
from josefine_journal.taking import DeadLetter
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.journal.spark_replicator import Replicated, replicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Stored = Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class SparkJob:
    """What Spark reads and where it writes, the same in each round."""

    spark: SparkSession
    bootstrap: str
    root: Path
    """The folder of the stores, the same path for driver and tasks."""
    options: Mapping[str, str] | None
    """Of the source, such as those for secured brokers."""


class SparkReplicator:
    """The replicator of all partitions of a topic. For one asyncio task at a time; see
    `josefine_journal.replicator`."""

    def __init__(
        self,
        spark: SparkSession,
        log: Log,
        store: DeltaStore,
        root: Path,
        *,
        bootstrap: str,
        partitions: Sequence[int],
        options: Mapping[str, str] | None = None,
        passes_lost: bool = False,
        bury: Callable[[DeadLetter], Awaitable[None]] | None = None,
        empty_commit_ms: int = EMPTY_COMMIT_MS,
        at: Callable[[str], None] = nothing_fails,
    ) -> None:
        """`root` and `options`: those of SparkJob."""
        self.partitions = tuple(partitions)
        self.stalled: dict[int, JournalError] = {}
        """Partitions that stopped before an unreadable record."""
        self._job = SparkJob(spark, bootstrap, root, options)
        self._log = log
        self._store = store
        self._passes_lost = passes_lost
        self._bury = bury
        self._timer = CommitTimer(empty_commit_ms)
        self._at = at
        # Partition -> the end of what was read beyond its stored end and needed no row. In memory
        # only, and cleared after an error: the store's offsets are the truth.
        self._looked: dict[int, int] = {}

    async def round(self, now_ms: int, *, is_last: bool = False) -> Round:
        """Replicate the new records; the last round stores marks, too.

        Raises RecordsLost, StoreError, OSError, and KafkaError if the broker is the cause: the next
        round reads again what was not committed.
        """
        before = stored = await self._stored()
        ends = await self._log.end_offsets(self.partitions)
        self._at("begun")
        self._check(stored, ends)
        lost = await self._lose(stored, ends)
        try:
            if lost:
                stored = await self._stored()
            found, gaps = await self._run(stored, ends)
            apart = gaps if self._bury is None else {*gaps, *self.stalled}
            if apart:
                found = await self._apart(found, sorted(apart), now_ms)
            await self._store_marks(await self._stored(), now_ms, is_last)
        except Overtaken:
            self._looked.clear()
            return Round(replicated=_numbers(before), log_ends=ends, overtaken=True)
        except BaseException:  # it may have committed: only the store's offsets count now
            self._looked.clear()
            raise
        if found.committed or found.lost or lost:
            self._timer.committed(now_ms)
        replicated = _numbers(await self._stored())
        return replace(
            found,
            replicated=replicated,
            log_ends=ends,
            lost=(*lost, *found.lost),
            committed=tuple(p for p in self.partitions if replicated[p] != (before[p] or 0)),
            behind=sum(
                max(0, ends[p] - max(replicated[p], self._looked.get(p, 0)))
                for p in self.partitions
                if p not in self.stalled
            ),
        )

    async def _stored(self) -> Stored:
        snapshot = await asyncio.to_thread(self._store.snapshot, self.partitions)
        return {p: snapshot.replicated(p) for p in self.partitions}

    def _check(self, stored: Stored, ends: Mapping[int, int]) -> None:
        """Raises StoreError if a partition ends before the store's end."""
        for partition, end in stored.items():
            if ends[partition] < (end or 0):
                raise StoreError(
                    f"partition {self._log.topic}-{partition} ends at {ends[partition]}, its store "
                    f"at {end}: the topic lost records, or is another one"
                )

    def _begin(self, stored: Stored, partition: int) -> int:
        return max(stored[partition] or 0, self._looked.get(partition, 0))

    def _due(self, stored: Stored, ends: Mapping[int, int]) -> list[int]:
        """The partitions with new records that are not stalled."""
        going = [p for p in self.partitions if p not in self.stalled]
        return [p for p in going if self._begin(stored, p) < ends[p]]

    async def _lose(self, stored: Stored, ends: Mapping[int, int]) -> list[RecordsLost]:
        """Skip records that were deleted before they were stored. Raises RecordsLost unless the
        user allows it."""
        lost = []
        for partition in self._due(stored, ends):
            begin = self._begin(stored, partition)
            start = await self._log.start_offset(partition)
            if start <= begin:
                continue
            gone = RecordsLost(self._log.topic, partition, begin=begin, end=start)
            if not self._passes_lost:
                raise gone
            batch = Batch(
                partition=partition, begin=stored[partition], end=start, records=(), lost_to=start
            )
            await asyncio.to_thread(self._store.commit, [batch])
            lost.append(gone)
        return lost

    async def _run(self, stored: Stored, ends: Mapping[int, int]) -> tuple[Round, set[int]]:
        """Run Spark if there are new records. Also returns the partitions that an offset without a
        record stopped. Raises JournalError in place of Spark's errors.
        """
        if not self._due(stored, ends):
            return Round(), set()
        known = {partition: str(error) for partition, error in self.stalled.items()}
        before = Replicated(looked=dict(self._looked), stalled=known)
        try:
            done = await asyncio.to_thread(self._replicate, before)
        except (JournalError, OSError):
            raise
        except Exception as error:
            raise JournalError(f"Spark: {clear_reason(error)}") from error
        self._looked = done.looked
        for partition in done.stalled.keys() - known.keys():
            self.stalled[partition] = JournalError(done.stalled[partition])
        found = Round(
            records=done.records,
            rows=done.rows,
            oldest_ms=done.oldest_ms,
            committed=self.partitions if done.commits else (),
        )
        return found, set(done.gaps)

    def _replicate(self, before: Replicated) -> Replicated:
        return replicate(
            self._job.spark,
            self._job.bootstrap,
            self._log.topic,
            self._job.root,
            len(self.partitions),
            options=self._job.options,
            at=self._at,
            topic_id=self._log.topic_id,
            before=before,
        )

    async def _apart(self, found: Round, partitions: Sequence[int], now_ms: int) -> Round:
        """Make a commit without Spark for each partition that a record or a gap stopped. It buries
        the record, or distinguishes a lost record from a transaction marker; Spark continues after
        it."""
        for partition in partitions:
            one = Replicator(
                self._log,
                self._store,
                (partition,),
                passes_lost=self._passes_lost,
                bury=self._bury,
                batch_bytes_max=1,
                at=self._at,
            )
            done = await one.round(now_ms, is_last=True)
            if done.overtaken:
                raise Overtaken(f"partition {self._log.topic}-{partition}")
            self._looked.pop(partition, None)
            self.stalled.pop(partition, None)
            self.stalled |= one.stalled
            found = replace(
                found,
                records=found.records + done.records,
                rows=found.rows + done.rows,
                dead=(*found.dead, *done.dead),
                lost=(*found.lost, *done.lost),
                committed=self.partitions,
            )
        return found

    async def _store_marks(self, stored: Stored, now_ms: int, is_last: bool) -> None:
        """Store the end offsets of ranges in which nothing was to be stored."""
        if not self._timer.is_due(now_ms, is_last=is_last):
            return
        batches = [
            Batch(partition=partition, begin=stored[partition], end=end, records=())
            for partition, end in self._looked.items()
            if end > (stored[partition] or 0)
        ]
        if batches:
            await asyncio.to_thread(self._store.commit, batches)
            self._timer.committed(now_ms)


def _numbers(stored: Stored) -> dict[int, int]:
    return {partition: end or 0 for partition, end in stored.items()}

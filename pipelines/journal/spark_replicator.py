"""Journal replicator on Spark: a Structured Streaming query from a topic into the journal store.

Its tasks fold and write, one per partition of the topic; its driver commits. `josefine_journal`
decides on the rows (`taking`, `settling`), as for the replicator without a JVM, and makes the same
commit: rows and replicated offsets together or not at all. The store has the true offsets, so the
checkpoint is temporary. An unreadable record stops its own partition before it, and no other.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from deltalake.transaction import AddAction

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.records.builder import Record
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import JournalError
from josefine_journal.failpoints import nothing_fails
from josefine_journal.merging import merge
from josefine_journal.ports import Batch
from josefine_journal.settling import Settling
from josefine_journal.taking import Taken
from josefine_journal.topic import TopicLog
from josefine_spark.read.source_options import source_options
from pipelines.model.retry_policy import Starts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST_OFFSET = -2
COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp")
DONE = (
    "partition INT, end LONG, file STRING, bad_offset LONG, bad STRING, records LONG, rows LONG, "
    "oldest_ms LONG, gap LONG"
)
"""What a task reports of a partition: its exclusive end, its file as a JSON object if it has rows,
the first record that cannot be read, counts, and the first offset without a record."""
_DONE_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("end", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("bad_offset", pa.int64()),
        pa.field("bad", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("oldest_ms", pa.int64()),
        pa.field("gap", pa.int64()),
    ]
)


@dataclass(slots=True, kw_only=True)
class Replicated:
    """The result of a run, and the end offsets of the store. `stalled`: partition → why a record
    stopped it."""

    commits: int = 0
    records: int = 0
    rows: int = 0
    oldest_ms: int | None = None
    """The time of the oldest action that was stored."""
    ends: dict[int, int | None] = field(default_factory=dict)
    looked: dict[int, int] = field(default_factory=dict)
    """Partition → end of a range after the store's end in which nothing was to be stored."""
    stalled: dict[int, str] = field(default_factory=dict)
    gaps: dict[int, int] = field(default_factory=dict)
    """Partitions that an offset without a record stopped: Spark's rows do not show whether it is a
    transaction marker or a record that is lost."""
    error: Exception | None = None
    """The error of a batch's commit on the driver: Spark passes on only its text."""


def replicate(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    root: Path,
    partitions: int,
    *,
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    at: Callable[[str], None] = nothing_fails,
    tell: Callable[[Mapping[int, int]], None] = lambda ends: None,
    topic_id: UUID | None = None,
    before: Replicated | None = None,
) -> Replicated:
    """Replicate all records that the topic has now (with another `trigger`: until it is stopped).
    After each commit it calls `tell` with the partitions and their exclusive end offsets.

    Raises JournalError at an offset without a record, which only the replicator without Spark can
    distinguish from a transaction marker; with `before` such partitions are in the result instead.
    `before` is the result of an earlier run: then marks alone cause no commit, ranges that it read
    are not read again, and stalled partitions are skipped. Raises Overtaken if another replicator
    was faster: start again. `root` is the folder of the stores, the same path for driver and tasks.
    Failures in `pipelines.model.retry_policy` are retried.
    """
    if before is None:
        _check_topic(bootstrap, topic, options or {})
    root = root.absolute()  # tasks may have another working directory
    store = DeltaStore(root, topic, topic_id, partition_count=partitions, at=at)
    done = Replicated()
    if before is not None:
        done.looked, done.stalled = dict(before.looked), dict(before.stalled)
    commits = _Commits(store, root, done, tell, stores_marks=before is None)
    starts = Starts(None)
    while True:
        begun_s = time.monotonic()
        # Each attempt starts at the store's ends: the failed one may have committed.
        snapshot = store.snapshot(range(partitions))
        done.ends = {p: snapshot.replicated(p) for p in range(partitions)}
        begin = {str(p): _begin(end, done.looked.get(p)) for p, end in done.ends.items()}
        try:
            stream = (
                spark.readStream.format("josefine")
                .option("kafka.bootstrap.servers", bootstrap)
                .option("subscribe", topic)
                .option("startingOffsets", json.dumps({topic: begin}))
                .option("includeHeaders", "true")
                .options(**(options or {}))
                .load()
                .select(*COLUMNS)
            )
            _run(stream, commits, done, trigger or {"availableNow": True})
            if before is None:
                _check_gaps(topic, done)
            return done
        except Exception as error:
            now_s = time.monotonic()
            retry = starts.next(error, "", skips_losses=False, begun_s=begun_s, now_s=now_s)
            if retry is None:
                raise
            time.sleep(retry.pause_s)


def _run(
    stream: DataFrame, commits: _Commits, done: Replicated, trigger: Mapping[str, Any]
) -> None:
    """Run one query. Raises the error of the commit on the driver, or else Spark's."""
    done.error = None
    with tempfile.TemporaryDirectory(prefix="josefine-journal-") as checkpoint:
        query = (
            stream.writeStream.foreachBatch(commits.batch)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if done.error is not None:
                raise done.error from error
            raise


def _check_topic(bootstrap: str, topic: str, options: Mapping[str, str]) -> None:
    """The check of the command before its first round. Raises TopicWidened, TopicCompacted."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
    security = source_options(given, streaming=True).read.connection.security

    async def check() -> None:
        async with AsyncClient(bootstrap, security=security) as client:
            await TopicLog(client, topic).partition_count()

    with ThreadPoolExecutor(1) as thread:  # its caller may have an event loop
        thread.submit(asyncio.run, check()).result()


def _check_gaps(topic: str, done: Replicated) -> None:
    """Raises JournalError."""
    for partition, offset in sorted(done.gaps.items()):
        raise JournalError(
            f"partition {topic}-{partition} has no record at offset {offset}: it is a transaction "
            "marker, or the record is lost; 'josefine journal replicate' finds which, and continues"
        )


def _begin(end: int | None, looked: int | None) -> int:
    if end is None and looked is None:
        return EARLIEST_OFFSET
    return max(end or 0, looked or 0)


class _Commits:
    """The commits of a run, on the driver."""

    def __init__(
        self,
        store: DeltaStore,
        root: Path,
        done: Replicated,
        tell: Callable[[Mapping[int, int]], None],
        *,
        stores_marks: bool,
    ) -> None:
        self._store = store
        self._root = root
        self._done = done
        self._tell = tell
        self._stores_marks = stores_marks

    def batch(self, rows: DataFrame, number: int) -> None:
        """One batch of the stream."""
        try:
            self._batch(rows)
        except Exception as error:
            self._done.error = error
            raise

    def _batch(self, rows: DataFrame) -> None:
        done, store = self._done, self._store
        out = [*done.stalled, *done.gaps]
        going = rows.filter(~rows.partition.isin(out)) if out else rows
        found = _folded(going, self._root, store.topic, done)
        bad = {each["partition"]: each for each in found if each["bad"] is not None}
        if bad:  # rare: leave out the records from the bad one on, and fold the batch again
            done.stalled |= {partition: each["bad"] for partition, each in bad.items()}
            for partition, each in bad.items():
                going = going.filter(f"partition != {partition} or offset < {each['bad_offset']}")
            found = _folded(going, self._root, store.topic, done)
        done.gaps |= {each["partition"]: each["gap"] for each in found if each["gap"] is not None}
        found = [each for each in found if each["gap"] is None]
        store.at("read")
        done.records += sum(each["records"] for each in found)
        files = [AddAction(**json.loads(each["file"])) for each in found if each["file"]]
        if not found or not (files or self._stores_marks):
            done.looked |= {each["partition"]: each["end"] for each in found}
            return
        batches = [
            Batch(
                partition=e["partition"], begin=done.ends[e["partition"]], end=e["end"], records=()
            )
            for e in found
        ]
        store.commit_files(batches, files)
        done.ends |= {batch.partition: batch.end for batch in batches}
        done.commits += 1
        done.rows += sum(each["rows"] for each in found)
        times = [each["oldest_ms"] for each in found if each["oldest_ms"] is not None]
        done.oldest_ms = min(
            [*times, *([] if done.oldest_ms is None else [done.oldest_ms])], default=None
        )
        self._tell({batch.partition: batch.end for batch in batches})
        for batch in batches:
            while merge(store, batch.partition):
                pass


def _folded(rows: DataFrame, root: Path, topic: str, done: Replicated) -> list[Mapping[str, Any]]:
    """The tasks' results for each partition that has records."""
    begins = dict(done.ends)
    firsts = {p: max(end or 0, done.looked.get(p, 0)) for p, end in begins.items()}

    def fold(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken: dict[int, Taken] = {}
        gaps: dict[int, int] = {}
        for part in parts:
            _find_gaps(part, taken, firsts, gaps)
            _take(part, taken, topic, begins)
        said = [_written(each, root, gaps.get(each.partition)) for each in taken.values()]
        yield from pa.Table.from_pylist(said, schema=_DONE_SCHEMA).to_batches()

    sorted_rows = rows.repartition("partition").sortWithinPartitions("partition", "offset")
    return [row.asDict() for row in sorted_rows.mapInArrow(fold, DONE).collect()]


def _find_gaps(
    part: pa.RecordBatch,
    taken: Mapping[int, Taken],
    firsts: Mapping[int, int],
    gaps: dict[int, int],
) -> None:
    """Note each partition's first offset without a record. Called before the part is taken."""
    expected = {number: each.end for number, each in taken.items()}
    pairs = zip(part["partition"].to_pylist(), part["offset"].to_pylist(), strict=True)
    for number, offset in pairs:
        wanted = expected.get(number, firsts[number])
        if offset > wanted:
            gaps.setdefault(number, wanted)
        expected[number] = offset + 1


def _take(
    part: pa.RecordBatch, taken: dict[int, Taken], topic: str, begins: Mapping[int, int | None]
) -> None:
    """Take a task's next rows: some of its partitions' records, in log order."""
    columns = {name: part.column(name) for name in COLUMNS}
    times_ms = columns["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    listed = (columns[name].to_pylist() for name in COLUMNS[:5])
    for number, offset, key, value, headers, time_ms in zip(*listed, times_ms, strict=True):
        if number not in taken:
            begin = begins[number]
            taken[number] = Taken(topic=topic, partition=number, begin=begin, end=begin or 0)
        named = tuple((each["key"], each["value"]) for each in headers or ())
        taken[number].take_all((Record(key, value, named, time_ms, offset),), buries=True)


def _written(taken: Taken, root: Path, gap: int | None) -> dict[str, Any]:
    """Write the rows of a partition to a file that no commit names yet; return its description."""
    store = DeltaStore(root, taken.topic, None)
    batch = Settling().batch(store.snapshot((taken.partition,)), taken)
    dead = taken.dead[0] if taken.dead else None
    is_whole = dead is None and gap is None
    file = store.written(batch) if batch.records and is_whole else None
    times = [record.timestamp_ms for _, record in batch.records]
    return {
        "partition": taken.partition,
        "end": taken.end,
        "records": taken.records,
        "rows": len(batch.records),
        "oldest_ms": min(times, default=None),
        "file": None if file is None else json.dumps(asdict(file)),
        "bad_offset": None if dead is None else dead.record.offset,
        "bad": None if dead is None else str(dead.error),
        "gap": gap if dead is None else None,
    }

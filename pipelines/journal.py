"""Replicates a topic of journals into their store with Spark: a Structured Streaming query whose
tasks fold and write, one per partition of the topic, and whose driver commits.

Rules: what the rows are is decided by `josefine_journal` (`taking`, `settling`), as for the
replicator without a JVM, and the commit is that one's, too: rows and replicated offsets together or
not at all. The store is the truth of how far it is, so a checkpoint is thrown away; a record that
cannot be read stops its partition before it and no other.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.transaction import AddAction

from josefine_broker.records.builder import Record
from josefine_journal.delta_store import DeltaStore
from josefine_journal.failpoints import nothing_fails
from josefine_journal.merging import merge
from josefine_journal.ports import Batch
from josefine_journal.settling import Settling
from josefine_journal.taking import Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST_OFFSET = -2
COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp")
DONE = "partition INT, end LONG, file STRING, bad_offset LONG, bad STRING"
"""What a task says of a partition: its exclusive end, its file as a JSON object if it has rows, and
the first record that cannot be read."""
_DONE_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("end", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("bad_offset", pa.int64()),
        pa.field("bad", pa.string()),
    ]
)


@dataclass(slots=True, kw_only=True)
class Replicated:
    """What a run did. `stalled`: partitions that a record stopped, and why."""

    commits: int = 0
    ends: dict[int, int | None] = field(default_factory=dict)
    stalled: dict[int, str] = field(default_factory=dict)


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
) -> Replicated:
    """Until all that was there is stored (another `trigger` is Spark's own: until it is stopped).
    `tell` hears behind each commit which partitions it stored, and their ends (exclusive).

    Raises Overtaken where another replicator was faster: begin again. `root` is the folder of the
    stores, the same path for driver and tasks.
    """
    store = DeltaStore(root, topic, None, at=at)
    snapshot = store.snapshot(range(partitions))
    done = Replicated(ends={p: snapshot.replicated(p) for p in range(partitions)})
    begin = {str(p): EARLIEST_OFFSET if end is None else end for p, end in done.ends.items()}
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
    with tempfile.TemporaryDirectory(prefix="josefine-journal-") as checkpoint:
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: _commit(rows, store, root, done, tell))
            .option("checkpointLocation", checkpoint)
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        query.awaitTermination()
    return done


def _commit(
    rows: DataFrame,
    store: DeltaStore,
    root: Path,
    done: Replicated,
    tell: Callable[[Mapping[int, int]], None],
) -> None:
    """One batch of the stream."""
    going = rows.filter(~rows.partition.isin(list(done.stalled))) if done.stalled else rows
    found = _folded(going, root, store.topic, done.ends)
    bad = {each["partition"]: each for each in found if each["bad"] is not None}
    if bad:  # rare: what stands behind such a record is left out, and the batch folded once more
        done.stalled |= {partition: each["bad"] for partition, each in bad.items()}
        for partition, each in bad.items():
            going = going.filter(f"partition != {partition} or offset < {each['bad_offset']}")
        found = _folded(going, root, store.topic, done.ends)
    batches = [
        Batch(partition=e["partition"], begin=done.ends[e["partition"]], end=e["end"], records=())
        for e in found
    ]
    files = [AddAction(**json.loads(each["file"])) for each in found if each["file"]]
    if not batches:
        return
    store.commit_files(batches, files)
    done.ends |= {batch.partition: batch.end for batch in batches}
    done.commits += 1
    tell({batch.partition: batch.end for batch in batches})
    for batch in batches:
        while merge(store, batch.partition):
            pass


def _folded(
    rows: DataFrame, root: Path, topic: str, ends: Mapping[int, int | None]
) -> list[Mapping[str, Any]]:
    """What the tasks say of each partition that has records."""
    begins = dict(ends)

    def fold(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken: dict[int, Taken] = {}
        for part in parts:
            _take(part, taken, topic, begins)
        said = [_written(each, root) for each in taken.values()]
        yield from pa.Table.from_pylist(said, schema=_DONE_SCHEMA).to_batches()

    sorted_rows = rows.repartition("partition").sortWithinPartitions("partition", "offset")
    return [row.asDict() for row in sorted_rows.mapInArrow(fold, DONE).collect()]


def _take(
    part: pa.RecordBatch, taken: dict[int, Taken], topic: str, begins: Mapping[int, int | None]
) -> None:
    """A task's next rows: some of its partitions' records, in the order of the log."""
    columns = {name: part.column(name) for name in COLUMNS}
    times_ms = columns["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    listed = (columns[name].to_pylist() for name in COLUMNS[:5])
    for number, offset, key, value, headers, time_ms in zip(*listed, times_ms, strict=True):
        if number not in taken:
            begin = begins[number]
            taken[number] = Taken(topic=topic, partition=number, begin=begin, end=begin or 0)
        named = tuple((each["key"], each["value"]) for each in headers or ())
        taken[number].take_all((Record(key, value, named, time_ms, offset),), buries=True)


def _written(taken: Taken, root: Path) -> dict[str, Any]:
    """The rows of a partition as a file, which nothing names yet."""
    store = DeltaStore(root, taken.topic, None)
    batch = Settling().batch(store.snapshot((taken.partition,)), taken)
    dead = taken.dead[0] if taken.dead else None
    file = store.written(batch) if batch.records and dead is None else None
    return {
        "partition": taken.partition,
        "end": taken.end,
        "file": None if file is None else json.dumps(asdict(file)),
        "bad_offset": None if dead is None else dead.record.offset,
        "bad": None if dead is None else str(dead.error),
    }

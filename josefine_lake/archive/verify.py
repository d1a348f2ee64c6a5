"""The check of archives against themselves and against the records that brokers still have.

Rules: every row of the archive is read, in windows of offsets; memory does not grow with it. The
broker is asked for committed records only, as the archive's writer is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.reader import NO_OFFSET, ArchiveTable
from josefine_lake.archive.writer import ArchiveReader
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.columns import ARCHIVE_SCHEMA

WAIT_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One partition. `start` and `end`: the archived offsets; `compared`: the records that the
    broker has too; `wrong`: what is not right, empty if all is."""

    topic: str
    partition: int
    start: int = NO_OFFSET
    end: int = 0
    records: int = 0
    compared: int = 0
    wrong: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def verify(
    client: BlockingClient, archives: Mapping[str, TableTopic], env: Mapping[str, str]
) -> Iterator[Verified]:
    """Yield each partition's outcome. Raises KafkaError, DeltaError, StoppedTable and OSError."""
    for archive in archives.values():
        table = ArchiveTable(archive, env)
        table.look()
        reader = ArchiveReader(client, archive.topic)
        topic = reader.look()
        reported = ArchiveNotes(client, archive.topic).offsets()
        for tp, bounds in sorted(topic.bounds.items()):
            one = Verified(topic=tp.topic, partition=tp.partition, end=table.end(tp.partition))
            wrong = ""
            if table.offsets.topic_ids.get(topic.name, topic.id) != topic.id:
                wrong = "the archive is of an earlier topic of this name"
            elif one.end < reported.get(tp, 0):
                wrong = f"it ends at {one.end}, and {reported[tp]} was committed: it was restored"
            if wrong:
                yield _wrong(one, wrong)
            else:
                yield _one(table, reader, one, bounds.earliest)


def _one(table: ArchiveTable, reader: ArchiveReader, one: Verified, local_start: int) -> Verified:
    """Read a partition's rows in order."""
    tp = TopicPartition(one.topic, one.partition)
    try:
        start, records, last = table.start(one.partition), 0, NO_OFFSET
        at = max(start, 0)
        while at < one.end:
            rows, at = table.rows(one.partition, at, one.end)
            offsets = rows.column("offset").to_numpy()
            if len(offsets):
                if offsets[0] <= last or (offsets[1:] == offsets[:-1]).any():
                    twice = int(offsets[0]) if offsets[0] <= last else _twice(offsets)
                    return _wrong(one, f"offset {twice} is there twice")
                last = int(offsets[-1])
                records += len(offsets)
        compared, other = _compared(table, reader, tp, max(local_start, start), one.end)
    except (FileNotFoundError, CorruptData, pa.ArrowException) as error:
        return _wrong(one, f"a file cannot be read: {error}")
    found = Verified(
        topic=one.topic, partition=one.partition, start=start, end=one.end,
        records=records, compared=compared,
    )  # fmt: skip
    return (
        _wrong(found, f"offset {other} differs from the broker's record") if other >= 0 else found
    )


def _twice(offsets: Any) -> int:
    return int(offsets[1:][offsets[1:] == offsets[:-1]][0])


def _compared(
    table: ArchiveTable, reader: ArchiveReader, tp: TopicPartition, at: int, end: int
) -> tuple[int, int]:
    """(records compared, the first offset that differs or NO_OFFSET)."""
    compared = 0
    while at < end:
        reads = reader.fetch({tp: at}, WAIT_MS)
        if not reads:
            break
        (read,) = reads
        until = min(read.next_offset, end)
        there = pa.Table.from_batches(read.batches, ARCHIVE_SCHEMA)
        there = there.filter(pc.less(there.column("offset"), until))
        here = _between(table, tp.partition, at, until)
        if not here.equals(there):
            return compared, _first_other(here.to_pylist(), there.to_pylist())
        compared += here.num_rows
        at = read.next_offset
    return compared, NO_OFFSET


def _between(table: ArchiveTable, partition: int, at: int, end: int) -> Any:
    parts = [ARCHIVE_SCHEMA.empty_table()]
    while at < end:
        rows, at = table.rows(partition, at, end)
        parts.append(rows)
    return pa.concat_tables(parts).combine_chunks()


def _first_other(here: list[dict[str, Any]], there: list[dict[str, Any]]) -> int:
    for mine, theirs in zip(here, there, strict=False):
        if mine != theirs:
            return int(min(mine["offset"], theirs["offset"]))
    longer = (here if len(here) > len(there) else there)[min(len(here), len(there))]
    return int(longer["offset"])


def _wrong(one: Verified, what: str) -> Verified:
    fields = {**one.to_json(), "wrong": what}
    return Verified(**fields)

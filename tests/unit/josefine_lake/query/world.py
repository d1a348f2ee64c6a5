"""Topics in memory with real Delta tables: their logs, their writer, and queries over both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from josefine_arrow.batches.columns import arrow_schema
from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import PREFIX, Mode, described
from josefine_lake.query.answer import Answer, answering
from josefine_lake.query.plan import Holds, Options
from josefine_lake.writer.changes import PendingChanges
from josefine_lake.writer.columns import order_of
from josefine_lake.writer.data_file import DataFile
from josefine_lake.writer.delta_table import ChainedTable
from josefine_lake.writer.start import Topic
from josefine_lake.writer.table_writer import TableWriter, World
from josefine_lake.writer.topic_reader import OutOfRangeError, Read
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.read.offsets import Bounds
from pipelines.sinks.commits import Link
from pipelines.storage.folders import Folders, TableFolder

BATCH = 3
"""Records in a record batch."""


@dataclass
class MemoryTopic:
    """`logs`: of each partition its committed records, (offset, key, value). `last`: the high
    watermark; `stable`: the last stable offset. Offsets without a record are of markers and of
    aborted transactions."""

    name: str
    configs: dict[str, str | None]
    logs: list[list[tuple[int, bytes | None, bytes | None]]]
    first: list[int]
    last: list[int]
    stable: list[int]
    id: str = "1"
    group: dict[TopicPartition, int] = field(default_factory=dict)
    before_fetch: Callable[[], None] = lambda: None

    def send(self, partition: int, value: bytes | None, key: bytes | None = None) -> int:
        """A record that is committed at once, unless `hold` kept the partition."""
        at = self.last[partition]
        self.logs[partition].append((at, key, value))
        self.move(partition, 1)
        return at

    def move(self, partition: int, offsets: int) -> None:
        """Offsets without records."""
        is_stable = self.stable[partition] == self.last[partition]
        self.last[partition] += offsets
        if is_stable:
            self.stable[partition] = self.last[partition]

    def partition(self, number: int) -> TopicPartition:
        return TopicPartition(self.name, number)


class MemoryReader:
    """The log of one topic as a client reads it."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic

    def look(self) -> Topic:
        topic = self._topic
        bounds = {
            topic.partition(at): Bounds(topic.first[at], topic.last[at])
            for at in range(len(topic.logs))
        }
        return Topic(name=topic.name, id=topic.id, bounds=bounds)

    def topic_id(self) -> str:
        return self._topic.id

    def stable_ends(self, partitions: Mapping[Any, int]) -> ByPartition:
        return {tp: self._topic.stable[tp.partition] for tp in partitions}

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        self._topic.before_fetch()
        found = []
        for tp, at in positions.items():
            if at < self._topic.first[tp.partition]:
                raise OutOfRangeError(f"{tp}: offset {at} is not in the log any more")
            stable = self._topic.stable[tp.partition]
            rows = [r for r in self._topic.logs[tp.partition] if at <= r[0] < stable][:BATCH]
            if at < stable:
                after = rows[-1][0] + 1 if len(rows) == BATCH else stable
                batches = [records(tp, rows)] if rows else []
                found.append(Read(partition=tp, batches=batches, next_offset=after, end=stable))
        return found


class MemoryBrokers:
    """Brokers with these topics."""

    def __init__(self, *topics: MemoryTopic) -> None:
        self.all = {each.name: each for each in topics}

    def topics(self) -> Collection[str]:
        return list(self.all)

    def configs(self, topic: str) -> Mapping[str, str | None]:
        return self.all[topic].configs

    def committed(self, topic: str) -> ByPartition:
        return dict(self.all[topic].group)

    def reader(self, topic: str) -> MemoryReader:
        return MemoryReader(self.all[topic])


def memory_topic(name: str, partitions: int = 2, **configs: str) -> MemoryTopic:
    """`configs`: of `josefine.table.*`, with two underscores for a dot."""
    return MemoryTopic(
        name=name,
        configs={PREFIX + key.replace("__", "."): each for key, each in configs.items()},
        logs=[[] for _ in range(partitions)],
        first=[0] * partitions,
        last=[0] * partitions,
        stable=[0] * partitions,
    )


def json_topic(folder: Path, name: str = "orders", partitions: int = 2, **more: str) -> MemoryTopic:
    where = str(folder / name.replace(".", "_"))
    given = {"format": "json", "schema": "id BIGINT, amount DECIMAL(10,2)", **more}
    return memory_topic(name, partitions, location=where, **given)


def write(topic: MemoryTopic) -> None:
    """The topic's writer, up to the last stable offsets."""
    table = described(topic.name, topic.configs)

    def store(place: str, name: Any) -> ChainedTable:
        link = Link(pipeline=name.pipeline, sink=name.sink, run=uuid4().hex)
        return ChainedTable(opened(place), link, table.evolution)

    main = store(table.location, table.chain)
    letters = store(str(table.dead_letter), table.dead_letter_chain)

    def open_file(where: Any, schema: Any) -> Any:
        if where is main and table.mode is Mode.UPSERT:
            return PendingChanges(table.keys, order_of(table))
        return DataFile(where.folder, schema)

    world = World(
        log=MemoryReader(topic),
        store=main,
        letters=letters,
        open_file=open_file,
        clock_ms=lambda: 0,
        wall_ms=lambda: 0,
        committed=lambda: dict(topic.group),
        commit_offsets=topic.group.update,
        note_stop=lambda tp, offset, why: None,
        at=lambda place: None,
    )
    TableWriter(table, world).run(lambda: False, once=True)


def opened(place: str) -> TableFolder:
    folder = Folders({}, {}).open(place)
    assert folder is not None
    return folder


def ask(
    statement: str, *topics: MemoryTopic, at: Callable[[str], None] = lambda step: None, **more: Any
) -> tuple[list[tuple[Any, ...]], dict[str, Holds]]:
    """(the rows, topic → what its part holds for). `more`: of `Options`."""
    with answer(statement, *topics, at=at, **more) as found:
        return found.relation.fetchall(), {each.topic: each for each in found.holds}


def answer(
    statement: str, *topics: MemoryTopic, at: Callable[[str], None] = lambda step: None, **more: Any
) -> AbstractContextManager[Answer]:
    return answering(MemoryBrokers(*topics), statement, Options(**more), {}, at)


def records(tp: TopicPartition, rows: list[tuple[int, bytes | None, bytes | None]]) -> Any:
    """A record batch as the decoder makes it."""
    found = [
        {"key": key, "value": value, "topic": tp.topic, "partition": tp.partition, "offset": at,
         "timestamp": 0, "timestampType": 0, "headers": None}
        for at, key, value in rows
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(found, schema=arrow_schema(include_headers=True))

"""A table topic in memory: its log, two tables with their chains, and writers that die or race."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from josefine_arrow.batches.columns import arrow_schema
from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import Format, TableTopic
from josefine_lake.report.table_stats import TableStats
from josefine_lake.writer.start import Found, Topic
from josefine_lake.writer.table_writer import TableWriter, World
from josefine_lake.writer.topic_reader import Read
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.sinks.commits import lost_race

TOPIC = "t"
WALL_MS = 1_700_000_000_000


class KilledError(BaseException):
    """The process died here."""


class MemoryFile:
    """The rows of a file that no commit names yet."""

    def __init__(self, closed_ms: list[int]) -> None:
        self.held: list[dict[str, Any]] = []
        self._closed_ms = closed_ms
        self.bytes = 0

    @property
    def rows(self) -> int:
        return len(self.held)

    @property
    def size(self) -> int:
        return 100 * len(self.held)

    def add(self, rows: Any) -> None:
        self.held += rows.to_pylist()

    def close(self, at_ms: int) -> Any:
        self._closed_ms.append(at_ms)
        self.bytes = self.size
        return self.held

    def discard(self) -> None:
        self.held = []


class MemoryTable:
    """The commits of one table: (rows, commit, metadata, the writer's run)."""

    def __init__(self) -> None:
        self.commits: list[tuple[list[dict[str, Any]], Commit, dict[str, Any], int]] = []
        self.others: list[OtherChain] = []

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for rows, *_ in self.commits for row in rows]


class MemoryStore:
    """One writer's view of a table: it commits only onto what it has seen."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.seen = -1

    def load(self) -> Found:
        self.seen = len(self.table.commits)
        if not self.table.commits:
            return None
        _, commit, said, _ = self.table.commits[-1]
        return Tip(reached=commit.end, txn_version=commit.txn_version, said=said)

    def others(self) -> list[OtherChain]:
        return self.table.others

    @property
    def is_there(self) -> bool:
        return bool(self.table.commits)

    def ensure(self, schema: Any) -> None:
        self.seen = max(self.seen, 0)

    def check(self, schema: Any) -> None: ...

    def commit(
        self,
        files: Sequence[Any],
        commit: Commit,
        schema: Any,
        more: Mapping[str, Any],
        at: Callable[[str], None],
    ) -> None:
        at("before_commit")
        if len(self.table.commits) != self.seen:
            raise lost_race()
        rows = [row for file in files for row in file]
        self.table.commits.append((rows, commit, dict(more), id(self)))
        self.seen += 1

    def files_and_bytes(self) -> tuple[int, int]:
        return len(self.table.commits), 0

    def vacuum(self, retention_ms: int, within_ms: int) -> tuple[int, bool]:
        return 0, True

    def compact(self, file_bytes: int, at_ms: int) -> None:
        raise AssertionError("a test with so few commits has nothing to compact")


class Lake:
    """One table topic and what its writers have made of it."""

    def __init__(self, partitions: int = 2, **configs: Any) -> None:
        self.table = TableTopic(
            topic=TOPIC, location="/t", format=Format.JSON, schema="id INT", dead_letter="/d",
            **configs,
        )  # fmt: skip
        self.values: list[list[bytes]] = [[] for _ in range(partitions)]
        self.first = [0] * partitions
        self.id = "1"
        self.main, self.dead = MemoryTable(), MemoryTable()
        self.group: dict[TopicPartition, int] = {}
        self.now_ms = 0
        self.closed_ms: list[int] = []
        """When each file was closed, as the table's log shows it."""
        self.before_fetch: Callable[[], None] = lambda: None
        self.letters = True
        self.notes: list[tuple[TopicPartition, int, str]] = []

    def send(self, partition: int, *values: bytes) -> None:
        self.values[partition] += values

    def run(
        self,
        at: Callable[[str], None] = lambda place: None,
        *,
        trust: bool = False,
        store: MemoryStore | None = None,
        stats: TableStats | None = None,
    ) -> None:
        """One writer, up to the end. Raises KilledError, StoppedTable."""
        world = self.world(at, store, stats)
        TableWriter(self.table, world).run(lambda: False, once=True, trust=trust)

    def world(
        self,
        at: Callable[[str], None],
        store: MemoryStore | None = None,
        stats: TableStats | None = None,
    ) -> World:
        """The world of a new writer."""
        return World(
            note_stop=lambda tp, offset, why: self.notes.append((tp, offset, why)),
            log=MemoryLog(self),
            store=store or MemoryStore(self.main),
            stats=stats or TableStats(),
            letters=MemoryStore(self.dead) if self.letters else None,
            open_file=lambda store, schema: MemoryFile(self.closed_ms),
            clock_ms=lambda: self.now_ms,
            wall_ms=lambda: WALL_MS + self.now_ms,
            committed=lambda: dict(self.group),
            commit_offsets=self.group.update,
            at=at,
        )

    def expected(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(places of good records, places of bad ones), sorted."""
        good, bad = [], []
        for partition, values in enumerate(self.values):
            for at, value in enumerate(values):
                (good if value.startswith(b"{") else bad).append((partition, at))
        return good, bad

    def found(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The same of the tables."""
        good = sorted((row["_partition"], row["_offset"]) for row in self.main.rows)
        return good, sorted((row["partition"], row["offset"]) for row in self.dead.rows)


class MemoryLog:
    """The topic, two records of a partition at a time."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def look(self) -> Topic:
        bounds = {
            TopicPartition(TOPIC, at): Bounds(self._lake.first[at], len(values))
            for at, values in enumerate(self._lake.values)
        }
        return Topic(name=TOPIC, id=self._lake.id, bounds=bounds)

    def topic_id(self) -> str:
        return self._lake.id

    def stable_ends(self, partitions: Mapping[Any, int]) -> ByPartition:
        return {tp: len(self._lake.values[tp.partition]) for tp in partitions}

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        self._lake.now_ms += wait_ms
        self._lake.before_fetch()
        found = []
        for tp, at in positions.items():
            values = self._lake.values[tp.partition][at : at + 2]
            if values:
                batch = records(tp.partition, at, values)
                found.append(Read(partition=tp, batches=[batch], next_offset=at + len(values),
                                  end=len(self._lake.values[tp.partition])))  # fmt: skip
        return found


def records(partition: int, first: int, values: list[bytes]) -> Any:
    """A record batch as the decoder makes it."""
    rows = [
        {"key": None, "value": v, "topic": TOPIC, "partition": partition, "offset": first + at,
         "timestamp": 0, "timestampType": 0, "headers": None}
        for at, v in enumerate(values)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(include_headers=True))

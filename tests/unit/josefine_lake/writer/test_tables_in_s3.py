"""A table's writer on an S3 server that fails, with its kills and races: each record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from josefine_lake.report.table_stats import TableStats
from josefine_lake.writer import compaction
from josefine_lake.writer.data_file import DataFile
from josefine_lake.writer.delta_table import ChainedTable
from josefine_lake.writer.process import AGAIN
from josefine_lake.writer.table_writer import World, columns_of
from josefine_lake.writer.verdicts import StoppedTable
from pipelines.exactly_once.offset_chain import Verdict
from pipelines.sinks.commits import Link
from pipelines.storage.folders import Folders
from tests.support.hostile_store import Fault, HostileStore, by_seed, none, once
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, ObjectStore
from tests.unit.josefine_lake.world import KilledError, Lake, MemoryStore

GOOD, BAD = b'{"id": 1}', b"not json"
STEPS = ("after_dead_letters", "before_commit")
TRIES_MAX = 40
CREATION, COMMIT = f"t/_delta_log/{0:020}", f"t/_delta_log/{1:020}"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as server:
        yield server


@pytest.fixture
def proxy(server: ObjectStore) -> Iterator[HostileStore]:
    with HostileStore(server.endpoint) as proxy:
        yield proxy


class S3Lake(Lake):
    """A topic in memory whose tables are in S3, behind a proxy that fails."""

    def __init__(self, server: ObjectStore, proxy: HostileStore) -> None:
        super().__init__()
        self.bucket, self._server = server.bucket(), server
        root = f"s3://{self.bucket}/t"
        self.table = replace(self.table, location=root, dead_letter=f"{root}_dead_letter")
        self._env = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": proxy.endpoint,
        }
        self.stats = TableStats()
        self._runs = 0

    def opened(self, where: str | None, sink: str) -> ChainedTable:
        """A writer's view of a table, with file systems of its own."""
        folder = Folders({}, self._env).open(where or "")
        assert folder is not None
        name = f"run {self._runs}"
        return ChainedTable(folder, Link(pipeline="table_topics", sink=sink, run=name))

    def world(
        self,
        at: Callable[[str], None],
        store: MemoryStore | None = None,
        stats: TableStats | None = None,
    ) -> World:
        self._runs += 1
        return replace(
            super().world(at),
            store=self.opened(self.table.location, "t"),
            letters=self.opened(self.table.dead_letter, "dead_letter.t"),
            open_file=lambda store, schema: DataFile(store.folder, schema),
            stats=self.stats,
        )

    def insist(self) -> int:
        """Run until it succeeds, as the table's thread does; the number of failures."""
        for tries in range(TRIES_MAX):
            try:
                self.run()
            except (DeltaError, OSError):
                continue
            except StoppedTable as error:
                if error.stopped.verdict in AGAIN:
                    continue
                raise
            return tries
        raise AssertionError("the writer does not come to an end")

    def read(self, where: str | None) -> list[dict[str, Any]]:
        try:
            found = DeltaTable(where or "", storage_options=self._server.delta)
        except TableNotFoundError:
            return []
        return list(found.to_pyarrow_table().to_pylist())

    def found(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        good = self.read(self.table.location)
        bad = self.read(self.table.dead_letter)
        return (
            sorted((row["_partition"], row["_offset"]) for row in good),
            sorted((row["partition"], row["offset"]) for row in bad),
        )


@pytest.fixture
def lake(server: ObjectStore, proxy: HostileStore) -> S3Lake:
    return S3Lake(server, proxy)


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize(
    ("fault", "part"),
    [
        *((each, COMMIT) for each in Fault),
        (Fault.LOST_ANSWER, CREATION),
        (Fault.LOST_ANSWER, f"t_dead_letter/_delta_log/{1:020}"),
        (Fault.CUT_REQUEST, "t/part-"),
    ],
)
def test_a_put_that_fails_once_loses_and_doubles_no_record(
    lake: S3Lake, proxy: HostileStore, fault: Fault, part: str
) -> None:
    lake.send(0, GOOD, BAD, GOOD)
    proxy.plan = once(fault, "PUT", part)

    failures = lake.insist()

    if part == COMMIT:
        # The log decides whether a commit was made, so its writer continues.
        assert failures == 0

    assert [each[0] for each in proxy.seen] == [fault]
    proxy.plan = none
    lake.send(1, GOOD)
    assert lake.insist() == 0
    assert lake.found() == lake.expected()


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("place", STEPS)
def test_a_kill_at_each_step_loses_and_doubles_no_record(lake: S3Lake, place: str) -> None:
    lake.send(0, GOOD, BAD, GOOD)

    def at(step: str) -> None:
        if step == place:
            raise KilledError

    with pytest.raises(KilledError):
        lake.run(at)
    lake.send(1, BAD, GOOD)
    assert lake.insist() == 0

    assert lake.found() == lake.expected()


@pytest.mark.long_proof(share=6, among="seeds of a failing store")
@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_fails_at_random_and_kills_lose_and_double_no_record(
    lake: S3Lake, proxy: HostileStore, seed: int
) -> None:
    rng = Random(seed)
    proxy.plan = by_seed(seed, 0.08)

    def at(step: str) -> None:
        if rng.random() < 0.1:
            raise KilledError

    for _ in range(3):
        lake.send(rng.randrange(2), *rng.choices((GOOD, BAD), k=rng.randint(1, 5)))
        try:
            lake.run(at)
        except (KilledError, DeltaError, OSError, StoppedTable):
            lake.insist()
    proxy.plan = none
    lake.insist()

    assert len(proxy.seen) > 1
    assert lake.found() == lake.expected()


def test_of_two_writers_in_s3_the_slower_one_stops_and_writes_nothing(lake: S3Lake) -> None:
    lake.send(0, GOOD, GOOD)

    def overtaken(step: str) -> None:
        if step == "before_commit":
            lake.run()

    with pytest.raises(StoppedTable, match="another") as stopped:
        lake.run(overtaken)

    assert stopped.value.stopped.verdict is Verdict.LOST_RACE
    assert lake.found() == lake.expected()


def test_small_files_in_s3_are_rewritten_and_deleted(
    lake: S3Lake, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FILES_MAX", 3)
    DeltaTable.create(
        lake.table.location,
        Schema.from_arrow(columns_of(lake.table, {}).schema),
        configuration={"delta.deletedFileRetentionDuration": "interval 0 days"},
        storage_options=server.delta,
    )
    for _ in range(3):
        lake.send(0, GOOD)
        lake.insist()
    assert lake.stats.counts.compactions == 1
    assert lake.found() == lake.expected()

    before = server.keys(lake.bucket)
    store = lake.opened(lake.table.location, "t")
    deleted, is_finished = store.vacuum(0, 60_000)

    after = server.keys(lake.bucket)
    assert (deleted, is_finished) == (3, True)
    assert [key for key in before if key not in after and not key.endswith(".parquet")] == []
    lake.send(0, GOOD)
    assert lake.insist() == 0
    assert lake.found() == lake.expected()

"""Every cell of `STREAMED`: a driver dies whose sinks read a table as a stream, its checkpoints
stay or go, the table grows, and the next run ends with each row once in every sink.

All by `-m slow`: a process is killed with its JVM at each place, and some are died in place.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable, QueryBuilder

from tests.spark.pipelines.conftest import REPOSITORY
from tests.spark.pipelines.files_lab import FilesLab
from tests.spark.pipelines.test_kill import KILLED
from tests.support.kill_cells import POSITION, STREAMED, Cell
from tests.support.quick_spark import SPARK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HEAD = f"version: 1\nname: silver\n{SPARK}"
FILE = (
    HEAD
    + """\
sources:
  bronze:
    { type: delta, stream: true, path: "${LAB}/bronze", schema: "n BIGINT, who STRING",
      start: latest, on_change: skip_changes, limit: { files: 2 } }
  feed:
    { type: delta, stream: true, path: "${LAB}/bronze", schema: "n BIGINT, who STRING",
      start: latest, changes: true, limit: { files: 2 } }
sinks:
  append:
    { type: delta, inputs: [bronze], path: "${LAB}/append", mode: append,
      optimize: { every: 1 batch } }
  upsert:
    { type: delta, inputs: [bronze], path: "${LAB}/upsert", mode: upsert, keys: [who], order_by: n }
  merge:
    { type: delta, inputs: [bronze], path: "${LAB}/merge", mode: merge, keys: [who],
      aggregate: { rows: count(*), total: sum(n) } }
  feed: { type: delta, inputs: [feed], path: "${LAB}/feed", mode: append }
trigger: { available_now: true }
"""
)
BEFORE, BEGUN, LATER = range(5), range(5, 25), range(25, 40)
"""Rows before the first start, which `latest` leaves out; until the death; after it."""


class StreamLab(FilesLab):
    """The table `bronze` with a feed of changes, and what its sinks are to have. Mutable."""

    def __init__(self, spark: Any, folder: Path) -> None:
        super().__init__(spark, folder, FILE, ())
        self.rows: list[tuple[int, str]] = []
        self.feed: list[tuple[int, str, str]] = []
        spark.sql(
            f"CREATE TABLE delta.`{folder}/bronze` (n BIGINT, who STRING) USING delta "
            "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )

    def grow(self, ids: range, *, is_seen: bool = True) -> None:
        """One commit of several files."""
        rows = [(n, f"k{n % 3}") for n in ids]
        frame = self.spark.createDataFrame(rows, "n BIGINT, who STRING").repartition(4)
        frame.write.format("delta").mode("append").save(f"{self.folder}/bronze")
        if is_seen:
            self.rows += rows
            self.feed += [(*row, "insert") for row in rows]

    def change(self, n: int) -> None:
        """A row that changes: rows of the feed alone."""
        bronze = f"delta.`{self.folder}/bronze`"
        self.spark.sql(f"UPDATE {bronze} SET who = 'changed' WHERE n = {n}")
        self.feed += [(n, f"k{n % 3}", "update_preimage"), (n, "changed", "update_postimage")]

    def lose(self, checkpoint: str) -> None:
        if checkpoint == "deleted":
            shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)

    def killed(self, fail: str, *arguments: str) -> None:
        """A process of its own, killed with its JVM."""
        process = subprocess.Popen(
            [sys.executable, "-m", "josefine_cli.main", "pipeline", "run",
             str(self.folder / "lab.yaml"), "--json", *arguments],
            env={**os.environ, "LAB": str(self.folder), "BYTES": "1", "JOSEFINE_FAIL": fail,
                 "PYTHONPATH": str(REPOSITORY)},
            cwd=self.folder, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            _, stderr = process.communicate(timeout=300)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert process.returncode == KILLED, stderr[-2000:]

    def check(self) -> None:
        """Each sink's rows, in Spark and by delta-rs."""
        latest: dict[str, int] = {}
        sums: dict[str, list[int]] = defaultdict(list)
        for n, who in self.rows:
            latest[who] = max(n, latest.get(who, n))
            sums[who].append(n)
        self._equal("append", ("n", "who"), self.rows)
        self._equal("upsert", ("n", "who"), [(n, who) for who, n in latest.items()])
        merged = [(who, len(ns), sum(ns)) for who, ns in sums.items()]
        self._equal("merge", ("who", "rows", "total"), merged)
        self._equal("feed", ("n", "who", "_change_type"), self.feed)

    def _equal(self, name: str, columns: tuple[str, ...], rows: list[Any]) -> None:
        found = self.table(name).select(*columns)
        expected = self.spark.createDataFrame(rows, found.schema)
        assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)
        query = QueryBuilder().register("t", DeltaTable(f"{self.folder}/{name}"))
        seen = query.execute(f"select {', '.join(columns)} from t").read_all()
        values = [seen.column(each).to_pylist() for each in columns]
        assert sorted(zip(*values, strict=True)) == sorted(rows)


def begin(lab: StreamLab, cell: Cell) -> None:
    """Until just before the death: the sinks have their positions, unless it comes before."""
    lab.grow(BEFORE, is_seen=False)
    if cell.place not in POSITION:
        lab.run()
        lab.grow(BEGUN)
        lab.change(7)


def end(lab: StreamLab, cell: Cell) -> None:
    lab.lose(cell.checkpoint)
    if cell.place in POSITION:
        lab.run()  # all sinks have their positions now, where they were without one
    lab.grow(LATER)
    lab.run()
    lab.check()


def arguments(cell: Cell) -> tuple[str, ...]:
    return ("--trust", "table") if cell.place == "after_set_aside" else ()


@pytest.fixture
def lab(spark: Any, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("cell", STREAMED, ids=str)
def test_driver_killed_while_it_reads_a_table_loses_and_repeats_nothing(
    lab: StreamLab, cell: Cell
) -> None:
    begin(lab, cell)
    lab.killed(cell.place, *arguments(cell))
    end(lab, cell)


IN_PLACE = [cell for cell in STREAMED if cell.place in ("mid_commit:2", "mid_start:2")]


@pytest.mark.slow
@pytest.mark.parametrize("cell", IN_PLACE, ids=str)
def test_driver_that_died_while_it_read_a_table_loses_and_repeats_nothing(
    lab: StreamLab, cell: Cell
) -> None:
    begin(lab, cell)
    lab.die(cell.place)
    end(lab, cell)

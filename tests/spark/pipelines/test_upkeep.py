"""OPTIMIZE and VACUUM between batches: no row is lost or doubled, and no batch fails with them. And
how runs of files with `once` and `restart` go, and what metrics say of them."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from functools import partial

import pytest

from pipelines.base import failpoints
from pipelines.base.errors import RunError, SetupError
from pipelines.config.validate import read_pipeline
from pipelines.model import freshness
from pipelines.model.maintenance import Chore, Upkeep
from pipelines.report.events import Both
from pipelines.report.metrics import Metrics
from pipelines.run.run import run_pipeline
from pipelines.sinks.delta_maintenance import END_S, Keeper, group_of
from pipelines.sources.kinds import AnyKind
from tests.spark.pipelines.conftest import DiedError, Quiet, failpoint

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """\
version: 1
name: kept
spark: {{ checkpoint: {folder}/ck }}
sources:
  events:
    type: memory
    limit: {{ rows: 10 }}
    records:
{records}
    decode: {{ value: {{ format: json, schema: "n BIGINT", on_error: fail }} }}
transforms:
  rows: {{ inputs: [events], sql: "select value.n from events" }}
sinks:
  rows:
    type: delta
    inputs: [rows]
    path: {folder}/rows
    mode: append
    {sink}
{more}
"""
AVAILABLE = "trigger: { available_now: true }"
ONCE = "trigger: { once: true }"


class Lab:
    """A pipeline over records of its own file."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.folder = folder
        self.reporter = Quiet()

    def run(self, count, sink="", more=AVAILABLE, kind=None):
        text = PIPELINE.format(
            folder=self.folder,
            records="\n".join(f"      - {{ value: {{ n: {n} }} }}" for n in range(count)),
            sink=sink,
            more=more,
        )
        file = self.folder / "kept.yaml"
        file.write_text(text)
        pipeline = read_pipeline(file, {})
        self.metrics = Metrics(pipeline)
        run_pipeline(self.spark, pipeline, Both(self.reporter, self.metrics), kind=kind)

    @property
    def numbers(self):
        rows = self.spark.read.format("delta").load(f"{self.folder}/rows").collect()
        return sorted(row.n for row in rows)

    @property
    def operations(self):
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.folder}/rows`")
        return [row.operation for row in history.orderBy("version").collect()]

    def metric(self, name, labels='pipeline="kept",sink="rows"'):
        said = re.escape(f"josefine_pipeline_{name}{{{labels}}} ")
        return float(re.search(f"^{said}(.*)$", self.metrics.text(), re.MULTILINE)[1])


@pytest.fixture
def lab(spark, tmp_path):
    return Lab(spark, tmp_path)


def test_a_table_that_is_optimized_between_batches_has_each_row_once_also_without_checkpoint(lab):
    """Checklist row 89."""
    chores = "cluster_by: [n]\n    optimize: { every: 2 batches }\n    vacuum: { every: 2 batches }"
    lab.run(20, sink=chores)
    # The last commits of the table are not the sink's: the next run has to look behind them.
    shutil.rmtree(lab.folder / "ck")
    lab.run(30, sink=chores)

    assert lab.numbers == [*range(30)]
    assert lab.operations == [
        *["CREATE TABLE", "CLUSTER BY", "WRITE", "WRITE"],
        *["OPTIMIZE", "VACUUM START", "VACUUM END", "WRITE"],
    ]
    assert lab.reporter.lines == []
    assert lab.metric("commit_version") == 7
    assert (lab.metric("rows_total"), lab.metric("batch_seconds_count")) == (10, 1)
    assert lab.metric("lag", 'partition="0",pipeline="kept",sink="rows",topic="events"') == 0


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_table_with_a_size_of_files_is_compacted_by_their_number_and_has_each_row_once(
    lab, monkeypatch
):
    monkeypatch.setattr(freshness, "SMALL_MAX", 1)
    lab.run(20, sink="file: 1MB")

    assert lab.numbers == [*range(20)]
    assert lab.operations == ["CREATE TABLE", "WRITE", "WRITE", "OPTIMIZE"]
    assert lab.reporter.lines == []


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_of_a_chore_that_was_ended_no_job_runs_and_none_begins(spark):
    tried = []

    def do(upkeep):
        for _ in range(2):
            with suppress(Exception):
                tried.append(upkeep)
                spark.range(10**15).selectExpr("max(id)").collect()

    keeper = Keeper((), do, partial(group_of, spark), lambda: False)
    said = keeper.keep(Upkeep(chore=Chore.OPTIMIZE, every=1, within_ms=1))

    assert said == "optimize was ended: it took longer than 0.001 s (`within`)"
    active = list(spark.sparkContext.statusTracker().getActiveJobsIds())
    spark.sparkContext.cancelAllJobs()
    assert len(tried) == 2, f"it has not ended {END_S} s later"
    assert active == []


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_once_is_one_batch_behind_a_planned_one(lab):
    def died():
        raise DiedError("after_offsets")

    with pytest.MonkeyPatch.context() as patch, failpoint("after_offsets"):
        patch.setattr(failpoints, "die", died)
        with pytest.raises(RunError, match="it died at"):
            lab.run(20, more=ONCE)

    lab.run(35, sink="optimize: { every: 1 batch, within: 1ms }", more=ONCE)

    assert lab.numbers == [*range(35)]
    assert [done.records for done in lab.reporter.batches] == [20, 15]
    ended = "optimize was ended: it took longer than 0.001 s (`within`)"
    assert lab.reporter.lines == [("rows", ended)] * 2


class Away(AnyKind):
    """Brokers that are away at the first looks."""

    def __init__(self, looks):
        self.looks = looks

    def look(self, source):
        self.looks -= 1
        if self.looks >= 0:
            raise SetupError("no broker there")
        return super().look(source)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_run_is_begun_again_when_its_brokers_were_away(lab):
    lab.run(5, more=f"{AVAILABLE}\nrestart: {{ attempts: 1, backoff: 1ms }}", kind=Away(1))

    assert lab.numbers == [*range(5)]
    assert lab.reporter.restarts == [("rows", "no broker there (start 1 of 1 after this)")]

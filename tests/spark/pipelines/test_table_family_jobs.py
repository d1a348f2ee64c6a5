"""How many Spark jobs a batch of a table family runs: a few, however many tables it has."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.run.sink_handle import SinkHandle
from tests.spark.pipelines.conftest import Lab
from tests.spark.pipelines.test_table_family import Sent, by_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.slow]

TABLES = 3
JOBS_MAX = 5
"""The cache, the rows of each table, and the files of all of them. A commit of a table by Spark
would be four more."""


def jobs(spark: Any) -> int:
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).size())


def test_a_batch_runs_as_many_jobs_for_many_tables_as_for_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, process = Sent(lab), SinkHandle.process
    for topic in by_topic(lab, TABLES):
        sent.to(topic, 20)
    counts: list[int] = []

    def counted(handle: SinkHandle, *arguments: Any) -> None:
        before = jobs(lab.spark)
        process(handle, *arguments)
        counts.append(jobs(lab.spark) - before)

    monkeypatch.setattr(SinkHandle, "process", counted)
    lab.run(rows=30)

    sent.check()
    # Also the first one, which creates the tables.
    assert len(counts) == 2, counts
    assert max(counts) <= JOBS_MAX, counts

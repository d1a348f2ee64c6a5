"""How many Spark jobs a batch of a table family runs: a few for each table, whatever its input."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.run.sink_handle import SinkHandle
from tests.spark.pipelines.conftest import Lab
from tests.spark.pipelines.test_table_family import Sent, by_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.slow]

TABLES = 3
OF_A_TABLE, OF_THE_BATCH = 4, 8
"""Of a table: the write, and three for the state of the table, which Delta computes before it. Of
the batch: the cache, the rows of each table, and the commit of the registry."""


def jobs(spark: Any) -> int:
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().jobsList(None).size())


def test_a_batch_runs_at_most_four_jobs_for_each_table_and_computes_its_input_once(
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
    # The first batch also creates the tables.
    assert len(counts) == 2, counts
    assert counts[1] <= OF_A_TABLE * TABLES + OF_THE_BATCH, counts

"""Tasks of a micro-batch: together they read each offset once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.source_options import source_options

module = pytest.importorskip("josefine_spark.read.input_partitions")
from josefine_spark.read.input_partitions import input_partitions, read_task  # noqa: E402

RANGES = st.lists(st.integers(1, 30), max_size=3)


@given(RANGES, st.integers(1, 9), st.integers(1, 9))
def test_the_tasks_have_each_offset_once_and_no_more_records_than_allowed(sizes, tasks, most):
    ranges = [
        OffsetRange(partition=TopicPartition("t", n), topic_id="", start=5, end=5 + size)
        for n, size in enumerate(sizes)
    ]
    options = source_options(
        {"bootstrapServers": "b:1", "subscribe": "t", "minPartitions": str(tasks),
         "maxRecordsPerPartition": str(most)}, streaming=True,
    )  # fmt: skip

    pieces = [each.value for each in input_partitions(options, ranges)]

    offsets = [(p.partition, n) for p in pieces for n in range(p.start, p.end)]
    assert sorted(offsets) == [(r.partition, n) for r in ranges for n in range(r.start, r.end)]
    assert all(piece.size <= most for piece in pieces)


@pytest.mark.parametrize("nothing", [None, module.InputPartition(None)])
def test_pysparks_placeholder_for_no_task_reads_nothing(nothing):
    assert list(read_task(None, nothing)) == []

"""Unreadable record batches are recorded before the other rows of their micro-batch are used."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import PRODUCED_UNREADABLE
from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.dead_letters.unreadable_batches import is_unreadable_batch, skipped_and_recorded
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.offset_chain import Batch
from pipelines.formats.decode import UNREADABLE
from tests.unit.pipelines.tiny_spark import Frame

pytest.importorskip("pyspark")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCH = Batch(start={P0: 0, P1: 0}, end=TopicOffsets(ends={P0: 10, P1: 8}, topic_ids={"t": "id"}))


def row(partition: int, offset: int, end: int | None = None) -> dict:
    mark = None if end is None else {"start_offset": offset, "end_offset": end, "cause": "crc"}
    return {"topic": "t", "partition": partition, "offset": offset, "value": b"v", UNREADABLE: mark}


def lost(partition: TopicPartition, start: int, end: int) -> LostRange:
    return LostRange(partition=partition, topic_id="id", start=start, end=end)


def test_marked_rows_are_recorded_and_the_others_are_the_micro_batch():
    marked = Frame([row(1, 5, 7), row(0, 1), row(0, 2, 4), row(0, 4)])
    recorded: list[LostRange] = []

    found = skipped_and_recorded(marked, BATCH, recorded.extend)

    assert recorded == [lost(P0, 2, 4), lost(P1, 5, 7)]
    assert [each["offset"] for each in found.rows] == [1, 4]
    assert UNREADABLE not in found.columns


def test_of_a_batch_beyond_the_micro_batch_only_the_part_within_is_lost_now():
    recorded: list[LostRange] = []

    skipped_and_recorded(Frame([row(0, 8, 14)]), BATCH, recorded.extend)

    assert recorded == [lost(P0, 8, 10)]


def test_a_micro_batch_without_any_records_nothing():
    def record(found):
        raise AssertionError(found)

    assert len(skipped_and_recorded(Frame([row(0, 1)]), BATCH, record).rows) == 1


def test_where_they_cannot_be_recorded_no_row_is_used():
    def record(found):
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        skipped_and_recorded(Frame([row(0, 2, 4), row(0, 4)]), BATCH, record)


def test_a_task_that_failed_on_one_is_known_by_the_errors_text():
    assert is_unreadable_batch(RuntimeError(f"stage 3 failed: {PRODUCED_UNREADABLE} ..."))
    assert not is_unreadable_batch(RuntimeError("out of memory"))

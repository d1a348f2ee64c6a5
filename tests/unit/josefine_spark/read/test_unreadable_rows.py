"""The row of a record batch that cannot be read: one per micro-batch, however it is split."""

from __future__ import annotations

import pyarrow as pa
import pytest

from josefine_arrow.batches.columns import UNREADABLE
from josefine_broker.base.errors import UnreadableBatchError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.options.options import Connection, ReadOptions
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.unreadable_rows import row_of, with_mark

T0 = TopicPartition("t", 0)
ERROR = UnreadableBatchError(10, 13, "a record is cut")


def made(start=0, offset=0, *, continues=False, time_ms=5, append_time=False):
    batch = build_batch(
        [Record(None, b"v", (), time_ms)] * 3, base_offset=10, log_append_time=append_time
    )
    wanted = OffsetRange(partition=T0, topic_id="", start=start, end=20, continues=continues)
    options = ReadOptions(connection=Connection(bootstrap="b:1"))
    found = row_of(memoryview(batch), parse_header(batch), ERROR, wanted, offset, options)
    return batch, None if found is None else found.to_pylist()[0]


def test_the_row_has_the_batchs_bytes_and_its_offsets():
    batch, row = made()

    assert row["value"] == bytes(batch)
    assert (row["topic"], row["partition"], row["offset"], row["key"]) == ("t", 0, 10, None)
    assert row[UNREADABLE] == {"start_offset": 10, "end_offset": 13, "cause": "a record is cut"}
    assert row["timestamp"].timestamp() == 0.005


def test_a_range_that_starts_within_the_batch_has_a_row_for_the_rest():
    _, row = made(start=11, offset=11)

    assert row["offset"] == 11


@pytest.mark.parametrize(
    ("start", "continues", "has_row"),
    [(11, True, False), (11, False, True), (10, True, True), (0, True, True)],
)
def test_of_two_tasks_that_share_a_batch_the_first_returns_the_row(start, continues, has_row):
    _, row = made(start=start, offset=start, continues=continues)

    assert (row is not None) is has_row


def test_a_time_that_spark_cannot_hold_is_null():
    _, row = made(time_ms=2**62)

    assert row["timestamp"] is None


def test_rows_without_a_mark_get_an_empty_one_once():
    plain = pa.RecordBatch.from_pylist([{"value": b"a"}])

    marked = with_mark(plain)

    assert marked.schema.names == ["value", UNREADABLE]
    assert marked.column(UNREADABLE).null_count == 1
    assert with_mark(marked) is marked

"""A batch that was produced broken: a task names it, or passes over it and records it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructType

from josefine_arrow.batches import decoder as decode
from josefine_arrow.batches.columns import UNREADABLE_FIELD, arrow_schema
from josefine_arrow.batches.decode_oracle import PythonDecoder
from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import FetchedPartition
from josefine_broker.records.batch import stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.base.errors import ReadError
from josefine_spark.options.options import Connection, JsonColumn, ReadOptions, UnreadableBatches
from josefine_spark.read import task_reader
from josefine_spark.read.admission import OffsetRange, split_ranges
from josefine_spark.read.columns import spark_schema
from josefine_spark.read.data_loss import Reason
from josefine_spark.read.task_reader import read_range
from pipelines.exactly_once.verdict_messages import clear_reason
from tests.compat.produced_batches import NOW_MS, STRUCTURE, batch, record

T0 = TopicPartition("orders", 0)
SKIP: dict[str, Any] = {"unreadable_batches": UnreadableBatches.SKIP}
AS_ROW: dict[str, Any] = {"unreadable_batches": UnreadableBatches.AS_ROW}
BROKEN = (
    "length_too_long", "header_count_negative", "header_name_null", "key_beyond", "record_cut",
    "bytes_behind_records",
)  # fmt: skip


class Brokers:
    """Give the same bytes for every fetch, or what comes of them from an offset on."""

    def __init__(self, *batches: bytes) -> None:
        self.batches = batches

    def known_topic_id(self, topic: str) -> None:
        return None

    def fetch(self, at: Mapping[TopicPartition, int], **_: Any) -> dict[Any, FetchedPartition]:
        part = FetchedPartition(
            records=memoryview(b"".join(self.batches)),
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=0,
            error_code=ErrorCode.none,
        )
        return dict.fromkeys(at, part)


def at(offset: int, built: bytes) -> bytes:
    stamped = bytearray(built)
    stamp(stamped, 0, offset, 0)
    return bytes(stamped)


def good(offset: int, codec: int = 0) -> bytes:
    return at(offset, batch([record(delta) for delta in range(3)], codec))


@pytest.fixture(params=["compiled", "twin"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = decode.Decoder if request.param == "compiled" else PythonDecoder
    monkeypatch.setattr(task_reader, "decoder_class", lambda: chosen)


def read(monkeypatch: pytest.MonkeyPatch, *batches: bytes, **options: Any) -> list[int]:
    """The offsets of the rows of a task over [1, 9)."""
    wanted = OffsetRange(partition=T0, topic_id="", start=1, end=9)
    rows = read_rows(monkeypatch, wanted, *batches, **options)
    return [row["offset"] for row in rows]


def read_rows(
    monkeypatch: pytest.MonkeyPatch, wanted: OffsetRange, *batches: bytes, **options: Any
) -> list[dict[str, Any]]:
    monkeypatch.setattr(task_reader, "client_for", lambda _: Brokers(*batches))
    chosen = ReadOptions(
        connection=Connection(bootstrap="b:1"),
        poll_timeout_ms=3_000,
        include_headers=True,
        **options,
    )
    return [row for found in read_range(chosen, wanted) for row in found.to_pylist()]


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("codec", [0, 1])
def test_the_error_names_topic_partition_offsets_cause_and_way_past(
    monkeypatch: pytest.MonkeyPatch, kind: str, codec: int
) -> None:
    broken = at(3, batch(STRUCTURE[kind], codec))

    with pytest.raises(ReadError) as caught:
        read(monkeypatch, good(0), broken, good(6))

    said = str(caught.value)
    assert said.startswith(
        "cannot read orders-0 at offset 3: the batch with the offsets 3 to 5 cannot be read: "
    )
    assert "record 1 of 3" in said or "record 2 of 3" in said or "more than the 3" in said
    assert "failOnDataLoss=false" in said
    assert "unreadableBatches=asRow" in said
    assert "on_error: dead_letter" in said
    assert "on_data_loss: skip_and_record" in said


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize(("codec", "name"), [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_bytes_that_do_not_decompress_are_named_by_their_codec(
    monkeypatch: pytest.MonkeyPatch, codec: int, name: str
) -> None:
    garbage = at(3, batch([b"", b"", b""], codec, packed=bytes(range(60))))

    with pytest.raises(ReadError, match=rf"offset 3: .*{name} data: "):
        read(monkeypatch, good(0), garbage, good(6, codec))


@pytest.mark.usefixtures("decoder")
def test_an_unknown_codec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = at(3, batch([record(0)], packed=b"xyz", attributes=6))

    with pytest.raises(ReadError, match=r"offset 3: .*compression codec 6"):
        read(monkeypatch, good(0), unknown)


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("kind", BROKEN)
def test_by_decision_only_that_batch_is_passed_over_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    recorded: list[Any] = []
    monkeypatch.setattr(task_reader, "_record", lambda *found: recorded.append(found[2]))
    broken = at(3, batch(STRUCTURE[kind]))

    with caplog.at_level(logging.WARNING, "josefine.spark"):
        offsets = read(monkeypatch, good(0), broken, good(6), **SKIP)

    assert offsets == [1, 2, 6, 7, 8]
    ((loss,),) = recorded
    assert (loss.start, loss.end, loss.reason) == (3, 6, Reason.UNREADABLE)
    assert "orders-0 offsets [3, 6)" in caplog.text


@pytest.mark.usefixtures("decoder")
def test_an_aborted_transaction_stays_out_beside_a_batch_that_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which batches are aborted is decided over the whole response."""
    producer = {"producer_id": 5, "producer_epoch": 0}
    marker = build_batch(
        [Record(b"\0\0\0\0", b"\0\0\0\0\0\0")], control=True, transactional=True, **producer
    )
    aborted = at(
        0,
        bytes(
            build_batch([Record(b"k", b"a")] * 3, base_sequence=0, transactional=True, **producer)
        ),
    )
    after = at(
        7,
        bytes(
            build_batch([Record(b"k", b"b")] * 2, base_sequence=3, transactional=True, **producer)
        ),
    )
    broken = at(4, batch(STRUCTURE["key_beyond"]))
    stopped = [aborted, at(3, bytes(marker)), broken, after]
    monkeypatch.setattr(task_reader, "_record", lambda *_: None)
    monkeypatch.setattr(task_reader, "_aborted", lambda _: [task_reader.AbortedTransaction(5, 0)])

    offsets = read(monkeypatch, *stopped, **SKIP, read_committed=True)

    assert offsets == [7, 8]


@pytest.mark.usefixtures("decoder")
def test_bytes_that_the_disk_changed_are_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(good(3))
    damaged[-1] ^= 1

    for decided in (SKIP, AS_ROW):
        with pytest.raises(ReadError, match=r"at offset 3: .*CRC .*josefine log verify"):
            read(monkeypatch, good(0), bytes(damaged), good(6), **decided)


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("codec", [0, 1])
def test_an_unreadable_batch_becomes_one_marked_row_with_its_bytes(
    monkeypatch: pytest.MonkeyPatch, kind: str, codec: int
) -> None:
    broken = at(3, batch(STRUCTURE[kind], codec))
    wanted = OffsetRange(partition=T0, topic_id="", start=1, end=9)

    rows = read_rows(monkeypatch, wanted, good(0), broken, good(6), **AS_ROW)

    assert [row["offset"] for row in rows] == [1, 2, 3, 6, 7, 8]
    row = rows[2]
    assert row["value"] == broken
    assert (row["key"], row["headers"], row["topic"], row["partition"]) == (
        None, None, "orders", 0,
    )  # fmt: skip
    assert row["timestamp"] == datetime.fromtimestamp(NOW_MS / 1000, UTC)
    mark = row["unreadable_batch"]
    assert (mark["start_offset"], mark["end_offset"]) == (3, 6)
    assert "record" in mark["cause"]
    assert [each["unreadable_batch"] for each in rows if each is not row] == [None] * 5


def test_a_header_of_a_producer_cannot_mark_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    forged = build_batch([Record(b"k", b"v", (("unreadable_batch", b"3-5"),), NOW_MS)])
    wanted = OffsetRange(partition=T0, topic_id="", start=0, end=1)

    (row,) = read_rows(monkeypatch, wanted, at(0, bytes(forged)), **AS_ROW)

    assert row["unreadable_batch"] is None
    assert row["headers"] == [{"key": "unreadable_batch", "value": b"3-5"}]


def test_an_unreadable_batch_has_one_row_however_a_range_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = at(3, batch(STRUCTURE["key_beyond"]))
    whole = OffsetRange(partition=T0, topic_id="", start=1, end=9)
    for records_max in range(1, 9):
        rows = [
            row["offset"]
            for piece in split_ranges([whole], records_max=records_max)
            for row in read_rows(monkeypatch, piece, good(0), broken, good(6), **AS_ROW)
        ]
        assert rows == [1, 2, 3, 6, 7, 8], records_max


def test_a_read_that_starts_within_an_unreadable_batch_has_a_row_for_the_rest_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = at(3, batch(STRUCTURE["key_beyond"]))
    whole = OffsetRange(partition=T0, topic_id="", start=4, end=9)
    for records_max in (1, 2, 9):
        rows = [
            row
            for piece in split_ranges([whole], records_max=records_max)
            for row in read_rows(monkeypatch, piece, broken, good(6), **AS_ROW)
        ]
        assert [row["offset"] for row in rows] == [4, 6, 7, 8], records_max
        assert rows[0]["unreadable_batch"]["start_offset"] == 3


def test_the_marked_row_has_the_columns_of_the_read_and_stays_no_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = at(3, batch(STRUCTURE["key_beyond"]))
    wanted = OffsetRange(partition=T0, topic_id="", start=3, end=9)
    schema = StructType().add("id", IntegerType()).json()
    more = {"columns": ("value", "offset"), "json": JsonColumn(schema=schema)}

    row, *_ = read_rows(monkeypatch, wanted, broken, good(6), **AS_ROW, **more)

    assert [*row] == ["value", "offset", "unreadable_batch", "json", "json_reason"]
    assert row["json"] is None


def test_arrow_and_spark_have_the_mark_alike() -> None:
    """PySpark compares the schemas exactly."""
    marked = spark_schema(True, marks_unreadable=True)

    assert to_arrow_schema(marked, timezone="UTC") == arrow_schema(True).append(UNREADABLE_FIELD)


def test_a_pipeline_tells_that_sentence_and_not_sparks_first_line() -> None:
    """Spark hands on the error's name and text behind a line of its own."""
    text = (
        "An exception was thrown from the Python worker:\n"
        "josefine_spark.base.errors.ReadError: cannot read orders-0 at offset 3: the batch with the"
        " offsets 3 to 5 cannot be read: record 1 of 3: why; and so on"
    )

    assert clear_reason(RuntimeError(text)).startswith("cannot read orders-0 at offset 3")

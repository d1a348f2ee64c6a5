"""A batch that was produced broken: a task names it, or passes over it and records it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import FetchedPartition
from josefine_broker.records.batch import stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_spark import decode, reading
from josefine_spark.admission import OffsetRange
from josefine_spark.data_loss import Reason
from josefine_spark.decode_oracle import PythonDecoder
from josefine_spark.errors import ReadError
from josefine_spark.options import Connection, ReadOptions
from josefine_spark.reading import read_range
from pipelines.messages import clear_reason
from tests.compat.produced_batches import STRUCTURE, batch, record

T0 = TopicPartition("orders", 0)
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
    monkeypatch.setattr(reading, "decoder_class", lambda: chosen)


def read(monkeypatch: pytest.MonkeyPatch, *batches: bytes, **options: Any) -> list[int]:
    """The offsets of the rows of a task over [1, 9)."""
    monkeypatch.setattr(reading, "client_for", lambda _: Brokers(*batches))
    chosen = ReadOptions(
        connection=Connection(bootstrap="b:1"),
        poll_timeout_ms=3_000,
        include_headers=True,
        **options,
    )
    wanted = OffsetRange(partition=T0, topic_id="", start=1, end=9)
    return [
        offset
        for found in read_range(chosen, wanted)
        for offset in found.column("offset").to_pylist()
    ]


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
    assert "josefine pipeline offsets set" in said


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
    monkeypatch.setattr(reading, "_record", lambda *found: recorded.append(found[2]))
    broken = at(3, batch(STRUCTURE[kind]))

    with caplog.at_level(logging.WARNING, "josefine.spark"):
        offsets = read(monkeypatch, good(0), broken, good(6), fail_on_data_loss=False)

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
    monkeypatch.setattr(reading, "_record", lambda *_: None)
    monkeypatch.setattr(reading, "_aborted", lambda _: [reading.AbortedTransaction(5, 0)])

    offsets = read(monkeypatch, *stopped, fail_on_data_loss=False, read_committed=True)

    assert offsets == [7, 8]


@pytest.mark.usefixtures("decoder")
def test_bytes_that_the_disk_changed_are_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(good(3))
    damaged[-1] ^= 1

    with pytest.raises(ReadError, match=r"at offset 3: .*CRC .*josefine log verify"):
        read(monkeypatch, good(0), bytes(damaged), good(6), fail_on_data_loss=False)


def test_a_pipeline_tells_that_sentence_and_not_sparks_first_line() -> None:
    """Spark hands on the error's name and text behind a line of its own."""
    text = (
        "An exception was thrown from the Python worker:\n"
        "josefine_spark.errors.ReadError: cannot read orders-0 at offset 3: the batch with the"
        " offsets 3 to 5 cannot be read: record 1 of 3: why; and so on"
    )

    assert clear_reason(RuntimeError(text)).startswith("cannot read orders-0 at offset 3")

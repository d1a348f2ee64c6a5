"""Records in the formats of before Kafka 0.11 are refused at once, by their name."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import FetchedPartition
from josefine_spark.base.errors import ReadError
from josefine_spark.options.options import Connection, ReadOptions
from josefine_spark.read import task_reader
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.task_reader import read_range

T0 = TopicPartition("old", 0)


def message(magic: int, offset: int) -> bytes:
    """A message with key k and value v: offset, size, CRC, magic, attributes, time from 1 on."""
    time = b"" if magic == 0 else struct.pack(">q", 1_400_000_000_000)
    body = struct.pack(">IBB", 0, magic, 0) + time + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    return struct.pack(">qi", offset, len(body)) + body


class Brokers:
    """Give the same bytes for every fetch."""

    def __init__(self, records: bytes) -> None:
        self.records = records
        self.fetches = 0

    def known_topic_id(self, topic: str) -> None:
        return None

    def fetch(self, at: Mapping[TopicPartition, int], **_: Any) -> dict[Any, FetchedPartition]:
        self.fetches += 1
        part = FetchedPartition(
            records=memoryview(self.records),
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=0,
            error_code=ErrorCode.none,
        )
        return dict.fromkeys(at, part)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_set_is_refused_with_the_first_fetch(
    monkeypatch: pytest.MonkeyPatch, magic: int
) -> None:
    brokers = Brokers(b"".join(message(magic, offset) for offset in range(5, 9)))
    monkeypatch.setattr(task_reader, "client_for", lambda _: brokers)
    options = ReadOptions(connection=Connection(bootstrap="b:1"), poll_timeout_ms=3_000)
    wanted = OffsetRange(partition=T0, topic_id="", start=5, end=9)

    with pytest.raises(ReadError, match=rf"old-0 at offset 5: .* message format {magic} .before"):
        list(read_range(options, wanted))

    assert brokers.fetches == 1

"""The age of what a table lacks, as a status finds it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_lake.writer.lag_age import lag_age_ms, seconds
from josefine_lake.writer.topic_reader import OutOfRangeError, Read

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """Answers each fetch with records of these times in ms, by partition."""

    def __init__(self, times: dict[TopicPartition, list[int | None]], error: Any = None) -> None:
        self.times, self.error = times, error
        self.asked: dict[TopicPartition, int] = {}

    def fetch(self, positions: Any, wait_ms: int) -> list[Read]:
        self.asked = dict(positions)
        if self.error is not None:
            raise self.error
        return [
            Read(
                partition=tp,
                batches=[pa.RecordBatch.from_pydict({"timestamp": _us(self.times.get(tp, []))})],
                next_offset=9,
                end=9,
            )
            for tp in positions
        ]


def _us(times: list[int | None]) -> Any:
    return pa.array(
        [None if each is None else each * 1_000 for each in times], pa.timestamp("us", "UTC")
    )


def age(log: Log, positions: dict[TopicPartition, int]) -> int | None:
    return lag_age_ms(log, positions, {P: 5, Q: 5}, 1_000)  # type: ignore[arg-type]


def test_the_oldest_record_of_the_partitions_that_are_behind_counts() -> None:
    log = Log({P: [900, 400], Q: [100]})

    assert age(log, {P: 3, Q: 5}) == 600
    assert log.asked == {P: 3}
    assert age(log, {P: 3}) == 900
    assert log.asked == {P: 3, Q: 0}
    assert age(log, {P: 5, Q: 6}) == 0


@pytest.mark.parametrize(
    "log",
    [
        Log({P: []}),
        Log({P: [None, -1]}),
        Log({}, KafkaError(ErrorCode.request_timed_out, "late")),
        Log({}, CorruptData("torn")),
        Log({}, OutOfRangeError("gone")),
    ],
    ids=["aborted", "no time", "silent", "torn", "gone"],
)
def test_without_a_time_the_age_is_unknown(log: Log) -> None:
    assert age(log, {P: 3, Q: 5}) is None


def test_a_clock_that_went_back_is_no_negative_age() -> None:
    assert age(Log({P: [2_000]}), {P: 3, Q: 5}) == 0
    assert [seconds(each) for each in (None, 0, 12_340)] == ["?", "0.0 s", "12.3 s"]

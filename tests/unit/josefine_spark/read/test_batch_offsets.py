"""A stream's batch: where it begins and ends, what it passes over, how far it is behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.options import connections
from josefine_spark.options.options import Connection
from josefine_spark.read.batch_offsets import batch_end, positions
from josefine_spark.read.data_loss import find_losses
from josefine_spark.read.group_commits import AGAIN_MS, RETRY_MS, GroupCommits
from josefine_spark.read.lag import backlog, lag_of, read_lag
from josefine_spark.read.offsets import Bounds, parse_offset, to_dict
from josefine_spark.read.record_sizes import RECORD_BYTES_GUESS, Sample, measure, offset_bytes

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
BEGIN = TopicOffsets(ends={A0: 10}, first={A0: 0}, topic_ids={"a": "x"})


def planned(
    bounds: dict[TopicPartition, Bounds], begin: TopicOffsets = BEGIN, topic_id: str = "x"
) -> TopicOffsets:
    """The offset of a batch that takes all there is."""
    now = TopicOffsets(
        ends={tp: bound.latest for tp, bound in bounds.items()},
        first={tp: bound.earliest for tp, bound in bounds.items()},
        topic_ids={"a": topic_id},
    )
    losses = find_losses(begin, now.topic_ids, bounds)
    at = positions(begin, now, bounds)
    return batch_end(begin, now, at, now.ends, losses)


def test_a_batch_passes_over_what_is_gone_and_its_offset_says_so() -> None:
    """Checklist row 90."""
    end = planned({A0: Bounds(25, 30)})

    assert end.ends == {A0: 30}
    assert end.lost == {A0: (10, 25)}
    assert BEGIN.start_of(A0, end) == 25


def test_limits_count_from_behind_what_is_gone() -> None:
    now = TopicOffsets(ends={A0: 30, A1: 9}, first={A0: 0, A1: 0}, topic_ids={"a": "x"})

    assert positions(BEGIN, now, {A0: Bounds(25, 30), A1: Bounds(4, 9)}) == {A0: 25, A1: 4}


def test_a_log_that_was_cut_is_read_on_from_where_it_ends() -> None:
    """Checklist row 90. Records [8, 10) are gone and others were written there since."""
    at = positions(BEGIN, TopicOffsets(ends={A0: 8}, topic_ids={"a": "x"}), {A0: Bounds(0, 8)})
    assert at == {A0: 8}

    end = planned({A0: Bounds(0, 8)})
    assert end.lost == {A0: (8, 10)}
    assert BEGIN.start_of(A0, end) == 8
    assert planned({A0: Bounds(0, 12)}, begin=end).start_of(A0, end) == 8


def test_a_topic_created_again_is_read_from_its_beginning_and_nobody_knows_the_loss() -> None:
    end = planned({A0: Bounds(2, 10)}, topic_id="y")

    assert end.lost == {A0: (10, None)}
    assert end.topic_ids == {"a": "y"}
    assert BEGIN.start_of(A0, end) == 2


def test_what_was_lost_survives_the_checkpoint_and_is_said_once() -> None:
    end = planned({A0: Bounds(25, 30)})

    assert parse_offset(json.dumps(to_dict(end))) == end
    idle = planned({A0: Bounds(25, 30)}, begin=end)
    assert json.dumps(to_dict(idle)) == json.dumps(to_dict(end))
    assert planned({A0: Bounds(25, 31)}, begin=end).lost == {}


def test_all_that_was_promised_is_gone_and_nothing_came() -> None:
    end = planned({A0: Bounds(25, 25)})

    assert (end.ends, end.lost) == ({A0: 25}, {A0: (10, 25)})
    assert BEGIN.start_of(A0, end) == 25


def test_a_new_partition_begins_where_its_log_does_now() -> None:
    end = planned({A0: Bounds(0, 10), A1: Bounds(3, 9)})

    assert end.first == {A0: 0, A1: 3}
    assert BEGIN.start_of(A1, end) == 3
    assert end.lost == {}


def test_a_partition_that_is_gone_keeps_its_place() -> None:
    begin = TopicOffsets(ends={A0: 10, A1: 4}, first={A0: 0, A1: 0}, topic_ids={"a": "x"})

    end = planned({A0: Bounds(0, 12)}, begin=begin)

    assert end.ends == {A0: 12, A1: 4}
    assert end.lost == {}


def test_lag_is_counted_per_partition_as_sparks_kafka_source_does() -> None:
    reached = TopicOffsets(ends={A0: 10}, topic_ids={"a": "x"})
    latest = TopicOffsets(ends={A0: 40, A1: 9}, first={A0: 0, A1: 3}, topic_ids={"a": "x"})
    behind = backlog(reached, latest)
    assert behind == {A0: 30, A1: 6}

    samples = {A0: Sample(offset_bytes=100.0, timestamp_ms=40_000)}
    assert lag_of(behind, samples, 100_000) == {
        "minOffsetsBehindLatest": 6,
        "maxOffsetsBehindLatest": 30,
        "avgOffsetsBehindLatest": 18.0,
        "offsetsBehindLatest": 36,
        "bytesBehindLatest": 3600,
        "secondsBehindLatest": 60.0,
    }


def test_a_query_that_has_read_all_is_not_behind() -> None:
    assert set(lag_of({A0: 0}, {}, 5).values()) == {0}
    assert set(lag_of({}, {}, 5).values()) == {0}


def test_lag_is_found_in_a_progress_and_missed_in_another_sources() -> None:
    text = json.dumps(to_dict(BEGIN) | {"lag": {"offsetsBehindLatest": 3}})

    assert read_lag(text) == {"offsetsBehindLatest": 3}
    assert [read_lag(other) for other in (None, "", "5", "{}", "no json")] == [None] * 5


def test_a_sample_has_the_stored_bytes_per_offset_and_the_age_of_the_first_batch() -> None:
    batches = [
        bytes(build_batch([Record(None, b"v" * 100, (), 7_000 + n) for n in range(10)]))
        for _ in range(2)
    ]
    whole = b"".join(batches)

    sample = measure(memoryview(batches[0]))

    assert sample is not None
    assert sample.timestamp_ms == 7_000
    assert sample.offset_bytes == pytest.approx(len(batches[0]) / 10)
    assert measure(memoryview(whole)[:-1]) == sample
    assert measure(memoryview(b"")) is None


def test_a_partition_without_a_sample_is_taken_to_be_like_the_others() -> None:
    samples = {A0: Sample(offset_bytes=50.0, timestamp_ms=0)}

    assert offset_bytes(samples, [A0, A1]) == {A0: 50.0, A1: 50.0}
    assert offset_bytes({}, [A0]) == {A0: RECORD_BYTES_GUESS}


def test_a_group_is_told_what_is_new_and_again_before_it_forgets() -> None:
    commits = GroupCommits(Connection(bootstrap="127.0.0.1:1"), "g")
    assert commits.due({A0: 5}, 0)
    assert not commits.due({}, 0)

    commits._committed, commits._again_ms = {A0: 5}, AGAIN_MS

    assert not commits.due({A0: 5}, 1)
    assert commits.due({A0: 6}, 1)
    assert commits.due({A0: 5}, AGAIN_MS)


def test_a_group_that_takes_no_offsets_stops_nothing_and_is_said_once_a_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def commit_offsets(self, *_: Any, **__: Any) -> None:
            raise KafkaError(ErrorCode.unknown_member_id, "group 'g' has members")

    monkeypatch.setattr(connections, "client_for", lambda _: Refusing())
    commits = GroupCommits(Connection(bootstrap="127.0.0.1:9"), "g")

    for now_ms in (0, 1, RETRY_MS, 2 * RETRY_MS):
        commits.commit({A0: 5}, now_ms)

    assert commits.due({A0: 5}, 10 * RETRY_MS)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["commitGroup g: offsets not committed: group 'g' has members"]

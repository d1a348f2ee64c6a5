"""The stream's offset, how positions become offsets, and what of a promise is gone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import DataLossError, OptionError
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.options.options import MissingStrategy
from josefine_spark.options.positions import (
    EARLIEST,
    LATEST,
    at_time,
    parse_offsets,
    parse_timestamp,
    parse_timestamps,
)
from josefine_spark.read.data_loss import Reason, data_loss_error, find_losses
from josefine_spark.read.offsets import (
    Bounds,
    check_order,
    parse_offset,
    resolve_end,
    resolve_group,
    resolve_start,
    timestamp_queries,
    to_dict,
)

A0, A1, A10 = (TopicPartition("a", n) for n in (0, 1, 10))
B0 = TopicPartition("b", 0)
BOUNDS = {A0: Bounds(5, 20), A1: Bounds(0, 7)}
ERROR, TO_LATEST = MissingStrategy.ERROR, MissingStrategy.LATEST

BY_PARTITION = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "ä"]), st.integers(0, 2000)),
    st.integers(0, 2**60),
)


@settings(deadline=None)
@given(offsets=BY_PARTITION, ids=st.dictionaries(st.sampled_from(["a", "b"]), st.text()))
def test_an_offset_survives_the_checkpoint(
    offsets: dict[TopicPartition, int], ids: dict[str, str]
) -> None:
    offset = TopicOffsets(ends=offsets, first=offsets, topic_ids=ids)

    assert parse_offset(json.dumps(to_dict(offset))) == offset
    assert parse_offset(to_dict(offset)) == offset


@settings(deadline=None)
@given(offsets=BY_PARTITION)
def test_equal_offsets_are_equal_text(offsets: dict[TopicPartition, int]) -> None:
    backwards = dict(reversed(offsets.items()))
    one, other = TopicOffsets(ends=offsets), TopicOffsets(ends=backwards)

    assert json.dumps(to_dict(one)) == json.dumps(to_dict(other))


def test_offset_json_has_sorted_keys_and_a_version() -> None:
    offset = TopicOffsets(
        ends={B0: 1, A10: 3, A1: 2}, first={A1: 0}, topic_ids={"b": "y", "a": "x"}
    )

    assert json.dumps(to_dict(offset)) == (
        '{"first": {"a": {"1": 0}}, "offsets": {"a": {"1": 2, "10": 3}, "b": {"0": 1}}, '
        '"topic_ids": {"a": "x", "b": "y"}, "v": 1}'
    )


@pytest.mark.parametrize("text", ["{}", '{"v": 2}', '{"v": 1}', "[]", '{"a": {"0": 5}}'])
def test_an_offset_of_another_format_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="checkpoint's offset"):
        parse_offset(text)


def test_a_new_partition_starts_at_its_recorded_first_offset() -> None:
    start = TopicOffsets(ends={A0: 5}, first={A0: 0}, topic_ids={"a": "x"})
    end = TopicOffsets(ends={A0: 9, A1: 9}, first={A0: 0, A1: 3}, topic_ids={"a": "x"})

    assert start.start_of(A0, end) == 5
    assert start.start_of(A1, end) == 3


def test_a_topic_created_again_starts_at_its_recorded_first_offset() -> None:
    start = TopicOffsets(ends={A0: 500}, first={A0: 0}, topic_ids={"a": "old"})
    end = TopicOffsets(ends={A0: 9}, first={A0: 2}, topic_ids={"a": "new"})

    assert start.start_of(A0, end) == 2


def start_at(position: object, *, fail: bool = True, **found: int) -> dict[TopicPartition, int]:
    at = {TopicPartition("a", int(name[1:])): offset for name, offset in found.items()}
    return resolve_start(position, BOUNDS, at, ERROR, fail_on_data_loss=fail)  # type: ignore[arg-type]


def test_start_at_either_end() -> None:
    assert start_at(EARLIEST) == {A0: 5, A1: 0}
    assert start_at(LATEST) == {A0: 20, A1: 7}


def test_start_at_named_offsets_and_their_two_words() -> None:
    assert start_at(parse_offsets("o", '{"a":{"0":20,"1":-1}}')) == {A0: 20, A1: 7}
    assert start_at(parse_offsets("o", '{"a":{"0":-2,"1":3}}')) == {A0: 5, A1: 3}


def test_offset_json_names_every_partition_as_for_sparks_kafka_source() -> None:
    """Checklist row 87."""
    with pytest.raises(OptionError, match=r"every partition must be named \(-2 .* missing: a-0"):
        start_at(parse_offsets("startingOffsets", '{"a":{"1":3}}'))


def test_in_a_stored_offset_a_partition_that_came_later_starts_at_its_earliest_record() -> None:
    stored = '{"first":{},"offsets":{"a":{"1":3}},"topic_ids":{"a":"x"},"v":1}'

    assert start_at(parse_offsets("o", stored)) == {A0: 5, A1: 3}


STARTS = parse_offsets("startingOffsets", '{"a":{"0":9,"1":3}}')
ENDS = parse_offsets("endingOffsets", '{"a":{"0":8,"1":7}}')


def test_a_batch_that_ends_before_it_starts_is_refused_with_both_offsets() -> None:
    """Checklist row 87."""
    words = r"endingOffsets: a-0 ends at offset 8, before its start 9 \(startingOffsets\)"
    with pytest.raises(OptionError, match=words):
        check_order(STARTS, {A0: 9, A1: 3}, ENDS, {A0: 8, A1: 7})

    assert check_order(STARTS, {A0: 9, A1: 3}, ENDS, {A0: 9, A1: 7}) == {A0: 9, A1: 7}
    times = parse_timestamp("startingTimestamp", "9"), parse_timestamp("endingTimestamp", "5")
    with pytest.raises(OptionError, match="endingTimestamp: a-1 ends at offset 2"):
        check_order(times[0], {A0: 5, A1: 3}, times[1], {A0: 5, A1: 2})


def test_a_start_that_moved_because_records_are_gone_reads_nothing_there() -> None:
    up = parse_offsets("startingOffsets", '{"a":{"0":2,"1":3}}')
    assert check_order(up, {A0: 5, A1: 3}, ENDS, {A0: 4, A1: 7}) == {A0: 5, A1: 7}
    down = parse_offsets("startingOffsets", '{"a":{"0":25,"1":3}}')
    assert check_order(down, {A0: 20, A1: 3}, LATEST, {A0: 20, A1: 7}) == {A0: 20, A1: 7}


def test_a_named_offset_that_is_gone_is_data_loss_with_its_range() -> None:
    gone = parse_offsets("startingOffsets", '{"a":{"0":2,"1":0}}')

    with pytest.raises(DataLossError, match=r"a-0 cannot start at 2, offsets \[2, 5\) are gone"):
        start_at(gone)
    assert start_at(gone, fail=False) == {A0: 5, A1: 0}
    with pytest.raises(DataLossError, match="a-1 cannot start at 9, it ends at offset 7"):
        start_at(parse_offsets("o", '{"a":{"0":5,"1":9}}'))


def test_the_last_records_of_each_partition_are_counted_from_its_end() -> None:
    assert start_at(parse_offsets("o", "last 4")) == {A0: 16, A1: 3}
    assert start_at(parse_offsets("o", "Last 1000 records")) == {A0: 5, A1: 0}


def test_a_relative_time_is_a_timestamp_of_the_moment_and_no_record_since_is_the_end() -> None:
    ago = parse_offsets("startingOffsets", "10m ago")
    assert parse_timestamp("startingTimestamp", "600 s ago").ago_ms == ago.ago_ms == 600_000

    position = at_time(ago, 1_000_000)

    assert timestamp_queries(position, BOUNDS) == {A0: 400_000, A1: 400_000}
    assert start_at(position, a0=6, a1=-1) == {A0: 6, A1: 7}
    assert at_time(LATEST, 1_000_000) is LATEST


@pytest.mark.parametrize("text", ["ten minutes ago", "10 parsecs ago", "last few", "last -1"])
def test_a_relative_start_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets: expected"):
        parse_offsets("startingOffsets", text)


def group_start(
    committed: dict[TopicPartition, int],
    others: dict[TopicPartition, int] | None = None,
    *,
    fail: bool = True,
) -> dict[TopicPartition, int]:
    return resolve_group("g", committed, BOUNDS, others, fail_on_data_loss=fail)


def test_a_group_starts_where_it_committed_and_elsewhere_as_asked_for() -> None:
    assert group_start({A0: 9, A1: 2}) == {A0: 9, A1: 2}
    assert group_start({A0: 9}, {A0: 5, A1: 7}) == {A0: 9, A1: 7}


def test_a_group_without_offsets_is_refused_with_the_partitions() -> None:
    words = "startingGroup: group 'g' has committed no offset for a-0, a-1; set startingOffsets"
    with pytest.raises(OptionError, match=words):
        group_start({})


def test_offsets_of_a_group_that_are_gone_are_data_loss() -> None:
    with pytest.raises(DataLossError, match=r"startingGroup 'g': a-0 cannot start at 2, offsets"):
        group_start({A0: 2, A1: 2})
    with pytest.raises(DataLossError, match="a-1 cannot start at 99, it ends at offset 7"):
        group_start({A0: 9, A1: 99})
    assert group_start({A0: 2, A1: 99}, fail=False) == {A0: 5, A1: 7}


def test_a_named_partition_that_is_not_read_is_refused() -> None:
    with pytest.raises(OptionError, match="not among the partitions to read: b-0"):
        start_at(parse_offsets("o", '{"b":{"0":2}}'))


def test_start_by_timestamp_asks_for_each_partition() -> None:
    assert timestamp_queries(parse_timestamp("o", "77"), BOUNDS) == {A0: 77, A1: 77}
    per = parse_timestamps("o", '{"a":{"0":5,"1":6}}')
    assert timestamp_queries(per, BOUNDS) == {A0: 5, A1: 6}
    assert timestamp_queries(LATEST, BOUNDS) == {}
    with pytest.raises(OptionError, match="missing: a-1"):
        timestamp_queries(parse_timestamps("o", '{"a":{"0":5}}'), BOUNDS)


def test_no_record_that_late_is_an_error_or_the_end_by_strategy() -> None:
    position = parse_timestamp("startingTimestamp", "77")

    with pytest.raises(OptionError, match="no record that late in a-1"):
        start_at(position, a0=6, a1=-1)
    found = {A0: 6, A1: -1}
    start = resolve_start(position, BOUNDS, found, TO_LATEST, fail_on_data_loss=True)
    assert start == {A0: 6, A1: 7}


def test_ends_of_a_batch_read() -> None:
    assert resolve_end(LATEST, BOUNDS, {}) == {A0: 20, A1: 7}
    named = parse_offsets("endingOffsets", '{"a":{"0":9,"1":-1}}')
    assert resolve_end(named, BOUNDS, {}) == {A0: 9, A1: 7}
    at = parse_timestamp("endingTimestamp", "77")
    assert resolve_end(at, BOUNDS, {A0: 8, A1: -1}) == {A0: 8, A1: 7}
    with pytest.raises(OptionError, match="a-1 ends at offset 7, before 8"):
        resolve_end(parse_offsets("o", '{"a":{"0":9,"1":8}}'), BOUNDS, {})
    with pytest.raises(OptionError, match=r"must be named \(-1 is its latest\), missing: a-1"):
        resolve_end(parse_offsets("o", '{"a":{"0":9}}'), BOUNDS, {})


def test_losses_name_exact_ranges_and_reasons() -> None:
    """Checklist row 90."""
    start = TopicOffsets(
        ends={A0: 2, A1: 9, A10: 4, B0: 3}, first={}, topic_ids={"a": "x", "b": "y"}
    )

    losses = find_losses(start, {"a": "x", "b": "z"}, BOUNDS | {B0: Bounds(0, 50)})

    assert [(loss.partition, loss.start, loss.end, loss.reason) for loss in losses] == [
        (A0, 2, 5, Reason.RETENTION),
        (A1, 7, 9, Reason.TRUNCATED),
        (A10, 4, None, Reason.GONE),
        (B0, 3, None, Reason.RECREATED),
    ]
    assert "a-0 offsets [2, 5): the log starts after them" in str(data_loss_error(losses))


def test_nothing_is_lost_at_the_very_edges() -> None:
    start = TopicOffsets(ends={A0: 5, A1: 7}, first={}, topic_ids={"a": "x"})

    assert find_losses(start, {"a": "x"}, BOUNDS) == []

"""Which logs are worth cleaning, and which of their segments. Checklist row 38, with
test_batch_filter.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.cleaning import (
    GROUP_SEGMENTS_MAX,
    RELATIVE_OFFSET_MAX,
    Dirt,
    SegmentFacts,
    dirt_of,
    filthiest,
    groups,
    is_due,
)

NOW_MS = 1_000_000
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=100)


def segments(*sizes: int, newest_ms: int = 0, first_append_ms: int = 0) -> list[SegmentFacts]:
    """Of ten offsets each."""
    return [
        SegmentFacts(at * 10, at * 10 + 10, size, newest_ms, first_append_ms)
        for at, size in enumerate(sizes)
    ]


def dirt(
    full: list[SegmentFacts],
    config: LogConfig = COMPACT,
    *,
    start: int = 0,
    cleaned_to: int = 0,
    high_watermark: int = 10**6,
) -> Dirt | None:
    return dirt_of(
        full,
        config,
        now_ms=NOW_MS,
        log_start_offset=start,
        cleaned_to=cleaned_to,
        end_offset_max=high_watermark,
    )


def test_what_the_last_pass_did_not_come_to_is_dirty() -> None:
    found = dirt(segments(30, 30, 40), cleaned_to=20)

    assert found == Dirt(first_dirty=20, end=30, segments=3, ratio=0.4, is_overdue=False)


def test_segment_that_a_pass_came_half_through_is_dirty() -> None:
    found = dirt(segments(30, 30, 40), cleaned_to=15)

    assert found is not None
    assert (found.first_dirty, found.ratio) == (15, 0.7)


def test_nothing_is_dirty_where_all_is_clean_or_there_is_no_full_segment() -> None:
    assert dirt(segments(30, 30), cleaned_to=20) is None
    assert dirt([]) is None


def test_what_is_below_the_log_start_is_not_dirty() -> None:
    found = dirt(segments(50, 50), start=10)

    assert found is not None
    assert (found.first_dirty, found.ratio) == (10, 0.5)


@pytest.mark.parametrize(("high_watermark", "end"), [(30, 30), (29, 20), (20, 20)])
def test_nothing_is_cleaned_past_the_high_watermark(high_watermark: int, end: int) -> None:
    found = dirt(segments(30, 30, 40), high_watermark=high_watermark)

    assert found is not None
    assert found.end == end
    assert dirt(segments(30), high_watermark=9) is None


def test_records_stay_untouched_for_min_compaction_lag() -> None:
    full = segments(10, 10, 10, newest_ms=NOW_MS - 500)
    full[1] = full[1]._replace(newest_ms=NOW_MS - 499)
    lag = LogConfig(min_compaction_lag_ms=500)

    found = dirt(full, lag)

    assert found is not None
    assert (found.end, found.segments) == (10, 1)
    assert dirt(full, lag, cleaned_to=10) is None


def test_lag_holds_for_dirty_segments_only() -> None:
    """A clean one may have young records: they are cleaned again with what is behind them."""
    full = segments(10, 10, newest_ms=NOW_MS - 1_000)
    full[0] = full[0]._replace(newest_ms=NOW_MS)

    found = dirt(full, LogConfig(min_compaction_lag_ms=500), cleaned_to=10)

    assert found is not None
    assert found.end == 20


@pytest.mark.parametrize(("ratio", "due"), [(0.5, False), (0.51, True)])
def test_log_is_due_when_more_of_it_is_dirty_than_the_ratio(ratio: float, due: bool) -> None:
    found = Dirt(first_dirty=0, end=10, segments=1, ratio=ratio, is_overdue=False)

    assert is_due(found, LogConfig(min_cleanable_dirty_ratio=0.5)) is due


@pytest.mark.parametrize(("age_ms", "overdue"), [(700, True), (699, False)])
def test_log_is_overdue_when_something_was_dirty_for_max_compaction_lag(
    age_ms: int, overdue: bool
) -> None:
    config = LogConfig(max_compaction_lag_ms=700, min_cleanable_dirty_ratio=1.0)
    full = segments(90, 10, 10, first_append_ms=NOW_MS - age_ms)
    full[0] = full[0]._replace(first_append_ms=0)
    full[2] = full[2]._replace(first_append_ms=NOW_MS)

    found = dirt(full, config, cleaned_to=10)

    assert found is not None
    assert found.is_overdue is is_due(found, config) is overdue


def test_dirtiest_log_goes_first_and_an_overdue_one_before_it() -> None:
    def of(ratio: float, is_overdue: bool = False) -> Dirt:
        return Dirt(first_dirty=0, end=1, segments=1, ratio=ratio, is_overdue=is_overdue)

    assert filthiest([("a", of(0.6)), ("b", of(0.9)), ("c", of(0.7))]) == "b"
    assert filthiest([("a", of(0.2, True)), ("b", of(0.9)), ("c", of(0.1, True))]) == "a"
    assert filthiest([]) is None


def test_neighbours_that_fit_into_one_segment_are_cleaned_into_one() -> None:
    found = groups(segments(60, 40, 1, 100, 30, 30, 30, 30), COMPACT)

    assert found == [range(2), range(2, 3), range(3, 4), range(4, 7), range(7, 8)]


def test_not_too_many_are_cleaned_into_one() -> None:
    found = groups(segments(*[1] * 40), COMPACT)

    assert [len(group) for group in found] == [GROUP_SEGMENTS_MAX, GROUP_SEGMENTS_MAX, 8]


@given(
    st.lists(
        st.tuples(st.integers(1, 130), st.sampled_from((1, 10, 2**30))), min_size=0, max_size=60
    )
)
def test_groups_are_all_segments_in_order_within_the_limits(sizes: list[tuple[int, int]]) -> None:
    full, offset = [], 0
    for size, count in sizes:
        full.append(SegmentFacts(offset, offset + count, size, 0, 0))
        offset += count

    found = groups(full, COMPACT)

    assert [at for group in found for at in group] == list(range(len(full)))
    for group in found:
        assert 1 <= len(group) <= GROUP_SEGMENTS_MAX
        inside = [full[at] for at in group]
        if len(inside) > 1:
            assert sum(each.size_bytes for each in inside) <= COMPACT.segment_bytes
            assert inside[-1].end_offset - inside[0].base_offset <= RELATIVE_OFFSET_MAX

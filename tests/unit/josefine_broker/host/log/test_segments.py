"""The segments of a log in order, and which of them stay open for reads."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.host.log.segments import WARM_SEGMENTS_MAX, SegmentList


class Segment:
    """A segment by its base offset; counts how often it was cooled."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset, self.cooled = base_offset, 0

    def cool(self) -> None:
        self.cooled += 1


def list_of(*bases: int) -> tuple[SegmentList, list[Any]]:
    segments: list[Any] = [Segment(base) for base in bases]
    return SegmentList(segments), segments


def bases(segments: SegmentList) -> list[int]:
    assert segments.base_offsets == [each.base_offset for each in segments]
    return list(segments.base_offsets)


@given(st.sets(st.integers(0, 100), min_size=1), st.integers(0, 200))
def test_an_offset_is_in_the_last_segment_that_starts_at_or_before_it(starts, offset) -> None:
    segments, _ = list_of(*sorted(starts))

    place = segments.place_of(offset)

    assert place == sum(start <= offset for start in starts) - 1


def test_changes_keep_the_base_offsets_in_step() -> None:
    segments, _ = list_of(0, 10, 20, 30)

    segments.replace(1, 2, Segment(10))  # type: ignore[arg-type]
    assert bases(segments) == [0, 10, 30]
    segments.add(Segment(40))  # type: ignore[arg-type]
    assert segments.remove_at(0).base_offset == 0
    assert bases(segments) == [10, 30, 40]
    segments.begin_anew(Segment(99))  # type: ignore[arg-type]
    assert bases(segments) == [99]


def test_the_segments_that_were_read_last_stay_warm_and_others_cool_once() -> None:
    segments, made = list_of(*range(4))

    for place in (0, 1, 0, 2, 2, 3):
        segments.keep_warm(made[place], ())

    assert [each.cooled for each in made] == [1, 1, 0, 0]
    assert WARM_SEGMENTS_MAX == 2


def test_a_segment_whose_index_is_not_stored_does_not_cool() -> None:
    segments, made = list_of(0, 1, 2)

    for place in (0, 1, 2):
        segments.keep_warm(made[place], made[:1])

    assert [each.cooled for each in made] == [0, 0, 0]
    segments.keep_warm(made[1], ())
    assert [each.cooled for each in made] == [1, 0, 0]


def test_a_segment_that_is_gone_is_not_cooled_later() -> None:
    segments, made = list_of(0, 1, 2)
    segments.keep_warm(made[0], ())

    segments.remove_at(0)
    segments.keep_warm(made[1], ())
    segments.keep_warm(made[2], ())

    assert [each.cooled for each in made] == [0, 0, 0]

"""Failpoints: what JOSEFINE_FAIL may say and when it strikes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.base import failpoints


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm(None, None)


def test_a_place_is_armed_by_its_name_index_and_hit():
    failpoints.arm("mid_write@2", None)

    assert [failpoints.due("mid_write") for _ in range(3)] == [False, True, False]


def test_a_wrong_failpoint_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="after_offsets, before_commit, mid_write"):
        failpoints.arm("nowhere", None)


def test_unset_no_place_strikes():
    failpoints.arm(None, None)

    failpoints.hit("after_offsets")
    assert not failpoints.due("mid_write")

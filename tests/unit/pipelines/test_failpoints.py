"""Failpoints: what JOSEFINE_FAIL may say and when it strikes."""

from __future__ import annotations

import pytest

from pipelines.base import failpoints
from pipelines.base.failpoints import Failpoint


def test_a_failpoint_strikes_at_its_hit_and_index_only():
    point = Failpoint("mid_commit:2@2")

    visits = [("mid_commit", 2), ("mid_commit", 1), ("after_offsets", None), ("mid_commit", 2)]
    assert [point.reached(name, index) for name, index in visits] == [False, False, False, True]


@pytest.mark.parametrize("text", ["nowhere", "mid_commit:x", "mid_write@", "mid_write@0x"])
def test_a_wrong_failpoint_is_refused_with_the_known_ones(text):
    if text == "mid_write@":
        assert Failpoint(text).hits_left == 1
        return
    with pytest.raises(ValueError, match="after_offsets, before_commit, mid_write"):
        Failpoint(text)


def test_unset_no_place_strikes():
    failpoints.arm(None, None)

    failpoints.hit("after_offsets")
    assert not failpoints.due("mid_write")

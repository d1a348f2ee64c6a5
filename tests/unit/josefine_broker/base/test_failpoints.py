"""What JOSEFINE_FAIL may say, and which visit of a place is the last."""

from __future__ import annotations

import pytest

from josefine_broker.base.failpoints import Failpoint
from josefine_journal.failpoints import PLACES, armed

NAMES = ("before", "mid")


def test_a_failpoint_strikes_at_its_hit_and_index_only() -> None:
    point = Failpoint("mid:2@2", NAMES)

    visits = [("mid", 2), ("mid", 1), ("before", None), ("mid", None), ("mid", 2), ("mid", 2)]
    assert [point.reached(name, index) for name, index in visits] == [
        False, False, False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["mid", "mid@", "mid@1", "mid:@"])
def test_without_a_number_the_first_visit_of_any_instance_strikes(text: str) -> None:
    assert Failpoint(text, NAMES).reached("mid", 7)


@pytest.mark.parametrize("text", ["nowhere", "mid:x", "mid@0x", "mid:1:2", "@1", ":1"])
def test_a_wrong_failpoint_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"^JOSEFINE_FAIL=.*: not NAME.* one of before, mid$"):
        Failpoint(text, NAMES)


def test_places_without_instances_take_no_index() -> None:
    assert Failpoint("mid@2", NAMES, has_index=False).reached("mid") is False
    for text in ("mid:1", "mid:", "mid:1@2"):
        with pytest.raises(ValueError, match=r"not NAME\[@HIT\] with one of before, mid"):
            Failpoint(text, NAMES, has_index=False)
    with pytest.raises(ValueError, match="one of begun, read, "):
        armed("begun:1")


def test_a_replicator_dies_at_its_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, signal: killed.append(signal))
    at = armed("before_commit@2")

    for place in (*PLACES, "begun"):
        at(place)
    assert killed == []
    at("before_commit")
    assert killed == [9]
    armed(None)("before_commit")
    assert killed == [9]

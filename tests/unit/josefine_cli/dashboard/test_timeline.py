"""The timeline: what of two polls is an entry, of which kind, and from when."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_cli.dashboard.lag_history import GROUPS_MAX, STEP_MS, LagHistory
from josefine_cli.dashboard.timeline import ENTRIES_MAX, Timeline, kind_of


def block(id_: str, what: str = "create topic t", kind: str = "change", dead: bool = False) -> Any:
    return {"id": id_, "what": what, "kind": kind, "dead": dead}


def told(timeline: Timeline) -> list[tuple[int | None, str, str]]:
    return [(each["at_ms"], each["kind"], each["what"]) for each in timeline.newest(100)]


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("isr by broker 1: t-0 [1,2]", "in sync"),
        ("controller: broker 3 fenced, 2 partitions changed", "fencing"),
        ("controller: 2 partitions changed: t-0 leader 1", "election"),
        ("register broker 2 (port 9092)", "broker"),
        ("topic t gets 2 more partitions", "topic"),
        ("quotas: user alice: x=1", "access"),
        ("producer ids 0 to 999 for broker 1", "other"),
    ],
)
def test_a_block_is_an_entry_of_its_kind(what: str, kind: str) -> None:
    assert kind_of(block("1:1", what)) == kind


def test_blocks_that_were_there_first_have_no_time_and_new_ones_that_of_their_poll() -> None:
    timeline = Timeline()
    timeline.see_chain([block("1:1")], 100)
    timeline.see_chain([block("1:1"), block("2:2", "", "empty")], 200)

    assert told(timeline) == [
        (200, "election", "new controller in term 2"),
        (None, "topic", "create topic t"),
    ]


def test_block_that_dies_later_stays_and_is_marked() -> None:
    timeline = Timeline()
    timeline.see_chain([block("1:1"), block("1:2")], 100)
    timeline.see_chain([block("1:1"), block("1:2", dead=True), block("2:2")], 200)

    assert [(each["block"], each["dead"]) for each in timeline.newest(9)] == [
        ("2:2", False), ("1:2", True), ("1:1", False),
    ]  # fmt: skip


def test_broker_is_silent_only_after_it_has_answered() -> None:
    timeline = Timeline()
    timeline.see_brokers([1, 2], [1], 100)
    timeline.see_brokers([1, 2], [1, 2], 200)
    assert told(timeline) == []

    timeline.see_brokers([1, 2], [1], 300)
    timeline.see_brokers([], [], 400)
    timeline.see_brokers([1, 2], [1, 2], 500)

    assert told(timeline) == [
        (500, "broker", "broker 2 answers again"),
        (500, "broker", "broker 1 answers again"),
        (400, "broker", "broker 1 does not answer"),
        (300, "broker", "broker 2 does not answer"),
    ]


def test_repair_is_reported_at_each_step_and_not_ended_by_silence() -> None:
    damage = {"partition": "t-0", "segment": 4, "offset": 9, "reason": "bad checksum"}
    timeline = Timeline()
    timeline.see_repairs({1: {"damaged": [damage | {"state": "found"}]}}, 100)
    timeline.see_repairs({1: {"damaged": [damage | {"state": "found"}]}}, 200)
    timeline.see_repairs({}, 300)
    timeline.see_repairs({1: {"damaged": []}}, 400)

    assert told(timeline) == [
        (400, "repair", "t-0, broker 1: the segment at 4 is whole again"),
        (100, "repair", "t-0 at offset 9, broker 1: found, bad checksum"),
    ]


def test_number_of_entries_is_bounded() -> None:
    timeline = Timeline()
    timeline.see_chain([block(f"1:{number}") for number in range(ENTRIES_MAX + 9)], 100)

    newest = timeline.newest(10_000)
    assert len(newest) == ENTRIES_MAX
    assert newest[0]["block"] == f"1:{ENTRIES_MAX + 8}"


def test_lag_has_a_sample_for_each_step_and_groups_are_bounded() -> None:
    lags = LagHistory()
    for at_ms, lag in ((0, 5), (STEP_MS - 1, 6), (STEP_MS, 7)):
        lags.add("g", at_ms, lag)
    assert lags.of("g") == [(0, 5), (STEP_MS, 7)]

    for number in range(GROUPS_MAX):
        lags.add(f"other-{number}", 10 * STEP_MS, 0)
    assert lags.of("g") == []
    assert lags.of("other-0") == [(10 * STEP_MS, 0)]

"""A limit of the machine that lasts is a reason to hand over; one that passes soon is none."""

from __future__ import annotations

import pytest

from josefine_broker.engine.limits.lasting_limit import (
    FORGOTTEN_MS,
    NEXT,
    REFUSED_MS,
    RELAPSE_MS,
    WELL_MS,
    WELL_MS_MAX,
    Event,
    LastingLimit,
    State,
)

TP = ("t", 0)
QUOTA = "t-0: append failed: Disk quota exceeded"


def refuse(
    limit: LastingLimit, *at_ms: int, end_offset: int = 7, tp: tuple[str, int] = TP
) -> LastingLimit:
    for now_ms in at_ms:
        limit.refused(tp, end_offset, QUOTA, now_ms)
    return limit


def limited(at_ms: int = 0) -> LastingLimit:
    return refuse(LastingLimit(), at_ms, at_ms + 1_000, at_ms + REFUSED_MS)


def recover(limit: LastingLimit, now_ms: int) -> int:
    """Until it is free; returns when that was."""
    while limit.state is State.LIMITED:
        now_ms += 100
        if limit.is_probe_due(now_ms):
            limit.probed("", now_ms)
    return now_ms


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_each_event_ends_the_state_that_it_is_about_and_no_other(
    state: State, event: Event
) -> None:
    ends = {Event.REFUSED_FOR_LONG: State.FREE, Event.WELL_FOR_LONG: State.LIMITED}

    assert ((state, event) in NEXT) is (ends[event] is state)


def test_appends_that_are_refused_for_three_seconds_show_that_a_limit_lasts() -> None:
    limit = refuse(LastingLimit(), 0, 1_000, REFUSED_MS - 1)
    assert limit.state is State.FREE
    assert limit.reason == ""

    refuse(limit, REFUSED_MS)

    assert limit.state is State.LIMITED
    assert limit.reason == QUOTA


@pytest.mark.parametrize(
    "at_ms",
    [(0, REFUSED_MS), (0, FORGOTTEN_MS + 1, FORGOTTEN_MS + 2, FORGOTTEN_MS + 3)],
    ids=["two refusals", "far apart"],
)
def test_few_refusals_or_such_that_are_far_apart_show_nothing(at_ms: tuple[int, ...]) -> None:
    assert refuse(LastingLimit(), *at_ms).state is State.FREE


def test_log_that_took_a_batch_between_is_not_at_its_limit() -> None:
    limit = refuse(LastingLimit(), 0, 1_000, 2_000)

    refuse(limit, REFUSED_MS, REFUSED_MS + 1, end_offset=8)

    assert limit.state is State.FREE


def test_refusals_of_several_logs_are_not_added() -> None:
    limit = LastingLimit()

    for index in range(5):
        refuse(limit, index * 1_000, tp=("t", index))

    assert limit.state is State.FREE


def test_limit_has_passed_once_trial_writes_succeed_for_long_enough() -> None:
    limit = limited()
    assert not limit.is_probe_due(REFUSED_MS)
    assert limit.is_probe_due(REFUSED_MS + 1_000)

    end_ms = recover(limit, REFUSED_MS)

    assert REFUSED_MS + WELL_MS <= end_ms <= REFUSED_MS + WELL_MS + 2_100
    assert limit.reason == ""
    assert not limit.is_probe_due(end_ms + 10_000)


def test_trial_write_that_fails_begins_the_wait_anew_and_says_why() -> None:
    limit = limited()
    for now_ms in (4_000, 5_000, 8_900):
        limit.probed("", now_ms)
    limit.probed("a trial write failed: Too many open files", 8_950)
    assert "Too many open files" in limit.reason

    assert recover(limit, 8_950) >= 8_950 + WELL_MS


def test_each_relapse_doubles_the_wait_up_to_five_minutes() -> None:
    """Where a trial write fits and a record does not leaderships would move to and fro."""
    limit, now_ms, waits = limited(), REFUSED_MS, []
    for _ in range(9):
        free_ms = recover(limit, now_ms)
        waits.append(free_ms - now_ms)
        refuse(limit, free_ms, free_ms + 1_000, free_ms + REFUSED_MS)
        assert limit.state is State.LIMITED
        now_ms = free_ms + REFUSED_MS

    assert waits[0] < WELL_MS + 2_200 <= 2 * WELL_MS < waits[1] < waits[2]
    assert WELL_MS_MAX <= waits[-1] <= WELL_MS_MAX + 2_200


def test_limit_that_returns_much_later_is_a_new_one() -> None:
    limit = limited()
    start_ms = recover(limit, REFUSED_MS) + RELAPSE_MS

    refuse(limit, start_ms, start_ms + 1_000, start_ms + REFUSED_MS)

    assert recover(limit, start_ms + REFUSED_MS) - start_ms - REFUSED_MS < WELL_MS + 2_200

"""Timers: the earliest deadline is met, duties go on after a failure, nothing runs after stop."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.purgatory.purgatory import Parked, ParkedRequests
from josefine_broker.host.clock import RealClock
from josefine_broker.host.ticker import STEP_MS, Duty, Ticker
from tests.unit.josefine_broker.host.net.test_connection import on_uvloop
from tests.unit.josefine_broker.host.serving import Held, until


def test_each_deadline_is_met_whatever_was_armed_before() -> None:
    async def scenario() -> None:
        clock, parked = RealClock(), ParkedRequests()
        ticker = Ticker(clock, parked, (), lambda error: None)
        ticker.start()
        order: list[str] = []
        now_ms = clock.monotonic_ms()
        for text, wait_ms in (("never", 60_000), ("late", 40), ("early", 10)):
            held = Held(now_ms + wait_ms, text)
            held.on_done = lambda done: order.append(done.text)  # type: ignore[attr-defined]
            parked.park(held)
            ticker.arm()
        await until(lambda: len(order) == 2, "two expired")
        assert order == ["early", "late"]
        assert clock.monotonic_ms() >= now_ms + 40
        ticker.stop()
        assert len(parked) == 1

    on_uvloop(scenario)


def test_a_failed_duty_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    def run() -> None:
        runs.append(1)
        raise OSError("disk is full")

    async def scenario() -> None:
        ticker = Ticker(RealClock(), ParkedRequests(), (Duty("flush", 1, run),), lambda error: None)
        ticker.start()
        await until(lambda: len(runs) >= 3, "three runs")
        ticker.stop()

    with caplog.at_level(logging.ERROR):
        on_uvloop(scenario)
    assert {record.getMessage() for record in caplog.records} == {"duty failed"}
    assert vars(caplog.records[0])["duty"] == "flush"


def test_a_broken_invariant_of_a_duty_reaches_the_node() -> None:
    fatal: list[BaseException] = []

    def run() -> None:
        raise Fatal("wrong")

    async def scenario() -> None:
        ticker = Ticker(RealClock(), ParkedRequests(), (Duty("duty", 1, run),), fatal.append)
        ticker.start()
        await until(lambda: fatal, "told")
        ticker.stop()

    on_uvloop(scenario)
    assert str(fatal[0]) == "wrong"


def test_a_long_duty_is_done_in_steps_and_others_run_in_between() -> None:
    """20,000 partitions are many for one look."""
    order: list[str] = []
    clock = RealClock()

    def long() -> Iterator[None]:
        for at in range(5):
            until_ms = clock.monotonic_ms() + STEP_MS
            while clock.monotonic_ms() < until_ms:
                pass
            order.append(f"step {at}")
            yield None

    async def scenario() -> None:
        duties = (Duty("long", 1, long), Duty("short", 1, lambda: order.append("other")))
        ticker = Ticker(clock, ParkedRequests(), duties, lambda error: None)
        ticker.start()
        await until(lambda: order.count("step 4") >= 2, "done twice")
        ticker.stop()

    on_uvloop(scenario)
    steps = [each for each in order if each != "other"]
    assert steps[:10] == [f"step {at}" for at in range(5)] * 2
    between = "".join("." if each == "other" else "s" for each in order)
    assert "ss" not in between


def test_a_step_that_fails_ends_its_round_and_the_duty_runs_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs: list[int] = []

    def run() -> Iterator[None]:
        runs.append(1)
        yield None
        raise OSError("disk is full")

    async def scenario() -> None:
        ticker = Ticker(RealClock(), ParkedRequests(), (Duty("d", 1, run),), lambda error: None)
        ticker.start()
        await until(lambda: len(runs) >= 3, "three runs")
        ticker.stop()

    with caplog.at_level(logging.ERROR):
        on_uvloop(scenario)
    assert {record.getMessage() for record in caplog.records} == {"duty failed"}


class _Answered(Parked):
    """Completed by the test."""

    __slots__ = ()

    def expire(self, now_ms: int) -> None:
        self.complete("late")


def test_what_a_turn_completes_is_answered_at_its_end() -> None:
    async def main() -> None:
        parked, heard = ParkedRequests(), list[object]()
        ticker = Ticker(RealClock(), parked, (), heard.append)
        ticker.start()
        waiting = [_Answered(2**60), _Answered(2**60)]
        for each in waiting:
            parked.park(each)
            each.on_done = lambda done: heard.append(done.response)

        def work() -> None:
            for number, each in enumerate(waiting):
                each.complete(number)
            assert heard == []  # it may still be in the middle of a change

        ticker.answering(work)

        assert heard == [0, 1]
        ticker.stop()

    on_uvloop(main)


def test_what_a_failing_turn_completes_is_answered_too() -> None:
    async def main() -> None:
        parked, heard = ParkedRequests(), list[object]()
        ticker = Ticker(RealClock(), parked, (), heard.append)
        ticker.start()
        waiting = _Answered(2**60)
        parked.park(waiting)
        waiting.on_done = lambda done: heard.append(done.response)

        def work() -> None:
            waiting.complete("done")
            raise ValueError("the rest of the turn")

        with pytest.raises(ValueError, match="the rest"):
            ticker.answering(work)

        assert heard == ["done"]
        ticker.stop()

    on_uvloop(main)

"""A broken invariant stops the broker wherever on the event loop it is noticed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from josefine_broker.base.errors import Fatal
from josefine_broker.host.escaped_errors import FirstFailure, stop_on_broken_invariants
from tests.unit.josefine_broker.host.net.test_connection import on_uvloop
from tests.unit.josefine_broker.host.serving import until


def raises(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("where", ["callback", "timer", "task"])
def test_broken_invariant_in_a_callback_or_a_forgotten_task_is_told(where: str) -> None:
    fatal: list[BaseException] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stop_on_broken_invariants(loop, fatal.append)
        broken = Fatal("a rule is broken")

        async def work() -> None:
            raises(broken)

        if where == "callback":
            loop.call_soon(raises, broken)
        elif where == "timer":
            loop.call_later(0.001, raises, broken)
        else:
            tasks = {loop.create_task(work())}
            await asyncio.wait(tasks)
            tasks.clear()  # nobody asked it how it ended
        await until(lambda: fatal, "the broker hears of it")
        assert fatal == [broken]

    on_uvloop(scenario)


def test_any_other_error_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    fatal: list[BaseException] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stop_on_broken_invariants(loop, fatal.append)
        loop.call_soon(raises, OSError("disk is full"))
        await until(lambda: caplog.records, "it is logged")

    with caplog.at_level(logging.ERROR):
        on_uvloop(scenario)
    assert fatal == []
    (record,) = caplog.records
    assert record.exc_info is not None


def test_only_the_first_failure_is_kept_and_stops_the_broker() -> None:
    stops: list[str] = []
    failure = FirstFailure(lambda: stops.append("stop"))
    first = Fatal("the first")

    failure.note(first)
    failure.note(Fatal("follows from it"))

    assert failure.error is first
    assert stops == ["stop"]

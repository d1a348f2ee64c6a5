"""The thread beside the event loop: one job at a time, a bounded number, results at home."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.host import worker
from josefine_broker.host.worker import Breathe, Worker
from tests.support.waiting import wait_until_async


def yes() -> bool:
    return True


class Held:
    """A job that begins, breathes, and ends when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.free = threading.Event()

    def __call__(self, breathe: Breathe) -> str:
        self.begun.set()
        while not self.free.is_set():
            breathe()
        return threading.current_thread().name


async def with_worker(test: Callable[[Worker, list[BaseException]], Any]) -> None:
    fatal: list[BaseException] = []
    each = Worker(fatal.append)
    try:
        await test(each, fatal)
    finally:
        await each.stop()


def test_jobs_run_in_order_elsewhere_and_their_results_come_back_on_the_loop() -> None:
    async def test(each: Worker, _: object) -> None:
        home = threading.current_thread().name
        told: list[tuple[object, str]] = []

        def tell(result: object) -> None:
            told.append((result, threading.current_thread().name))

        first = Held()
        each.submit(first, yes, tell)
        each.submit(lambda _: first.free.is_set(), yes, tell)
        first.free.set()
        await wait_until_async(lambda: len(told) == 2, 60, "both results")

        (ran_at, told_at), (after_first, told_at_too) = told
        assert ran_at != home
        assert after_first is True
        assert told_at == told_at_too == home

    asyncio.run(with_worker(test))


def test_more_than_may_wait_is_refused_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "JOBS_MAX", 2)

    async def test(each: Worker, _: object) -> None:
        told: list[object] = []
        held = Held()
        each.submit(held, yes, told.append)
        each.submit(lambda _: 1, yes, told.append)

        with pytest.raises(KafkaError) as caught:
            each.submit(lambda _: 2, yes, told.append)
        assert caught.value.code is ErrorCode.request_timed_out

        held.free.set()
        await wait_until_async(lambda: len(told) == 2, 60, "room")
        each.submit(lambda _: 3, yes, told.append)
        await wait_until_async(lambda: told[1:] == [1, 3], 60, "what came again")

    asyncio.run(with_worker(test))


def test_a_job_ends_at_its_next_breath_when_nobody_wants_it() -> None:
    async def test(each: Worker, _: object) -> None:
        wanted, told = [True], []
        held = Held()
        each.submit(held, lambda: wanted[0], told.append)
        await asyncio.to_thread(held.begun.wait, 60)
        assert told == []

        wanted[0] = False

        await wait_until_async(lambda: told == [None], 60, "its end")

    asyncio.run(with_worker(test))


def test_a_stop_ends_what_is_being_done_and_begins_nothing_more() -> None:
    begun: list[int] = []

    async def test(each: Worker, _: object) -> None:
        held = Held()
        each.submit(held, yes, lambda _: None)
        each.submit(lambda _: begun.append(2), yes, lambda _: None)
        await asyncio.to_thread(held.begun.wait, 60)
        asyncio.get_running_loop().call_later(60, held.free.set)  # or a failure would never end

        await each.stop()

        assert not held.free.is_set()
        with pytest.raises(KafkaError):
            each.submit(lambda _: begun.append(3), yes, lambda _: None)

    asyncio.run(with_worker(test))
    assert begun == []


def test_an_error_is_no_result_and_a_broken_invariant_reaches_the_node() -> None:
    def fails(_: Breathe) -> None:
        raise ValueError("no")

    def breaks(_: Breathe) -> None:
        raise Fatal("broken")

    async def test(each: Worker, fatal: list[BaseException]) -> None:
        told: list[object] = []
        each.submit(fails, yes, told.append)
        each.submit(breaks, yes, told.append)
        await wait_until_async(lambda: bool(fatal), 60, "the node to hear")
        assert told == [None]

    asyncio.run(with_worker(test))


def test_job_may_ask_the_loop_and_hears_what_it_raises() -> None:
    async def test(each: Worker, fatal: list[BaseException]) -> None:
        home = threading.current_thread().name
        told: list[object] = []

        def refuse() -> None:
            raise KafkaError(ErrorCode.kafka_storage_error, "the log failed")

        def job(_: Breathe) -> tuple[str, str]:
            asked = each.on_loop(lambda: threading.current_thread().name)
            try:
                each.on_loop(refuse)
            except KafkaError as error:
                return asked, error.message
            return asked, ""

        each.submit(job, yes, told.append)
        await wait_until_async(lambda: bool(told), 60, "the job")

        assert told == [(home, "the log failed")]
        assert fatal == []

    asyncio.run(with_worker(test))

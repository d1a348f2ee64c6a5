"""A bounded number of readers: who gets one, who waits, who is told, which is closed."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from josefine_journal.errors import ReadersBusy
from josefine_journal.pool import Caller, Limits, Pool, Reader, readers_max
from josefine_journal.readers import Readers
from tests.support.waiting import wait_until_async

WAIT_S = 60.0


@pytest.mark.parametrize(
    ("multiplier", "cores", "most"),
    [(10, 4, 40), (0.5, 4, 2), (0.1, 4, 1), (0, 1, 1), (1.5, 1, 2), (-3, 2, 1)],
)
def test_readers_are_a_multiple_of_the_cores_and_one_at_least(
    multiplier: float, cores: int, most: int
) -> None:
    """Checklist row 71."""
    assert readers_max(multiplier, cores) == most


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("ask", "ask", "give", "give", "leave", "late", "idle")), st.integers(0, 9)
    ),
    max_size=60,
)


@given(most=st.integers(1, 3), steps=STEPS)
@example(most=2, steps=[("ask", 0), ("ask", 0), ("give", 0), ("give", 5), ("ask", 0)])
def test_nobody_waits_while_a_reader_is_idle_nor_longer_than_is_said(
    most: int, steps: list[tuple[str, int]]
) -> None:
    """Checklist row 71. In any order of calls, a step of the clock before each."""
    pool = Pool(Limits(readers_max=most, idle_ms=20, wait_ms=10))
    now_ms = callers = 0
    busy: set[Reader] = set()
    idle: dict[Reader, int] = {}
    waiting: dict[Caller, int] = {}
    for kind, number in steps:
        now_ms += number
        if kind == "ask":
            callers += 1
            reader = pool.ask(Caller(callers), now_ms)
            if reader is None:
                assert not idle
                assert len(busy) == most
                waiting[Caller(callers)] = now_ms + 10
            else:
                assert reader not in busy
                since_ms = max(idle.values(), default=None)
                assert since_ms == idle.pop(reader, None)  # the one that was used last
                busy.add(reader)
        elif kind == "give" and busy:
            reader = sorted(busy)[number % len(busy)]
            caller = pool.give_back(reader, now_ms)
            assert caller == min(waiting, default=None)
            if caller is None:
                busy.remove(reader)
                idle[reader] = now_ms
            else:
                del waiting[caller]
        elif kind == "leave" and waiting:
            gone = sorted(waiting)[number % len(waiting)]
            pool.leave(gone)
            del waiting[gone]
        elif kind == "late":
            assert pool.late(now_ms) == [c for c, until_ms in waiting.items() if until_ms <= now_ms]
            waiting = {c: until_ms for c, until_ms in waiting.items() if until_ms > now_ms}
        elif kind == "idle":
            assert set(pool.idle(now_ms)) == {r for r, at in idle.items() if at + 20 <= now_ms}
            idle = {r: at for r, at in idle.items() if at + 20 > now_ms}
        assert pool.size == len(busy) + len(idle) <= most
        times = [*waiting.values(), *(at + 20 for at in idle.values())]
        assert pool.next_ms() == min(times, default=None)


class Client:
    """As far as a pool knows one."""

    def __init__(self, opened: list["Client"]) -> None:
        self.is_closed = False
        opened.append(self)

    async def close(self) -> None:
        self.is_closed = True


def readers(opened: list[Client], **options: Any) -> Readers:
    return Readers(lambda: Client(opened), cores=1, **options)  # type: ignore[arg-type,return-value]


def test_who_waits_too_long_is_told_and_who_is_cancelled_leaves_its_turn() -> None:
    """Checklist row 71."""

    async def run() -> None:
        opened: list[Client] = []
        pool = readers(opened, multiplier=2, wait_ms=60_000)
        hold, got = asyncio.Event(), 0

        async def use() -> None:
            nonlocal got
            async with pool.reader():
                got += 1
                await hold.wait()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(use()) for _ in range(6)]
            await wait_until_async(lambda: got == 2, WAIT_S, "two that have one")
            tasks[2].cancel()
            hold.set()
        assert (got, len(opened), pool.size) == (5, 2, 2)
        await pool.close()
        assert all(each.is_closed for each in opened)

        pool, opened = readers(opened, multiplier=1, wait_ms=5), []
        told = "no reader was free within 0.005 s: all 1 are at work"
        async with pool.reader():
            with pytest.raises(ReadersBusy, match=told):
                await pool._taken()
        async with pool.reader():
            pass
        await pool.close()

    asyncio.run(run())


def test_a_turn_that_comes_as_its_caller_is_cancelled_is_the_next_ones() -> None:
    """Checklist row 71. Before or after its caller could hear of either."""

    async def run(cancels_first: bool) -> None:
        pool = readers([], multiplier=1)
        first = await pool._taken()
        waiting = [asyncio.ensure_future(pool._taken()) for _ in range(2)]
        await asyncio.wait(waiting, timeout=0)
        if cancels_first:
            waiting[0].cancel()
        pool._give_back(first)
        waiting[0].cancel()
        assert await waiting[1] == first
        assert waiting[0].cancelled()
        pool._give_back(first)
        await pool.close()

    asyncio.run(run(cancels_first=True))
    asyncio.run(run(cancels_first=False))


def test_an_idle_reader_is_closed() -> None:
    """Checklist row 71. And the next one is another one."""

    async def run() -> None:
        opened: list[Client] = []
        pool = readers(opened, multiplier=1, idle_ms=5)
        async with pool.reader() as one:
            pass
        await wait_until_async(lambda: opened[0].is_closed, WAIT_S, "the idle one to be closed")
        assert pool.size == 0
        async with pool.reader() as other:
            assert other is not one
        await pool.close()
        assert [each.is_closed for each in opened] == [True, True]

    asyncio.run(run())

"""An alarm rings once, at the time that it was set for last."""

import asyncio
from collections.abc import Callable

from josefine_broker.host.alarm import Alarm
from josefine_broker.host.clock import RealClock
from tests.support.waiting import wait_until_async

NEVER_MS = 3_600_000


class Bell:
    """When the alarm rang, as far as its clock says."""

    def __init__(self, on_ring: Callable[[], None] = lambda: None) -> None:
        self.clock = RealClock()
        self.rang_ms: list[int] = []
        self.alarm = Alarm(self.clock, self._ring)
        self._on_ring = on_ring

    def _ring(self) -> None:
        self.rang_ms.append(self.clock.monotonic_ms())
        self._on_ring()

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    async def wait(self, times: int = 1) -> None:
        await wait_until_async(lambda: len(self.rang_ms) >= times, 10, "the alarm")


def test_it_rings_once_and_is_not_set_any_more() -> None:
    async def scenario() -> None:
        bell, later = Bell(), Bell()
        at_ms = bell.now_ms() + 20

        bell.alarm.set(at_ms)
        later.alarm.set(at_ms + 40)

        await later.wait()
        assert len(bell.rang_ms) == 1
        assert bell.rang_ms[0] >= at_ms - 1  # the loop's clock and ours round differently
        assert bell.alarm.at_ms is None

    asyncio.run(scenario())


def test_the_last_setting_counts_earlier_or_later_or_none() -> None:
    async def scenario() -> None:
        earlier, later, none, end = Bell(), Bell(), Bell(), Bell()
        now_ms = end.now_ms()
        earlier.alarm.set(now_ms + NEVER_MS)
        earlier.alarm.set(now_ms + 10)
        later.alarm.set(now_ms + 10)
        later.alarm.set(now_ms + NEVER_MS)
        none.alarm.set(now_ms + 10)
        none.alarm.set(None)

        end.alarm.set(now_ms + 40)

        await end.wait()
        await earlier.wait()
        assert (later.rang_ms, none.rang_ms) == ([], [])
        later.alarm.set(None)

    asyncio.run(scenario())


def test_a_time_that_is_over_rings_soon_but_never_at_once() -> None:
    async def scenario() -> None:
        def again() -> None:
            if len(bell.rang_ms) < 3:
                bell.alarm.set(bell.now_ms() - 5)

        bell = Bell(on_ring=again)

        bell.alarm.set(bell.now_ms() - 5)

        assert bell.rang_ms == []
        await bell.wait(3)
        assert bell.rang_ms[0] < bell.rang_ms[1] < bell.rang_ms[2]

    asyncio.run(scenario())

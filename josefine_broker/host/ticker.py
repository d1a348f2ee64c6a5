"""Timers of the broker: one for the parked requests, one for each periodic duty, and event loop
turns for the parked requests that are completed.

The parked timer is set for the earliest deadline only, so an idle broker does not wake up. A
completed request is answered at the end of the turn's work (`answering`), or in the loop's next
turn, together with all others completed in this one: never by the code that completed it, because
an answer makes a connection serve its next request. A failed periodic duty is logged and runs
again; `Fatal` goes to the node, which stops. A duty may be an iterator over a long task, with
places where other work may run: it is suspended there once it has used `STEP_MS`, and continued a
moment later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from josefine_broker.base.errors import Fatal
from josefine_broker.base.ports import Clock
from josefine_broker.engine.purgatory.purgatory import ParkedRequests
from josefine_broker.host.alarm import Alarm

log = logging.getLogger(__name__)

STEP_MS = 3
PAUSE_SECONDS = 0.01
"""Pause between two steps: a duty takes a quarter of the loop's time at most."""

Work = Iterator[object] | None


@dataclass(frozen=True, slots=True)
class Duty:
    """Work done every `interval_ms`, on the event loop: it must be short, or an iterator of short
    steps; its duration adds to the interval."""

    name: str
    interval_ms: int
    run: Callable[[], Work]


class Ticker:
    """Owns the timers of a broker."""

    def __init__(
        self,
        clock: Clock,
        parked: ParkedRequests,
        duties: tuple[Duty, ...],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._clock = clock
        self._parked = parked
        self._duties = duties
        self._on_fatal = on_fatal
        self._alarm = Alarm(clock, self._expire)
        self._duty_timers: dict[str, asyncio.TimerHandle] = {}
        self._running = False
        self._is_held = False
        self.late_seconds = 0.0
        """Total lateness of duties: it measures how long work waits for the thread."""
        self.wakes = 0

    def start(self) -> None:
        self._running = True
        self._parked.on_completed = self._answer_soon
        if self._parked.has_completed:
            self._answer_soon()
        for duty in self._duties:
            self._schedule(duty)
        self.arm()

    def stop(self) -> None:
        self._running = False
        self._alarm.set(None)
        for timer in self._duty_timers.values():
            timer.cancel()
        self._duty_timers.clear()

    def arm(self, parked_until_ms: int | None = None) -> None:
        """Set the alarm for the earliest deadline. Called after each parking, with the deadline if
        that is at hand."""
        set_for_ms = self._alarm.at_ms
        if parked_until_ms is not None and set_for_ms is not None and set_for_ms <= parked_until_ms:
            return
        deadline_ms = self._parked.next_deadline_ms()
        if deadline_ms is None or not self._running:
            return
        if set_for_ms is None or deadline_ms < set_for_ms:
            self._alarm.set(deadline_ms)

    def answering(self, work: Callable[[], None]) -> None:
        """Do the work of a turn of the loop, and answer at its end what it has completed: nothing
        else is in progress then, so the next turn is not needed."""
        self._is_held = True
        try:
            work()
        finally:
            self._is_held = False
            if self._parked.has_completed and self._running:
                self._answer()

    def _answer_soon(self) -> None:
        if self._running and not self._is_held:
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._guarded("completed requests", self._parked.run_completed)
        if self._parked.has_completed:  # one failed: the others are still answered
            self._answer_soon()
        self.arm()

    def _expire(self) -> None:
        self._guarded("parked requests", self._tick)
        self.arm()

    def _tick(self) -> None:
        self._parked.tick(self._clock.monotonic_ms())

    def _schedule(self, duty: Duty) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + duty.interval_ms / 1_000
        self._duty_timers[duty.name] = loop.call_at(due_s, self._begin, duty, due_s)

    def _begin(self, duty: Duty, due_s: float) -> None:
        self.late_seconds += max(0.0, asyncio.get_running_loop().time() - due_s)
        self.wakes += 1
        self._perform(duty)

    def _perform(self, duty: Duty, begun: Work = None) -> None:
        left = self._guarded(duty.name, lambda: self._advance(duty, begun))
        if not self._running:
            return
        if left is None:
            self._schedule(duty)
        else:
            loop = asyncio.get_running_loop()
            self._duty_timers[duty.name] = loop.call_later(PAUSE_SECONDS, self._perform, duty, left)
        self.arm()

    def _advance(self, duty: Duty, begun: Work) -> Work:
        """The remaining work of the duty."""
        work = duty.run() if begun is None else begun
        if work is None:
            return None
        until_ms = self._clock.monotonic_ms() + STEP_MS
        for _ in work:
            if self._clock.monotonic_ms() >= until_ms:
                return work
        return None

    def _guarded(self, name: str, run: Callable[[], Work]) -> Work:
        try:
            return run()
        except Fatal as error:
            self._on_fatal(error)
        except Exception:
            log.exception("duty failed", extra={"duty": name})
        return None

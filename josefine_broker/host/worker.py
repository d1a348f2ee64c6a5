"""A thread for work on record contents, so that the event loop does not wait for it.

Rules: jobs run one after another; the queue is bounded; results return on the loop. A job that runs
Python holds the interpreter: about every millisecond it breathes, which lets the loop run first,
and ends there when its result is no longer wanted or the broker stops.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError

JOBS_MAX = 1_000
"""Jobs waiting for the thread; above that the client is asked to retry."""

BREATH_SECONDS = 0.000_5
"""Long enough for the loop's thread to wake up and take the interpreter."""

T = TypeVar("T")
Breathe = Callable[[], None]

log = logging.getLogger(__name__)


class Worker:
    """Implements `engine.ports.WorkPort`. Created on the loop it reports to."""

    def __init__(
        self, on_fatal: Callable[[BaseException], None], thread_name: str = "records"
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_fatal = on_fatal
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=thread_name)
        self._waiting = 0
        self._is_stopping = False

    def submit(
        self,
        job: Callable[[Breathe], T],
        is_wanted: Callable[[], bool],
        done: Callable[[T | None], None],
    ) -> None:
        """See WorkPort."""
        if self._waiting >= JOBS_MAX or self._is_stopping:
            raise KafkaError(ErrorCode.request_timed_out, f"{self._waiting} lookups are waiting")
        self._waiting += 1
        future = self._pool.submit(self._begin, job, is_wanted)
        future.add_done_callback(
            lambda future: self._loop.call_soon_threadsafe(self._finish, future, done)
        )

    def _begin(self, job: Callable[[Breathe], T], is_wanted: Callable[[], bool]) -> T:
        self._check_wanted(
            is_wanted
        )  # a stopping broker may free the thread before it cancels the rest
        return job(partial(self._breathe, is_wanted))

    def on_loop(self, ask: Callable[[], T]) -> T:
        """From within a job: run this on the loop and wait for it. Raises its error."""

        async def answer() -> T:
            return ask()

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result()

    def _breathe(self, is_wanted: Callable[[], bool]) -> None:
        self._check_wanted(is_wanted)
        time.sleep(BREATH_SECONDS)

    def _check_wanted(self, is_wanted: Callable[[], bool]) -> None:
        if self._is_stopping or not is_wanted():
            raise KafkaError(ErrorCode.request_timed_out, "nobody waits for it any more")

    def _finish(self, future: Future[T], done: Callable[[T | None], None]) -> None:
        self._waiting -= 1
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Fatal):
            self._on_fatal(error)
        elif error is not None:
            log.error("work failed", exc_info=error)
            done(None)
        else:
            done(future.result())

    async def stop(self) -> None:
        """End the running job at its next breath; do not start the rest."""
        self._is_stopping = True
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

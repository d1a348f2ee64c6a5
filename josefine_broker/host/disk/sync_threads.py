"""Threads of Python that sync logs for group commit, outside the event loop: those syncs that the
compiled threads (`sync_pipes.py`) do not make.

Several syncs together cost a journaling file system hardly more than one, so a few threads run them
concurrently. Results return to the loop in one turn for all syncs finished by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from josefine_broker.host.disk.flusher import Job, run_now

THREADS = 4
"""A thousand logs with one new batch each took as long with 16: then the disk is the limit."""


class SyncThreads:
    """Runs jobs on threads; `done` of each is called on the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_error: Callable[[BaseException], None]
    ) -> None:
        """`on_error` is called with the error of a failed job, on the job's thread."""
        self._loop = loop
        self._on_error = on_error
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="sync")
        self._finished: list[Callable[[], None]] = []
        self._lock = Lock()
        """Guards `_finished`."""
        self._is_stopped = False
        self.within: Callable[[Job], None] = run_now
        """Calls a function with all that follows from the results of one turn."""

    def submit(self, job: Job, done: Callable[[], None], afterwards: Job) -> None:
        """Run `job` soon, then `done` on the loop and `afterwards` on the thread. Nothing runs
        after `stop` has started: closing the logs syncs them."""
        if not self._is_stopped:
            self._pool.submit(self._run, job, done, afterwards)

    def _run(self, job: Job, done: Callable[[], None], afterwards: Job) -> None:
        self._try(job)
        with self._lock:
            is_first = not self._finished
            self._finished.append(done)
        if is_first:  # wake the loop once for all jobs that finish before it runs
            self._loop.call_soon_threadsafe(lambda: self.within(self._take))
        self._try(afterwards)

    def _try(self, job: Job) -> None:
        try:
            job()
        except BaseException as error:
            self._on_error(error)

    def _take(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, []
        for done in finished:
            done()

    def stop(self) -> None:
        """Wait for every submitted sync. Not to be called on the loop's thread."""
        self._is_stopped = True
        self._pool.shutdown(wait=True)

"""The threads that sync logs for group commit, beside the event loop.

Syncs of several files together cost a journaling file system hardly more than one, so a few threads
run them side by side. Their results return to the loop in one turn for all that finished meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from josefine_broker.host.disk.flusher import Job

THREADS = 4
"""A thousand logs with one new batch each took as long with 16: the disk is the bound then."""


class SyncThreads:
    """Runs jobs on threads; `done` of each is called on the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_error: Callable[[BaseException], None]
    ) -> None:
        """`on_error` hears of a job that raised, on the job's thread."""
        self._loop = loop
        self._on_error = on_error
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="sync")
        self._finished: list[Callable[[], None]] = []
        self._lock = Lock()
        """Held for `_finished`."""
        self._is_stopped = False

    def submit(self, job: Job, done: Callable[[], None], behind: Job) -> None:
        """Run `job` soon, then `done` on the loop and `behind` on the thread; nothing after `stop`
        has begun: the logs are about to be closed, which syncs them."""
        if not self._is_stopped:
            self._pool.submit(self._run, job, done, behind)

    def _run(self, job: Job, done: Callable[[], None], behind: Job) -> None:
        self._try(job)
        with self._lock:
            is_first = not self._finished
            self._finished.append(done)
        if is_first:  # the loop is woken once for all that finish until it comes to them
            self._loop.call_soon_threadsafe(self._take)
        self._try(behind)

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
        """Wait for every sync that was submitted. On another thread than the loop's."""
        self._is_stopped = True
        self._pool.shutdown(wait=True)

"""The flusher: one thread for slow disk work that runs jobs one after another, in order."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore

Job = Callable[[], None]

JOBS_MAX = 256
"""Disk jobs waiting for the flusher; beyond that `submit` blocks, which slows producers down."""


def _nothing() -> None:
    """The default callback, which does nothing."""


def run_now(job: Job) -> None:
    """The scheduler of tests, tools and simulation: disk work is done at once."""
    job()


class Flusher:
    """Runs disk jobs one after another on its own thread."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        """`on_error` is called with the error of a failed job, on the flusher's thread."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flusher")
        self._room = Semaphore(JOBS_MAX)
        self._on_error = on_error
        self.before_wait: Job = _nothing
        """Called before `submit` blocks, on its thread: the job that runs may wait for a lock which
        only this thread can free (`host/log/sync_lock.py`)."""

    def submit(self, job: Job) -> None:
        """Run `job` soon; blocks while too many jobs wait."""
        if not self._room.acquire(blocking=False):
            self.before_wait()
            self._room.acquire()
        self._pool.submit(job).add_done_callback(self._done)

    def _done(self, future: "Future[None]") -> None:
        self._room.release()
        error = future.exception()
        if error is not None:
            self._on_error(error)

    def stop(self) -> None:
        """Finish every submitted job."""
        self._pool.shutdown(wait=True)

"""The one thread that does the slow part of the disk's work: jobs, one after another, in order."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore

Job = Callable[[], None]

JOBS_MAX = 256
"""Disk jobs waiting for the flusher; past that the caller waits, which slows producers down."""


def run_now(job: Job) -> None:
    """The scheduler of tests, tools and simulation: disk work is done at once."""
    job()


class Flusher:
    """Runs disk jobs one after another on a thread of its own."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        """`on_error` hears of a job that raised, on the flusher's thread."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flusher")
        self._room = Semaphore(JOBS_MAX)
        self._on_error = on_error

    def submit(self, job: Job) -> None:
        """Run `job` soon; waits while too many are waiting."""
        self._room.acquire()
        self._pool.submit(job).add_done_callback(self._done)

    def _done(self, future: "Future[None]") -> None:
        self._room.release()
        error = future.exception()
        if error is not None:
            self._on_error(error)

    def stop(self) -> None:
        """Finish every job that was submitted."""
        self._pool.shutdown(wait=True)

"""When a log is made durable, and the one thread that does the slow part.

Rules: `flush.messages` syncs within the append; `flush.ms` and the sealing of full segments run on
the flusher's thread, in order. A failed sync is remembered for good: after it the kernel may have
dropped dirty pages and reported them clean, so no later sync proves anything (fsyncgate, 2018).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Semaphore

from josefine_broker.core.log_config import LogConfig
from josefine_broker.shell.segment import Segment

Job = Callable[[], None]

JOBS_MAX = 256
"""Disk jobs waiting for the flusher; past that the caller waits, which slows producers down."""


def run_now(job: Job) -> None:
    """The scheduler of tests, tools and simulation: disk work is done at once."""
    job()


class FlushState:
    """What of one log is not durable yet. The only mutable state shared with the flusher."""

    __slots__ = (
        "directory_dirty", "failure", "first_unflushed_ms", "lock", "sealing", "unflushed_messages",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lock = Lock()
        """Held while segment files are synced, cut or closed."""
        self.sealing: list[Segment] = []
        """Full segments whose sync is still to come, oldest first."""
        self.directory_dirty = True
        self.unflushed_messages = 0
        self.first_unflushed_ms = 0
        self.failure = ""

    def appended(self, messages: int, now_ms: int) -> None:
        if self.unflushed_messages == 0:
            self.first_unflushed_ms = now_ms
        self.unflushed_messages += messages

    def is_due(self, config: LogConfig, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a sync now."""
        if self.unflushed_messages == 0:
            return False
        if config.flush_messages is not None and self.unflushed_messages >= config.flush_messages:
            return True
        return config.flush_ms is not None and now_ms - self.first_unflushed_ms >= config.flush_ms


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

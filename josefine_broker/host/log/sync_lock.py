"""The lock of a log's syncs, which a syncer may hold without a thread of Python.

Rules: a syncer's sync holds the lock from its start to its end, both on the log's own thread. That
thread may need the lock meanwhile, for a cut or to close the log: it then waits for the sync, which
ends within this wait. A log that is removed does not: it is closed at the end of its sync. Other
threads wait for the lock as for any other, and a syncer leaves it to them: its own thread would
take it for one sync after another before they are awake.
"""

from __future__ import annotations

from threading import Lock

from josefine_broker.host.disk.flusher import Job


class SyncLock:
    """See the module."""

    __slots__ = ("_lock", "_then", "_waiting", "wait")

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[None] = []
        """An entry for each thread that waits: its methods need no lock of their own."""
        self._then: Job | None = None
        """Of `when_free`."""
        self.wait: Job | None = None
        """Waits for the syncer that holds the lock."""

    def __enter__(self) -> None:
        wait = self.wait
        if wait is not None:
            wait()
        if self._lock.acquire(blocking=False):
            return
        self._waiting.append(None)
        try:
            self._lock.acquire()
        finally:
            self._waiting.pop()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def is_wanted(self) -> bool:
        """Whether a thread waits for it."""
        return bool(self._waiting)

    def take(self) -> bool:
        """Take it for a syncer; False: somebody has it, or waits for it."""
        return not self._waiting and self._lock.acquire(blocking=False)

    def free(self) -> None:
        """The syncer is done, or was not used."""
        self.wait = None
        self._lock.release()
        then, self._then = self._then, None
        if then is not None:
            then()

    def when_free(self, then: Job) -> None:
        """Call it now, or once the syncer that holds the lock is done. On the log's own thread."""
        if self.wait is None:
            then()
        else:
            self._then = then

"""The port of what syncs files by their descriptors, without a thread of Python for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.disk.synced_mark import Entry

Ended = Callable[[int, int, bool], None]
"""Called with the errno of a sync or 0, its nanoseconds, and whether the entry was written."""


class Syncer(Protocol):
    """All calls are made on the thread that owns the files."""

    @property
    def is_running(self) -> bool:
        """Whether it takes syncs: it may have ended."""
        ...

    def submit(self, descriptor: int, entry: Entry, ended: Ended, done: Job) -> int:
        """Sync with the next `flush`, and write the entry if that succeeds. Then call `ended`,
        which may raise OSError, and `done`. Returns the number of this sync."""
        ...

    def flush(self) -> None:
        """Hand over what was submitted."""
        ...

    def wait(self, number: int) -> None:
        """Return once `ended` of this sync was called; `done` is called later. On another thread
        than the one that owns the files, return at once."""
        ...

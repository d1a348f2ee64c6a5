"""A syncer of memory files: its syncs run when their owner wants, as a disk takes its time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.disk.synced_mark import Entry
from josefine_broker.host.disk.syncer import Ended
from josefine_broker.host.log.group_sync import Submit
from tests.simulation.memory_files import MemoryFiles


class MemorySyncer:
    """A `Syncer`. `submit` of its owner gets each sync that was handed over, as it gets those of
    Python's threads; `later` gets the `done` of one that had to be waited for."""

    def __init__(self, files: MemoryFiles, submit: Submit, later: Callable[[Job], object]) -> None:
        self.is_running = True
        self.made = 0
        self.waited = 0
        self._files = files
        self._submit = submit
        self._later = later
        self._number = 0
        self._new: list[int] = []
        self._running: dict[int, tuple[int, Entry, Ended]] = {}
        self._done: dict[int, Job] = {}

    def submit(self, descriptor: int, entry: Entry, ended: Ended, done: Job) -> int:
        self._number += 1
        self._running[self._number] = descriptor, entry, ended
        self._done[self._number] = done
        self._new.append(self._number)
        return self._number

    def flush(self) -> None:
        new, self._new = self._new, []
        for number in new:
            self._submit(partial(self._sync, number), partial(self._end, number), lambda: None)

    def wait(self, number: int) -> None:
        if number in self._running:
            self.waited += 1
            with suppress(OSError):  # the log knows
                self._sync(number)
            self._later(partial(self._end, number))

    def _sync(self, number: int) -> None:
        """Does nothing if it was waited for. Raises OSError."""
        if number not in self._running:
            return
        descriptor, entry, ended = self._running.pop(number)
        self.made += 1
        error = self._files.sync_descriptor(descriptor)
        has_entry = not error and entry.descriptor >= 0
        if has_entry:
            has_entry = self._files.write_descriptor(entry.descriptor, entry.position, entry.data)
        ended(error, 0, has_entry)

    def _end(self, number: int) -> None:
        done = self._done.pop(number, None)
        if done is not None:
            done()

"""Group commit: one sync of a log for all appends that arrived during the previous sync.

Rules: a log whose appends count once they are durable (`flush.messages=1`) asks for a sync. The
sync starts after the current turn of the event loop, on another thread, so that it covers every
append of that turn and no append waits for a disk. A log has one sync at a time: its next one
covers the appends that arrive meanwhile. Different logs are synced concurrently. After each sync,
even a failed one, `on_synced` is called on the logs' own thread.

The usual sync is fdatasync of one file: a `Syncer` makes it, which gets those of one turn together.
Without one, and where a sync takes more (a new log, a full segment, a file that failed), a thread
of Python does it (`submit`): the way to it and back takes longer than the disk.

Nothing is decided here: `log_sync.py` tracks how far a log is durable and whether it failed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from josefine_broker.base.ids import TopicPartition
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.disk.syncer import Syncer


class GroupedLog(Protocol):
    """The part of a log that is used here."""

    def begin_group_sync(self) -> Job:
        """The next sync covers appends until it runs; later appends ask again."""
        ...

    def begin_file_sync(self, syncer: Syncer, done: Job) -> bool:
        """Have the syncer do it, and call `done`; False: it takes more than that."""
        ...

    def note_group_sync(self) -> None:
        """Called after each sync on its thread; nothing waits for it."""
        ...


Submit = Callable[[Job, Callable[[], None], Job], None]
"""Run the first job on another thread; whatever it raised, call the second on the logs' thread;
then run the third on that other thread."""


def _nobody(tp: TopicPartition) -> None:
    """The default callback: does nothing."""


class GroupSync:
    """The logs that wait for a sync, and those being synced. On the logs' thread."""

    __slots__ = ("_again", "_running", "_soon", "_submit", "_syncer", "_wanted", "on_synced")

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        submit: Submit,
        syncer: Syncer | None = None,
    ) -> None:
        """`soon` schedules a call after the current turn of the event loop."""
        self._soon = soon
        self._submit = submit
        self._syncer = syncer
        self._wanted: dict[GroupedLog, TopicPartition] = {}
        """Syncs to start after this turn."""
        self._running: set[GroupedLog] = set()
        self._again: dict[GroupedLog, TopicPartition] = {}
        """Logs being synced that need another sync."""
        self.on_synced: Callable[[TopicPartition], None] = _nobody

    def want(self, tp: TopicPartition, log: GroupedLog) -> None:
        """`log` has appends that a running sync may not cover."""
        if log in self._running:
            self._again[log] = tp
            return
        if not self._wanted:
            self._soon(self._begin)
        self._wanted[log] = tp

    def _begin(self) -> None:
        wanted, self._wanted = self._wanted, {}
        for log, tp in wanted.items():
            self._start(tp, log)
        if self._syncer is not None:
            self._syncer.flush()

    def _start(self, tp: TopicPartition, log: GroupedLog) -> None:
        self._running.add(log)
        done, syncer = partial(self._done, tp, log), self._syncer
        if syncer is not None and syncer.is_running and log.begin_file_sync(syncer, done):
            return
        self._submit(log.begin_group_sync(), done, log.note_group_sync)

    def _done(self, tp: TopicPartition, log: GroupedLog) -> None:
        self._running.discard(log)
        if self._again.pop(log, None) is not None:
            self._start(tp, log)
            if self._syncer is not None:
                self._syncer.flush()
        self.on_synced(tp)

"""Group commit: one sync of a log for all that was appended to it while the last one ran.

Rules: a log whose appends count once they are durable (`flush.messages=1`) asks for a sync; the
sync starts after the turn of the event loop in which it asked, elsewhere (`submit`), so that it
covers every append of that turn and no append waits for a disk. A log has one sync at a time: what
is appended meanwhile is covered by its next one. Different logs are synced side by side. After each
sync, also one that failed, `on_synced` hears of it on the logs' own thread.

Nothing is decided here: how far a log is durable, and whether it failed, is `log_sync.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from josefine_broker.base.ids import TopicPartition
from josefine_broker.host.disk.flusher import Job


class GroupedLog(Protocol):
    """What of a log is used here."""

    def begin_group_sync(self) -> Job:
        """The next sync covers what is appended until it runs; what is appended later asks anew."""
        ...

    def note_group_sync(self) -> None:
        """Behind each sync, elsewhere too: nobody waits for it."""
        ...


Submit = Callable[[Job, Callable[[], None], Job], None]
"""Run the first job elsewhere; whatever it raised, have the second one called on the logs' thread;
then run the third, elsewhere again."""


def _nobody(tp: TopicPartition) -> None:
    """Nobody is to hear of it."""


class GroupSync:
    """Which logs wait for a sync, and which have one under way. On the logs' thread."""

    __slots__ = ("_again", "_running", "_soon", "_submit", "_wanted", "on_synced")

    def __init__(self, soon: Callable[[Callable[[], None]], object], submit: Submit) -> None:
        """`soon` calls after the turn of the event loop that is under way."""
        self._soon = soon
        self._submit = submit
        self._wanted: dict[GroupedLog, TopicPartition] = {}
        """To be started after this turn."""
        self._running: set[GroupedLog] = set()
        self._again: dict[GroupedLog, TopicPartition] = {}
        """Of those that are running: to be started once more."""
        self.on_synced: Callable[[TopicPartition], None] = _nobody

    def want(self, tp: TopicPartition, log: GroupedLog) -> None:
        """`log` has appends that no sync under way may cover."""
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

    def _start(self, tp: TopicPartition, log: GroupedLog) -> None:
        self._running.add(log)
        done = partial(self._done, tp, log)
        self._submit(log.begin_group_sync(), done, log.note_group_sync)

    def _done(self, tp: TopicPartition, log: GroupedLog) -> None:
        self._running.discard(log)
        if self._again.pop(log, None) is not None:
            self._start(tp, log)
        self.on_synced(tp)

"""Group commit by hand: a test says when the turn of the loop ends, and when the disk is done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.group_sync import GroupSync
from tests.simulation.memory_files import MemoryFiles
from tests.simulation.memory_syncer import MemorySyncer


class ManualSyncs:
    """`group` is for a LogManager. With files, a syncer makes the syncs that it can make."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.turn: list[Callable[[], None]] = []
        self.submitted: list[tuple[Job, Callable[[], None], Job]] = []
        self.syncer = None if files is None else MemorySyncer(files, self._begin, self.turn.append)
        self.group = GroupSync(self.turn.append, self._begin, self.syncer)

    def _begin(self, job: Job, done: Callable[[], None], behind: Job) -> None:
        self.submitted.append((job, done, behind))

    def end_turn(self) -> int:
        """Syncs begin that were asked for in this turn; how many are under way."""
        due, self.turn[:] = list(self.turn), []
        for each in due:
            each()
        return len(self.submitted)

    def finish(self) -> None:
        """The disk has done what is under way."""
        due, self.submitted = self.submitted, []
        for job, done, behind in due:
            with suppress(OSError):  # the log knows
                job()
            done()
            behind()

    def settle(self) -> None:
        """Until nothing is wanted any more."""
        while self.end_turn():
            self.finish()

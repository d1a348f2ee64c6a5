"""Group commit by hand: a test says when the turn of the loop ends, and when the disk is done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.group_sync import GroupSync


class ManualSyncs:
    """`group` is for a LogManager."""

    def __init__(self) -> None:
        self.turn: list[Callable[[], None]] = []
        self.submitted: list[tuple[Job, Callable[[], None], Job]] = []
        self.group = GroupSync(self.turn.append, lambda *each: self.submitted.append(each))

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

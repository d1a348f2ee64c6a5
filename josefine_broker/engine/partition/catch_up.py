"""The questions of a leader that was elected in doubt: has another replica more of the log?

Such a leader may lack records at its end that were acknowledged: a power failure took them here, or
damage hid them. So before it serves it asks every other replica for the batches after its end, and
appends them. Only a log that has its last batch continues it: two logs with the same batch at an
offset are equal before it.

Rules: after progress everyone is asked again, because another replica may have the next batch. A
replica that does not answer is waited for while it is alive; where damage hid the end of this log,
also while it is down: it may be the only one that has the rest.
"""

from collections.abc import Sequence

from josefine_broker.base.ids import LeaderEpoch

RETRY_MS = 250
"""Delay until silent replicas are asked again."""


class CatchUp:
    """See the module. One per leadership that began in doubt; mutable."""

    __slots__ = ("_answered", "_silent", "is_over", "leader_epoch", "retry_at_ms", "waits_for_all")

    def __init__(self, leader_epoch: LeaderEpoch, *, waits_for_all: bool) -> None:
        self.leader_epoch = leader_epoch
        self.waits_for_all = waits_for_all
        """Also for replicas that are down."""
        self.is_over = False
        self.retry_at_ms: int | None = 0
        """When to continue; None while a replica is asked."""
        self._answered: set[int] = set()
        self._silent: set[int] = set()

    def choose(self, replicas: Sequence[int]) -> int | None:
        """The replica to ask next; None: all were asked."""
        asked = self._answered | self._silent
        return next((each for each in replicas if each not in asked), None)

    def has_no_more(self, replica: int) -> None:
        """It answered: it has nothing that continues this log."""
        self._answered.add(replica)

    def silent(self, replica: int) -> None:
        """It did not answer, or cannot know now."""
        self._silent.add(replica)

    def moved(self) -> None:
        """It sent more of the log."""
        self._answered.clear()
        self._silent.clear()

    def end_round(self, alive: frozenset[int], now_ms: int) -> bool:
        """All were asked; returns whether nobody is waited for."""
        waited_for = self._silent if self.waits_for_all else self._silent & alive
        self.is_over = not waited_for
        self.retry_at_ms = now_ms + RETRY_MS
        self._silent.clear()
        return self.is_over

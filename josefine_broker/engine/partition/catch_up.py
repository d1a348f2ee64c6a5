"""The questions of a leader that was elected in doubt: has another replica more of the log?

Such a leader may lack records at its end that were acknowledged: a power failure took them here, or
damage hid them. So before it serves it asks every other replica for the batches after its end, and
appends them. Only a log that has its last batch continues it: two logs with the same batch at an
offset are equal before it.

Rules: first everyone is asked, and then the batches of the latest leader epoch are taken: a batch
of an earlier leader that the later one did not have was never committed. Only batches of one epoch
are taken at once, up to where the first replica has one of another epoch. After progress everyone
is asked again, because another replica may have the next batch, or one of a later leader. A replica
that does not answer is waited for while it is alive; where damage hid the end of this log, also
while it is down: it may be the only one that has the rest. One whose next batch is damaged, and was
committed, is waited for until another replica has that batch: its intact batches after it would be
cut. An operator may give up what is missing there: then batches without records take the place of
exactly those offsets, and the intact batches after them are taken.
"""

from collections.abc import Sequence
from typing import NamedTuple

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.records.batch import NO_LEADER_EPOCH

RETRY_MS = 250
"""Delay until silent replicas are asked again."""


OFFSET_MAX = 2**63 - 1


class Offer(NamedTuple):
    """The next batches that a replica has: those of the first epoch. The later offer is taken."""

    epoch: LeaderEpoch
    as_sent: LeaderEpoch = NO_LEADER_EPOCH
    """The epoch as that replica has it, where later batches there contradict that. It decides
    between two of one epoch: if they are not the same batch, the contradiction is what is wrong."""
    end_offset: int = OFFSET_MAX
    """Of these batches, as far as they were sent."""


class CatchUp:
    """See the module. One per leadership that began in doubt; mutable."""

    __slots__ = (
        "_answered", "_damaged", "_offers", "_reported", "_silent", "is_over", "leader_epoch",
        "retry_at_ms",
        "waits_for_all", "waits_for_nobody",
    )  # fmt: skip

    def __init__(self, leader_epoch: LeaderEpoch, *, waits_for_all: bool) -> None:
        self.leader_epoch = leader_epoch
        self.waits_for_all = waits_for_all
        """Also for replicas that are down."""
        self.waits_for_nobody = False
        """The operator does not want to wait for silent replicas, or for damaged batches."""
        self.is_over = False
        self.retry_at_ms: int | None = 0
        """When to continue; None while a replica is asked."""
        self._answered: set[int] = set()
        self._offers: dict[int, Offer] = {}
        """Of each replica that has the next batch."""
        self._silent: set[int] = set()
        self._damaged: set[int] = set()
        """Replicas whose next batch is damaged, and was committed."""
        self._reported: set[int] = set()
        """Those that were in `_damaged` before."""

    def choose(self, replicas: Sequence[int]) -> int | None:
        """The replica to ask next; None: all were asked."""
        asked = self._answered | self._silent | self._damaged | self._offers.keys()
        return next((each for each in replicas if each not in asked), None)

    def offers(self, replica: int, offer: Offer) -> None:
        """It answered: it has the next batches."""
        self._offers[replica] = offer

    def compared_to(self, epoch: LeaderEpoch) -> int:
        """All that were offered of this epoch continue with it up to this offset. After it one of
        them may continue with a later one: its leader did not have the rest of the earlier one.
        0: none was offered."""
        ends = (each.end_offset for each in self._offers.values() if each.epoch == epoch)
        return min(ends, default=0)

    def has_no_more(self, replica: int) -> None:
        """It answered: it has nothing that continues this log."""
        self._offers.pop(replica, None)
        self._answered.add(replica)

    def silent(self, replica: int) -> None:
        """It did not answer, or cannot know now."""
        self._offers.pop(replica, None)
        self._silent.add(replica)

    def damaged(self, replica: int) -> bool:
        """It answered: it has committed records after this log, of which the next are damaged.
        Returns whether that is news."""
        self._offers.pop(replica, None)
        self._damaged.add(replica)
        is_news = replica not in self._reported
        self._reported.add(replica)
        return is_news

    def given_up(self) -> list[int]:
        """All were asked: the replicas whose next batch the operator gave up. Nobody has it."""
        return sorted(self._damaged) if self.waits_for_nobody and not self._offers else []

    def has_nothing_after(self, replicas: Sequence[int]) -> None:
        """None of their committed batches after our end is intact."""
        self._damaged.difference_update(replicas)
        self._answered.update(replicas)

    def moved(self) -> None:
        """It sent more of the log."""
        self._answered.clear()
        self._damaged.clear()
        self._reported.clear()
        self._offers.clear()
        self._silent.clear()

    def end_round(self, alive: frozenset[int], now_ms: int) -> int | None:
        """All were asked. Returns the replica to take the next batches from; None: nobody has them
        (`is_over`), or someone is waited for."""
        waited_for = self._silent if self.waits_for_all else self._silent & alive
        self._silent = set()
        # What another one offers may be the damaged batch: it is taken without waiting.
        if not self._offers:
            waited_for |= self._damaged
        self._damaged = set()
        if waited_for and not self.waits_for_nobody:
            self.retry_at_ms = now_ms + RETRY_MS
            return None
        self.is_over = not self._offers
        return max(self._offers, key=self._offers.__getitem__, default=None)

"""When to stand for election, whom we voted for, who votes for us; and is there a leader anyway?"""

from random import Random

from raft.ids import NodeId

__all__ = ["Candidacy"]


class Candidacy:
    """Mutable; part of a Core."""

    __slots__ = ("_heard_ms", "_lost_leader", "_rng", "_timeout_ms", "due_ms", "vote", "votes")

    def __init__(self, timeout_ms: int, rng: Random, now_ms: int, *, vote: NodeId | None) -> None:
        self.vote = vote
        """Ours, in the current term."""
        self.votes: dict[NodeId, bool] = {}
        """What others said to our candidacy, or to our question whether it had a chance."""
        self._timeout_ms = timeout_ms
        self._rng = rng
        self._heard_ms: int | None = None
        self._lost_leader = False
        """The leader heard last is known to be gone, and no other one was heard since."""
        self.due_ms = now_ms

    def reset(self, now_ms: int) -> None:
        """Wait anew, one to two timeouts: chance keeps candidates apart (5.2)."""
        self.due_ms = now_ms + self._timeout_ms + self._rng.randrange(self._timeout_ms)

    def retry_soon(self, now_ms: int) -> None:
        """A candidate waits a quarter to a half of a timeout for its votes, then asks anew.

        When two stand at once and the vote is split, a whole timeout more would double the time
        without a leader. It disturbs nobody, because the next attempt begins with a pre-vote.
        """
        quarter = self._timeout_ms // 4
        self.due_ms = now_ms + quarter + self._rng.randrange(max(1, quarter))

    def await_answers(self, now_ms: int) -> None:
        """Those who are asked for a pre-vote may not know yet that the leader is gone, and refuse:
        then it is worth asking again soon."""
        if self._lost_leader:
            self.retry_soon(now_ms)
        else:
            self.reset(now_ms)

    def hear_leader(self, now_ms: int) -> None:
        self._heard_ms = now_ms
        self._lost_leader = False
        self.reset(now_ms)

    def lose_leader(self, now_ms: int) -> None:
        """It is gone for sure: stand within a tenth of a timeout, apart from others who know it."""
        if self._lost_leader:
            return
        self._lost_leader = True
        self._heard_ms = None
        soon_ms = now_ms + self._rng.randrange(max(1, self._timeout_ms // 10))
        self.due_ms = min(self.due_ms, soon_ms)

    def hears_leader(self, now_ms: int) -> bool:
        return self._heard_ms is not None and now_ms < self._heard_ms + self._timeout_ms

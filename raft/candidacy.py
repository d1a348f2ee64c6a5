"""Election timing and votes: when to start an election, our vote, the votes for us."""

from random import Random

from raft.ids import GENESIS, BlockId, NodeId

__all__ = ["Candidacy"]


class Candidacy:
    """Mutable; part of a Core."""

    __slots__ = (
        "_heard_ms",
        "_lost_leader",
        "_rng",
        "_timeout_ms",
        "due_ms",
        "promised",
        "vote",
        "votes",
    )

    def __init__(
        self,
        timeout_ms: int,
        rng: Random,
        now_ms: int,
        *,
        vote: NodeId | None,
        promised: BlockId = GENESIS,
    ) -> None:
        self.vote = vote
        """Our vote in the current term."""
        self.promised = promised
        """The head that this node acknowledged before its chain was damaged: it counts in elections
        as if it were still here."""
        self.votes: dict[NodeId, bool] = {}
        """Answers to our vote requests or pre-vote requests of this round."""
        self._timeout_ms = timeout_ms
        self._rng = rng
        self._heard_ms: int | None = None
        self._lost_leader = False
        """The last known leader is certainly down, and no other leader has been heard since."""
        self.due_ms = now_ms

    def reset(self, now_ms: int) -> None:
        """Restart the timeout of one to two times its length; randomness separates candidates
        (5.2)."""
        self.due_ms = now_ms + self._timeout_ms + self._rng.randrange(self._timeout_ms)

    def retry_soon(self, now_ms: int) -> None:
        """A candidate waits a quarter to half of a timeout for its votes, then asks again.

        When two candidates split the vote, another full timeout would double the time without a
        leader. Retrying early disturbs no leader: the next attempt starts with a pre-vote.
        """
        quarter = self._timeout_ms // 4
        self.due_ms = now_ms + quarter + self._rng.randrange(max(1, quarter))

    def await_answers(self, now_ms: int) -> None:
        """Wait for the answers to a pre-vote. The other voters may not know yet that the leader is
        down and refuse; then it pays to ask again soon."""
        if self._lost_leader:
            self.retry_soon(now_ms)
        else:
            self.reset(now_ms)

    def hear_leader(self, now_ms: int) -> None:
        self._heard_ms = now_ms
        self._lost_leader = False
        self.reset(now_ms)

    def lose_leader(self, now_ms: int) -> None:
        """The leader is certainly down: start an election within a tenth of a timeout, at a random
        moment because other nodes notice it too."""
        if self._lost_leader:
            return
        self._lost_leader = True
        self._heard_ms = None
        soon_ms = now_ms + self._rng.randrange(max(1, self._timeout_ms // 10))
        self.due_ms = min(self.due_ms, soon_ms)

    def hears_leader(self, now_ms: int) -> bool:
        return self._heard_ms is not None and now_ms < self._heard_ms + self._timeout_ms

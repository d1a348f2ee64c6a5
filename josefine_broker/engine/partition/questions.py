"""Open verifications of transactional producers: the writes that wait for each answer (KIP-890).

A leader asks the transaction coordinator whether a partition is part of a producer's transaction
before it appends the first batch. `engine/coordinators/transaction_verification.py` sends the
request; this module keeps what waits for it, by partition and producer.

Rules: at most one request per partition and producer is in flight; later writes wait for the same
answer in order of arrival, `WAITING_MAX` at most; an answer is outdated when the producer wrote
anything here, or the leader epoch changed, after the request was sent, because a marker may have
ended the transaction that the answer is about.
"""

from collections.abc import Callable
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerEntry

WAITING_MAX = 5
"""As many batches as a producer may have in flight (KIP-98)."""

Then = Callable[[ErrorCode], None]
"""Called once with the result; `none`: the write may be appended now."""


class Claim(NamedTuple):
    """A write's claim to belong to a producer's transaction."""

    transactional_id: str
    producer_id: ProducerId
    epoch: ProducerEpoch
    adds: bool = False
    """The coordinator should add the partition to the transaction, not only check that it is in."""


class Question(NamedTuple):
    """A verification in flight."""

    claim: Claim
    partition: Partition
    leader_epoch: LeaderEpoch
    entry: ProducerEntry | None
    """The producer's entry here when the request was sent."""
    waiting: list[Then]

    @property
    def is_outdated(self) -> bool:
        """Whether the answer may be about a transaction that has ended."""
        entry = self.partition.producers.entry(self.claim.producer_id)
        return self.partition.leader_epoch != self.leader_epoch or entry is not self.entry


Key = tuple[tuple[str, int], ProducerId]
"""Partition and producer."""


class Questions:
    """The verifications in flight. Mutable."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Key, Question] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    def wait(self, tp: tuple[str, int], partition: Partition, claim: Claim, then: Then) -> bool:
        """Let `then` wait for the answer; returns whether the caller must send the request. A
        write that cannot wait gets NOT_ENOUGH_REPLICAS at once: every client retries after it."""
        key = (tp, claim.producer_id)
        found = self._open.get(key)
        if found is None:
            self._open[key] = _question(partition, claim, [then])
            return True
        if found.claim != claim or len(found.waiting) >= WAITING_MAX:
            then(ErrorCode.not_enough_replicas)
        else:
            found.waiting.append(then)
        return False

    def must_ask_again(self, tp: tuple[str, int], claim: Claim) -> bool:
        """Whether the answer that arrived is outdated, and the request must be sent again."""
        key = (tp, claim.producer_id)
        found = self._open[key]
        if not found.is_outdated:
            return False
        self._open[key] = _question(found.partition, claim, found.waiting)
        return True

    def settle(self, tp: tuple[str, int], claim: Claim, code: ErrorCode) -> None:
        """Pass the answer to every write that waits for it."""
        found = self._open.pop((tp, claim.producer_id))
        for then in found.waiting:
            then(code)


def _question(partition: Partition, claim: Claim, waiting: list[Then]) -> Question:
    entry = partition.producers.entry(claim.producer_id)
    return Question(claim, partition, partition.leader_epoch, entry, waiting)

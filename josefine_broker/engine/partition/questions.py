"""Producers whose transactions are being verified: what waits for the answer, by partition and
producer (KIP-890). Who asks, and what is asked, is
`engine/coordinators/transaction_verification.py`'s business.

Rules: one question for a partition and producer at a time; who comes meanwhile waits behind, in the
order of arrival, `WAITING_MAX` at most; an answer is worth nothing when anything of the producer
was written here, or the leader epoch changed, since it was asked for: a marker may have ended what
it speaks of.
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
"""Told once; `none`: it may be written now."""


class Claim(NamedTuple):
    """Who says that it writes in a transaction."""

    transactional_id: str
    producer_id: ProducerId
    epoch: ProducerEpoch
    adds: bool = False
    """Its partition is to join the transaction, not only to be looked for in it."""


class Question(NamedTuple):
    """Under way."""

    claim: Claim
    partition: Partition
    leader_epoch: LeaderEpoch
    entry: ProducerEntry | None
    """What was known here of the producer when it was asked."""
    waiting: list[Then]

    @property
    def is_outdated(self) -> bool:
        """Whether the answer may speak of something that is over."""
        entry = self.partition.producers.entry(self.claim.producer_id)
        return self.partition.leader_epoch != self.leader_epoch or entry is not self.entry


Key = tuple[tuple[str, int], ProducerId]
"""Partition and producer."""


class Questions:
    """Mutable: those under way."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Key, Question] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    def wait(self, tp: tuple[str, int], partition: Partition, claim: Claim, then: Then) -> bool:
        """`then` waits for the answer; whether it is still to be asked for. Who cannot wait is told
        NOT_ENOUGH_REPLICAS at once: every client writes again after it."""
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
        """Whether the answer that came is outdated; it is asked anew then."""
        key = (tp, claim.producer_id)
        found = self._open[key]
        if not found.is_outdated:
            return False
        self._open[key] = _question(found.partition, claim, found.waiting)
        return True

    def settle(self, tp: tuple[str, int], claim: Claim, code: ErrorCode) -> None:
        """The answer, for all who wait."""
        found = self._open.pop((tp, claim.producer_id))
        for then in found.waiting:
            then(code)


def _question(partition: Partition, claim: Claim, waiting: list[Then]) -> Question:
    entry = partition.producers.entry(claim.producer_id)
    return Question(claim, partition, partition.leader_epoch, entry, waiting)

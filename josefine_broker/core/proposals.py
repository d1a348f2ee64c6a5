"""Metadata changes on their way: proposed here, not yet known to be applied or refused.

Rules: a proposal settles once, when the block that carries its origin is applied *here* (so the
answer's reader finds the change in this broker's image), when a snapshot that stands for blocks
never seen here shows its effect, or when its proposer gives up. A change whose proposer gave up may
still be applied later, as in Kafka.
"""

from collections.abc import Callable, Hashable, Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.change_codec import decode_change, encode_change
from josefine_broker.core.changes import (
    AllocateProducerIds,
    AlterIsr,
    AlterTopicConfig,
    Change,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    Origin,
    RegisterBroker,
    SetFeatures,
    UnregisterBroker,
)
from josefine_broker.core.image import MetadataImage
from josefine_broker.core.parked import Parked

TAKES_EFFECT_ONCE = (
    RegisterBroker,
    UnregisterBroker,
    AlterIsr,
    CreateTopic,
    DeleteTopic,
    CreatePartitions,
    AllocateProducerIds,
)
"""Changes that name what they depend on: proposed again when nobody knows what became of them, the
second block of the two is refused (and its origin settles nothing). A new configuration or a
reassignment is not among them: it could undo what came in between. Nor is a Decision: its term is
over."""


def may_propose_again(payload: bytes, *, is_dead: bool) -> bool:
    """Whether a proposal that ended without a commit is to be proposed again, to the deadline.

    Dead: no block of it is or will be committed. Otherwise one may be.
    """
    return is_dead or isinstance(decode_change(payload)[0], TAKES_EFFECT_ONCE)


def is_in_effect(change: Change, image: MetadataImage) -> bool:
    """Whether the image is as the change wants it; False also where an image cannot tell."""
    match change:
        case CreateTopic():
            return image.topic_names.get(change.topic_id) == change.name
        case DeleteTopic():
            return change.topic_id not in image.topic_names
        case CreatePartitions():
            topic = image.topics.get(image.topic_names.get(change.topic_id, ""))
            count = change.first_partition + len(change.replicas)
            return topic is not None and len(topic.partitions) == count
        case AlterTopicConfig():
            topic = image.topics.get(image.topic_names.get(change.topic_id, ""))
            config = {} if topic is None else dict(topic.config)
            return (
                topic is not None
                and config.items() >= dict(change.assign).items()
                and config.keys().isdisjoint(change.remove)
            )
        case RegisterBroker():
            broker = image.brokers.get(change.broker_id)
            return broker is not None and broker.incarnation == change.incarnation
        case UnregisterBroker():
            return change.broker_id not in image.brokers
        case SetFeatures():
            return all(image.features.get(name, 0) == level for name, _, level in change.levels)
        case _:
            return False


class Proposal:
    """One proposed change. `error` is None until settled, and after a success."""

    __slots__ = ("change", "error", "origin", "settled")

    def __init__(self, change: Change, origin: Origin) -> None:
        self.change = change
        self.origin = origin
        self.settled = False
        self.error: KafkaError | None = None

    def settle(self, error: KafkaError | None) -> None:
        assert not self.settled
        self.settled = True
        self.error = error


class Proposals:
    """The open proposals of one broker. `first_number` is random: a restarted broker must not
    take an old block for its own."""

    __slots__ = ("_broker_id", "_next_number", "_open")

    def __init__(self, broker_id: int, first_number: int) -> None:
        self._broker_id = broker_id
        self._next_number = first_number
        self._open: dict[int, Proposal] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, change: Change) -> tuple[Proposal, bytes]:
        """A new proposal and the payload to hand to Raft."""
        origin = Origin(self._broker_id, self._next_number)
        self._next_number += 1
        proposal = Proposal(change, origin)
        self._open[origin.number] = proposal
        return proposal, encode_change(change, origin)

    def settle(self, origin: Origin, error: KafkaError | None) -> Proposal | None:
        """The block of `origin` was applied or refused: its proposal, if open here."""
        if origin.broker_id != self._broker_id:
            return None
        proposal = self._open.pop(origin.number, None)
        if proposal is not None:
            proposal.settle(error)
        return proposal

    def settle_by(self, image: MetadataImage) -> list[Proposal]:
        """A snapshot hid which blocks were applied: the open proposals whose effect it shows."""
        shown = [each for each in self._open.values() if is_in_effect(each.change, image)]
        for proposal in shown:
            self.settle(proposal.origin, None)
        return shown

    def give_up(self, proposal: Proposal, error: KafkaError) -> None:
        if self._open.pop(proposal.origin.number, None) is not None:
            proposal.settle(error)


class AwaitProposals(Parked):
    """A request that is answered when all its proposals have settled, by `build`.

    It is parked under their origins.
    """

    __slots__ = ("_because", "_build", "_proposals", "_table")

    def __init__(
        self,
        table: Proposals,
        proposals: Sequence[Proposal],
        deadline_ms: int,
        build: Callable[[], object],
        because: Callable[[], str] = str,
    ) -> None:
        """`because` is asked at the deadline what stands in the way; empty: nobody knows."""
        super().__init__(deadline_ms)
        self._because = because
        self._table = table
        self._proposals = proposals
        self._build = build

    def try_complete(self, key: Hashable, now_ms: int) -> bool:
        if not all(proposal.settled for proposal in self._proposals):
            return False
        self.complete(self._build())
        return True

    def expire(self, now_ms: int) -> None:
        why = self._because() or "the change was not committed within the request's timeout"
        error = KafkaError(ErrorCode.request_timed_out, why)
        for proposal in self._proposals:
            self._table.give_up(proposal, error)
        self.complete(self._build())

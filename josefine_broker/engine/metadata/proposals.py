"""Metadata changes on their way: proposed here, not yet known to be applied or refused.

Rules: a proposal settles once, when the block that carries its origin is applied *here* (so the
answer's reader finds the change in this broker's image), when a snapshot that stands for blocks
never seen here shows its effect, or when its proposer gives up. A change whose proposer gave up may
still be applied later, as in Kafka.
"""

from collections.abc import Callable

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterAcls,
    AlterCredentials,
    AlterIsr,
    AlterQuotas,
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
from josefine_broker.engine.metadata.image import MetadataImage

TAKES_EFFECT_ONCE = (
    RegisterBroker,
    AlterIsr,
    DeleteTopic,
    CreatePartitions,
    AllocateProducerIds,
)
"""Changes that name what they depend on: proposed again when nobody knows what became of them, the
second block of the two is refused (and its origin settles nothing). A new configuration or a
reassignment is not among them: it could undo what came in between. Nor are two that name nothing
that they depend on: a second CreateTopic brings a topic back, under its old id, that was deleted
after the first; a second UnregisterBroker removes a broker that has joined again. Nor is a
Decision: its term is over."""


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
        case AlterAcls():
            return image.acls.issuperset(change.add) and image.acls.isdisjoint(change.remove)
        case AlterCredentials():
            known = image.credentials
            return known.keys().isdisjoint(change.remove) and all(
                known.get((user, mechanism)) == credential
                for user, mechanism, credential in change.put
            )
        case AlterQuotas():
            return all(
                image.quotas.get(entity, {}).get(key) == value
                for entity, key, value in change.quotas
            )
        case _:
            return False


class Proposal:
    """One proposed change. `error` is None until settled, and after a success."""

    __slots__ = ("change", "error", "on_settled", "origin", "settled")

    def __init__(self, change: Change, origin: Origin) -> None:
        self.change = change
        self.origin = origin
        self.settled = False
        self.error: KafkaError | None = None
        self.on_settled: Callable[[], None] | None = None
        """Of the one request that waits for it."""

    def settle(self, error: KafkaError | None) -> None:
        """Say what became of it, and answer who waits for it. It is in no table any more."""
        assert not self.settled
        self.settled = True
        self.error = error
        if self.on_settled is not None:
            self.on_settled()


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

    def has_open(self, payload: bytes) -> bool:
        """Whether this payload is of a proposal that is open here: neither its block nor a
        snapshot that shows its effect was applied yet, and nobody gave it up."""
        origin = decode_change(payload)[1]
        return origin.broker_id == self._broker_id and origin.number in self._open

    def close(self, origin: Origin) -> Proposal | None:
        """The block of `origin` was applied or refused: its proposal, if open here, to settle."""
        if origin.broker_id != self._broker_id:
            return None
        return self._open.pop(origin.number, None)

    def settle_by(self, image: MetadataImage) -> None:
        """A snapshot hid which blocks were applied: settle the open ones whose effect it shows."""
        shown = [each for each in self._open.values() if is_in_effect(each.change, image)]
        for proposal in shown:
            del self._open[proposal.origin.number]
        for proposal in shown:
            proposal.settle(None)

    def give_up(self, proposal: Proposal, error: KafkaError) -> None:
        if self._open.pop(proposal.origin.number, None) is not None:
            proposal.settle(error)

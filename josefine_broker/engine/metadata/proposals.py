"""Open metadata proposals: made by this broker, and not yet applied or refused.

Rules: a proposal is settled once: when the block with its origin is applied *here* (so that the
client finds the change in this broker's image), when a snapshot that covers blocks never seen here
shows its effect, or when its proposer gives up. A change whose proposer gave up may still be
applied later, as in Kafka.
"""

from collections.abc import Callable

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterAcls,
    AlterCredentials,
    AlterGroupConfig,
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
"""Changes that name their preconditions. If the result of one is unknown and it is proposed again,
the second of two blocks is refused, and its origin settles nothing. The others may take effect
twice: a new configuration or a reassignment could undo what came in between; a second CreateTopic
restores a topic, with its old id, that was deleted after the first; a second UnregisterBroker
removes a broker that has joined again; and the term of a Decision is over."""


def may_propose_again(payload: bytes, *, is_dead: bool) -> bool:
    """Whether a proposal that ended without a commit may be proposed again before its deadline.

    `is_dead`: no block of it is or will be committed. Otherwise one may be.
    """
    return is_dead or isinstance(decode_change(payload)[0], TAKES_EFFECT_ONCE)


def is_in_effect(change: Change, image: MetadataImage) -> bool:
    """Whether the image shows the effect of the change; False also if an image cannot show it."""
    # Used after a snapshot only, which hides the single blocks. A false negative costs a timeout or
    # a second proposal; a false positive would acknowledge a change that is not there.
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
        case AlterGroupConfig():
            known_config = dict(image.group_configs.get(change.group_id, ()))
            return known_config.items() >= dict(
                change.assign
            ).items() and known_config.keys().isdisjoint(change.remove)
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
        """Called for the one request that waits for the result."""

    def settle(self, error: KafkaError | None) -> None:
        """Set the result and answer the request that waits. The caller has removed the proposal
        from the table."""
        assert not self.settled
        self.settled = True
        self.error = None if error is None else error.without_frames()
        # Taken: it refers to this proposal, and only the collector would free both.
        on_settled, self.on_settled = self.on_settled, None
        if on_settled is not None:
            on_settled()


class Proposals:
    """The open proposals of one broker. `first_number` is random, so that a restarted broker does
    not mistake an old block for its own."""

    __slots__ = ("_broker_id", "_next_number", "_open")

    def __init__(self, broker_id: int, first_number: int) -> None:
        self._broker_id = broker_id
        self._next_number = first_number
        self._open: dict[int, Proposal] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, change: Change) -> tuple[Proposal, bytes]:
        """A new proposal, and the payload for Raft."""
        origin = Origin(self._broker_id, self._next_number)
        self._next_number += 1
        proposal = Proposal(change, origin)
        self._open[origin.number] = proposal
        return proposal, encode_change(change, origin)

    def has_open(self, payload: bytes) -> bool:
        """Whether this payload belongs to a proposal that is open here: neither its block nor a
        snapshot with its effect was applied yet, and it was not given up."""
        origin = decode_change(payload)[1]
        return origin.broker_id == self._broker_id and origin.number in self._open

    def close(self, origin: Origin) -> Proposal | None:
        """Remove and return the open proposal of this origin, if it is ours: its block was applied
        or refused."""
        if origin.broker_id != self._broker_id:
            return None
        return self._open.pop(origin.number, None)

    def settle_by(self, image: MetadataImage) -> None:
        """After a snapshot, settle the open proposals whose effect it shows: it hides which blocks
        were applied."""
        shown = [each for each in self._open.values() if is_in_effect(each.change, image)]
        for proposal in shown:
            del self._open[proposal.origin.number]
        for proposal in shown:
            proposal.settle(None)

    def give_up(self, proposal: Proposal, error: KafkaError) -> None:
        if self._open.pop(proposal.origin.number, None) is not None:
            proposal.settle(error)

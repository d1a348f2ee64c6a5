"""The registration of a broker and its removal, as changes of the image. Pure, part of `apply.py`.

Rules:
- a registration ends every leadership of the previous incarnation, so that two processes never
  share a leader epoch: the first may have written what the second has lost;
- a broker that does not support the cluster's feature levels cannot register;
- a doubt about a replica's log, which a registration adds, stays until that replica has caught up
  or becomes leader (`apply.py`); a doubt about a whole broker stays until the controller clears it.
  A later process that lost nothing more removes neither.
"""

from dataclasses import replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.changes import At, RegisterBroker
from josefine_broker.engine.metadata.features import understands
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    BrokerEntry,
    Doubt,
    MetadataImage,
    PartitionEntry,
)
from josefine_broker.engine.metadata.image_edits import each_partition
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims


def register(image: MetadataImage, change: RegisterBroker, at: At) -> MetadataImage:
    """The image with this process as its broker, fenced. Raises KafkaError."""
    broker_id = change.broker_id
    known = image.brokers.get(broker_id)
    if known is not None and known.incarnation == change.incarnation:
        return image  # the same process registered twice: it did not get the first answer
    epoch = -1 if known is None else known.epoch
    if change.known_epoch not in (None, epoch):
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {broker_id} has registered again since: its epoch is {epoch} now",
        )
    _check_features(image, change)
    claims = _claims(image, change, known)
    is_clean_disk = known is None or (change.clean and change.previous_epoch == known.epoch)
    was_unclean = known is not None and known.unclean
    broker = BrokerEntry(
        broker_id=broker_id,
        endpoints=change.endpoints,
        rack=change.rack,
        # The height of a block is unique and grows, as KIP-631 demands of broker epochs.
        epoch=at.height,
        incarnation=change.incarnation,
        # A process that lost nothing itself does not bring back what an earlier one had lost.
        unclean=was_unclean or (claims is None and not is_clean_disk),
        raft=change.raft,
        admin=change.admin,
        features=change.features,
    )
    if not image.brokers and not image.features:
        # The first broker of a cluster finalizes the levels that it supports.
        levels = {each.name: each.max_level for each in change.features}
        image = replace(image, features=levels, features_epoch=at.height)
    image = replace(
        image,
        brokers={**image.brokers, broker_id: broker},
        # A broker that was removed by command is welcome again: the command was about its earlier
        # self.
        unregistered=image.unregistered - {broker_id},
    )
    return _end_leaderships(image, broker_id, claims or LogClaims())


def _claims(
    image: MetadataImage, change: RegisterBroker, known: BrokerEntry | None
) -> LogClaims | None:
    """The completeness of each of its logs; None: only the whole broker is judged."""
    if known is None or not image.keeps_doubts:
        return None
    if change.logs is not None:
        # The epoch of the process before is on its disk (KIP-966). With another one, the directory
        # is a copy or was restored: it may be older than what that process acknowledged.
        is_the_same_disk = change.previous_epoch == known.epoch
        return change.logs if is_the_same_disk else change.logs.at_best(Completeness.UNSYNCED)
    # A broker without an image has lost its metadata, and possibly any part of its logs.
    return LogClaims(default=Completeness.MISSING) if change.known_epoch is None else None


def _check_features(image: MetadataImage, change: RegisterBroker) -> None:
    """Raises KafkaError for a level that this broker does not support: it could not read the next
    block that uses it, and would stop then."""
    for name, level in sorted(image.features.items()):
        if not understands(change.features, name, level):
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"the cluster is at {name} {level}, which broker {change.broker_id} does not "
                "support",
            )


def _end_leaderships(image: MetadataImage, broker_id: int, claims: LogClaims) -> MetadataImage:
    """End the broker's leaderships, and note the completeness that its new process reports."""

    def ended(topic_id: UUID, index: int, entry: PartitionEntry) -> PartitionEntry:
        """The partition without the previous process as its leader, and with what the new one
        reports of its log."""
        if broker_id not in entry.replicas:
            return entry
        doubts = _doubts(entry, broker_id, claims.of((topic_id, index)))
        leads = entry.leader == broker_id
        if not leads and doubts == entry.doubts:
            return entry
        return replace(
            entry,
            leader=NO_LEADER if leads else entry.leader,
            # Only a leadership that ends takes an epoch: followers would start again for nothing.
            leader_epoch=LeaderEpoch(entry.leader_epoch + leads),
            partition_epoch=entry.partition_epoch + 1,
            doubts=doubts,
        )

    return each_partition(image, ended)


def _doubts(entry: PartitionEntry, broker_id: int, claim: Completeness) -> tuple[Doubt, ...]:
    """The entry's doubts with the completeness that a new process reports. A replica outside ISR
    and ELR that may have lost unsynced records needs no doubt: it fetches before it counts."""
    found = claim.after(entry.completeness_of(broker_id))
    others = tuple(each for each in entry.doubts if each.broker_id != broker_id)
    counts = broker_id in entry.isr or broker_id in entry.elr
    if found is Completeness.COMPLETE or (found.may_lead and not counts):
        return others
    return tuple(sorted((*others, Doubt(broker_id, found)), key=lambda each: each.broker_id))


def check_unregister(image: MetadataImage, broker_id: int) -> None:
    """Raises KafkaError when the broker cannot be unregistered now."""
    if broker_id not in image.brokers:
        raise KafkaError(ErrorCode.broker_id_not_registered, f"no broker {broker_id}")
    held = sum(
        broker_id in entry.replicas for topic in image.topics.values() for entry in topic.partitions
    )
    if held:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"broker {broker_id} holds replicas of {held} partitions: reassign them first",
        )
    if len(image.brokers) == 1:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"broker {broker_id} is the last of its cluster, which would end with it",
        )


def unregister(image: MetadataImage, broker_id: int) -> MetadataImage:
    """The image without this broker. Raises KafkaError.

    BROKER_ID_NOT_REGISTERED; INVALID_REQUEST while it holds replicas, because their partitions
    would stay short of one, and for the last broker.
    """
    check_unregister(image, broker_id)
    brokers = {key: broker for key, broker in image.brokers.items() if key != broker_id}
    return replace(image, brokers=brokers, unregistered=image.unregistered | {broker_id})

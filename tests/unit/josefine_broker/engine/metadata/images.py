"""Images of a few brokers and partitions, in one line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.changes import At, Change
from josefine_broker.engine.metadata.image import (
    BrokerEntry,
    FeatureRange,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)

TERM = 5
TOPIC_ID = UUID(int=1)
TOPIC = "orders"


def broker(
    broker_id: int,
    *,
    fenced: bool = False,
    shutting_down: bool = False,
    unclean: bool = False,
    rack: str | None = None,
    features: tuple[FeatureRange, ...] = (),
) -> BrokerEntry:
    """A broker whose epoch is ten times its id."""
    return BrokerEntry(
        broker_id=broker_id,
        endpoints=(),
        rack=rack,
        epoch=10 * broker_id,
        incarnation=f"i{broker_id}",
        fenced=fenced,
        shutting_down=shutting_down,
        unclean=unclean,
        features=features,
    )


def partition(
    replicas: tuple[int, ...],
    *,
    leader: int | None = None,
    isr: tuple[int, ...] | None = None,
    leader_epoch: int = 3,
    partition_epoch: int = 7,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    elr: tuple[int, ...] = (),
) -> PartitionEntry:
    """Led by its first replica, all in sync, unless said otherwise."""
    return PartitionEntry(
        leader=replicas[0] if leader is None else leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        adding=adding,
        removing=removing,
        elr=elr,
    )


def image_of(
    partitions: Iterable[PartitionEntry] = (),
    brokers: Iterable[BrokerEntry | int] = (1, 2, 3),
    **config: str,
) -> MetadataImage:
    """One topic; brokers given as numbers are live. `min_insync_replicas="2"` sets a config."""
    entries = [each if isinstance(each, BrokerEntry) else broker(each) for each in brokers]
    pairs = tuple(sorted((name.replace("_", "."), value) for name, value in config.items()))
    topic = TopicEntry(name=TOPIC, topic_id=TOPIC_ID, partitions=tuple(partitions), config=pairs)
    return MetadataImage(
        cluster_id="c",
        brokers={each.broker_id: each for each in entries},
        topics={TOPIC: topic},
        topic_names={TOPIC_ID: TOPIC},
    )


def only(image: MetadataImage) -> PartitionEntry:
    """The partition of an image with one."""
    (entry,) = image.topics[TOPIC].partitions
    return entry


def with_broker(image: MetadataImage, broker_id: int, **changes: bool) -> MetadataImage:
    entry = replace(image.brokers[broker_id], **changes)
    return replace(image, brokers={**image.brokers, broker_id: entry})


def after(
    image: MetadataImage, change: Change, *, term: int = TERM, height: int = 100
) -> MetadataImage:
    return apply(image, change, At(term, height))

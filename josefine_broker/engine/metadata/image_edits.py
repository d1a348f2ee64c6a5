"""Edits of an image: copies with some topics or partitions replaced.

Rules: unchanged parts are shared, and replacing an entry by itself changes nothing, so that readers
detect changes by identity.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from josefine_broker.engine.metadata.changes import IsrItem, PartitionState, ReassignItem
from josefine_broker.engine.metadata.image import MetadataImage, PartitionEntry, TopicEntry

Item = TypeVar("Item", PartitionState, IsrItem, ReassignItem)


def with_topic(image: MetadataImage, topic: TopicEntry) -> MetadataImage:
    """The image with this topic, added or in place of the one with the same name."""
    return replace(image, topics={**image.topics, topic.name: topic})


def with_topics(image: MetadataImage, topics: Iterable[TopicEntry]) -> MetadataImage:
    """The image with these topics. Topics that are the same objects as before are skipped; if all
    are, the image itself is returned."""
    changed = {topic.name: topic for topic in topics if topic is not image.topics[topic.name]}
    return replace(image, topics={**image.topics, **changed}) if changed else image


def each_partition(
    image: MetadataImage, make: Callable[[UUID, int, PartitionEntry], PartitionEntry]
) -> MetadataImage:
    """The image with each partition replaced by `make(topic id, index, entry)`, which may return
    the entry unchanged."""
    return with_topics(
        image,
        (
            with_partitions(
                topic,
                [make(topic.topic_id, index, each) for index, each in enumerate(topic.partitions)],
            )
            for topic in image.topics.values()
        ),
    )


def with_partitions(topic: TopicEntry, partitions: Sequence[PartitionEntry]) -> TopicEntry:
    """The topic with these partitions, as many as before; itself if all are unchanged."""
    same = all(a is b for a, b in zip(partitions, topic.partitions, strict=True))
    return topic if same else replace(topic, partitions=tuple(partitions))


def with_items(
    image: MetadataImage,
    items: Iterable[Item],
    make: Callable[[PartitionEntry, Item], PartitionEntry],
) -> MetadataImage:
    """The image with each item's partition replaced; one copy per topic, for any number of its
    partitions."""
    by_topic: dict[UUID, dict[int, Item]] = {}
    for item in items:
        by_topic.setdefault(item.topic_id, {})[item.partition] = item
    topics = []
    for topic_id, wanted in by_topic.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            partitions = list(topic.partitions)
            for index, item in wanted.items():
                if 0 <= index < len(partitions):
                    partitions[index] = make(partitions[index], item)
            topics.append(with_partitions(topic, partitions))
    return with_topics(image, topics)

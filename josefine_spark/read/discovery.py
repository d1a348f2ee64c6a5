"""Discovery of a subscription's topics, ids, partitions and bounds on the brokers.

All requests of the driver to the brokers are here; nothing is decided here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import TopicMetadata
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_spark.base.errors import OptionError
from josefine_spark.base.topic_offsets import TopicIds
from josefine_spark.options.options import Subscription
from josefine_spark.read.offsets import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The partitions of a subscription at one moment."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: TopicIds


def discover(client: BlockingClient, subscription: Subscription, *, must_exist: bool) -> Found:
    """Request the subscribed topics. With `must_exist`, raises OptionError for missing ones."""
    names = subscription.names
    topics = client.metadata(names).topics
    if subscription.pattern is not None:
        pattern = re.compile(subscription.pattern)
        topics = {
            name: topic
            for name, topic in topics.items()
            if pattern.fullmatch(name) and not topic.is_internal
        }
    there = {name: topic for name, topic in topics.items() if topic.partitions}
    if must_exist and names is not None:
        absent = [name for name in names if name not in there]
        if absent:
            verb = "does" if len(absent) == 1 else "do"
            raise OptionError(f"topic {', '.join(absent)} {verb} not exist")
    partitions = _assigned(subscription, there, must_exist)
    return Found(
        partitions=tuple(sorted(partitions)),
        topic_ids={
            name: str(topic.topic_id) if topic.topic_id is not None else ""
            for name, topic in sorted(there.items())
        },
    )


def _assigned(
    subscription: Subscription, there: Mapping[str, TopicMetadata], must_exist: bool
) -> list[TopicPartition]:
    if not subscription.assigned:
        return [TopicPartition(name, p) for name, topic in there.items() for p in topic.partitions]
    wanted = [TopicPartition(name, p) for name, numbers in subscription.assigned for p in numbers]
    partitions = [
        tp for tp in wanted if tp.topic in there and tp.partition in there[tp.topic].partitions
    ]
    absent = sorted(set(wanted) - set(partitions))
    if must_exist and absent:
        raise OptionError(f"assign: no partition {', '.join(str(tp) for tp in absent)}")
    return partitions


def latest_offsets(
    client: BlockingClient, partitions: Iterable[TopicPartition], *, read_committed: bool
) -> dict[TopicPartition, int]:
    """The end offset of each partition for this reader's isolation level."""
    return _listed(client, dict.fromkeys(partitions, LATEST), read_committed)


def earliest_offsets(
    client: BlockingClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The log start offset of each partition."""
    return _listed(client, dict.fromkeys(partitions, EARLIEST), False)


def all_bounds(
    client: BlockingClient, partitions: Iterable[TopicPartition], *, read_committed: bool
) -> dict[TopicPartition, Bounds]:
    """Both bounds; the starts are requested first, so that they cannot exceed the ends."""
    earliest = earliest_offsets(client, partitions)
    latest = latest_offsets(client, partitions, read_committed=read_committed)
    return {tp: Bounds(earliest[tp], max(earliest[tp], latest[tp])) for tp in earliest}


def offsets_at(
    client: BlockingClient, timestamps: Mapping[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, int]:
    """The first offset at or after each timestamp (ms), -1 where no record is that late."""
    return _listed(client, timestamps, read_committed)


def _listed(
    client: BlockingClient, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, int]:
    if not wanted:
        return {}
    listed = client.list_offsets(wanted, isolation_level=1 if read_committed else 0)
    return {tp: one.offset for tp, one in listed.items()}

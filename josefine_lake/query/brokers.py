"""What a query asks of brokers: names, configs, the group's offsets, and the logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.leases import GROUP
from josefine_lake.query.tail import Log
from josefine_lake.writer.start import Topic
from josefine_lake.writer.topic_reader import TopicReader
from josefine_spark.base.topic_offsets import ByPartition


class Reader(Log, Protocol):
    """The log of one topic."""

    def look(self) -> Topic:
        """The topic's id, and the start and end offset of each partition. Raises KafkaError."""
        ...

    def stable_ends(self, partitions: ByPartition) -> ByPartition:
        """The last stable offset of each partition. Raises KafkaError."""
        ...


class Brokers(Protocol):
    """Each raises KafkaError."""

    def topics(self) -> Collection[str]:
        """The names of all topics that the client may see."""
        ...

    def configs(self, topic: str) -> Mapping[str, str | None]:
        """The configs of a topic, defaults included; the value of a sensitive one is None."""
        ...

    def committed(self, topic: str) -> ByPartition:
        """The offsets that the table writers' group has stored."""
        ...

    def reader(self, topic: str) -> Reader:
        """A reader of the topic's log; sends no request."""
        ...


class Cluster:
    """Brokers by a client."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def topics(self) -> Collection[str]:
        return list(self._client.metadata().topics)

    def configs(self, topic: str) -> Mapping[str, str | None]:
        found = self._client.describe_configs([topic])[topic]
        return {name: each.value for name, each in found.items()}

    def committed(self, topic: str) -> ByPartition:
        partitions = self._client.metadata([topic]).partitions_of(topic)
        return self._client.committed_offsets(GROUP, partitions)

    def reader(self, topic: str) -> Reader:
        return TopicReader(self._client, topic)

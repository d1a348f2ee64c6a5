"""Names for the integers and strings of the field, so that two of them cannot be swapped.

`end_offset` is exclusive and `last_offset` inclusive everywhere in this project.
"""

from typing import NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", UUID)

NO_TOPIC_ID = TopicId(UUID(int=0))
"""Kafka's "no id" on the wire (KIP-516)."""


class TopicPartition(NamedTuple):
    """A partition by name. A NamedTuple because it is a dict key on the data path."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

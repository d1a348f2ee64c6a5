"""Names for integers of the field that stand beside others, so that mypy sees the two swapped.

An epoch stands beside an offset, a sequence or another kind of epoch wherever it is used, and is
handed on far more often than it is computed: a type of its own costs nothing at run time. What is
computed at each step (offsets) or has a type in Raft already (ids of brokers) is a plain integer.

`end_offset` is exclusive and `last_offset` inclusive everywhere in this project.
"""

from typing import NamedTuple, NewType
from uuid import UUID

LeaderEpoch = NewType("LeaderEpoch", int)
"""Of a partition: how many leaders it had. What comes from the wire becomes one where it enters."""
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", UUID)


class TopicPartition(NamedTuple):
    """A partition by name. A NamedTuple because it is a dict key on the data path."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

"""The shapes of Produce, coded by hand.

kio copies records and refuses a writable buffer, but the broker stamps the base offset in place, so
this message and Fetch are coded by hand; tests compare both with kio byte for byte. NamedTuples,
not frozen dataclasses: they are three times as fast to create, and the data path creates three per
batch.

What changed when: 1 throttle time, 2 log append time, 3 transactional id (KIP-98), 5 log start
offset, 8 record errors (KIP-467), 9 flexible (KIP-482), 10 current leader (KIP-951), 13 topic ids
(KIP-516). Versions 0 to 2 are for the message formats before record batches; librdkafka before
2.11 does not compress for a broker that has not got version 0 (KAFKA-18659).
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

TRANSACTION_SINCE = 3
LEADER_SINCE = 10
ID_SINCE = 13


class ProducePartition(NamedTuple):
    """Records for one partition: a slice of the frame, writable when the frame is."""

    index: int  # type: ignore[assignment]
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """Until version 12 by name and `topic_id` is None; since 13 by id and `name` is empty."""

    name: str
    topic_id: UUID | None
    partitions: tuple[ProducePartition, ...]


class ProduceRequest(NamedTuple):
    """Records for partitions; acks 0 needs no answer, 1 the leader's, -1 that of the whole ISR."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: tuple[ProduceTopic, ...]


class RecordError(NamedTuple):
    """The reason why one record of a batch made the broker refuse the batch (KIP-467)."""

    batch_index: int
    message: str | None


class ProducePartitionResponse(NamedTuple):
    """Offset of the records of one partition, or the error; `leader_*` since version 10."""

    index: int  # type: ignore[assignment]
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    leader_id: int = -1
    leader_epoch: int = -1


class ProduceTopicResponse(NamedTuple):
    """Partitions of one topic, named as in the request."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[ProducePartitionResponse]


class NodeEndpoint(NamedTuple):
    """The address of a new leader (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class ProduceResponse(NamedTuple):
    """One answer per partition."""

    topics: Sequence[ProduceTopicResponse]
    throttle_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()

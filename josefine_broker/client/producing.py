"""The accumulating producer without I/O: records in, numbered batches out, one per partition.

Rules: batches of a partition leave in the order they were sealed and one at a time, so a retry can
never overtake. With an identity every batch carries the sequence of its first record (KIP-98). A
batch is sealed when the next record would not fit, or on `seal_all`. There is no linger: the shell
decides when to drain. After a failed batch no record is accepted, because its sequence numbers are
lost and the partition's order with them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.client.produce import UNKNOWN_OFFSET
from josefine_broker.records.builder import RECORD_OVERHEAD_BYTES_MAX, RecordBatchBuilder

Headers = Sequence[tuple[str, bytes | None]]

BATCH_BYTES_MAX = 1_000_000
"""Under the 1,048,588 bytes that a broker takes by default (`message.max.bytes`)."""

BUFFER_BYTES_MAX = 8 * 1024 * 1024
"""Sealed and open batches of one producer; beyond that the shell must drain before it adds."""

SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedBatch:
    """A batch that takes no more records and waits to be sent."""

    partition: TopicPartition
    data: bytearray
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Acknowledged records of one partition. Offsets are -1 if the broker did not return them."""

    record_count: int
    first_offset: int
    last_offset: int


class _SealedBatches:
    """Complete batches that wait to be sent, in order for each partition. Mutable."""

    __slots__ = ("_queues", "size_bytes")

    def __init__(self) -> None:
        self._queues: dict[TopicPartition, deque[SealedBatch]] = {}
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, batch: SealedBatch) -> None:
        self._queues.setdefault(batch.partition, deque()).append(batch)
        self.size_bytes += len(batch.data)

    def take_oldest(self) -> dict[TopicPartition, SealedBatch]:
        """Remove the oldest batch of each partition: only one of a partition may be in flight."""
        taken = {tp: queue.popleft() for tp, queue in self._queues.items()}
        self._queues = {tp: queue for tp, queue in self._queues.items() if queue}
        self.size_bytes -= sum(len(batch.data) for batch in taken.values())
        return taken


class Accumulator:
    """All unsent records of one producer."""

    __slots__ = (
        "_batch_bytes_max",
        "_compression",
        "_delivered",
        "_error",
        "_identity",
        "_in_flight",
        "_open",
        "_open_bytes",
        "_rng",
        "_sealed",
        "_sequences",
        "_sticky",
    )

    def __init__(
        self,
        identity: ProducerIdentity | None,
        rng: Random,
        *,
        compression: int = 0,
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        self._identity = identity
        self._rng = rng
        self._compression = compression
        self._batch_bytes_max = batch_bytes_max
        self._open: dict[TopicPartition, RecordBatchBuilder] = {}
        self._open_bytes = 0
        self._sealed = _SealedBatches()
        self._sequences: dict[TopicPartition, int] = {}
        self._sticky: dict[str, int] = {}
        self._in_flight: dict[TopicPartition, SealedBatch] = {}
        self._delivered: dict[TopicPartition, Delivered] = {}
        self._error: KafkaError | None = None

    @property
    def buffered_bytes(self) -> int:
        return self._open_bytes + self._sealed.size_bytes

    @property
    def has_sealed(self) -> bool:
        return bool(self._sealed)

    @property
    def delivered(self) -> dict[TopicPartition, Delivered]:
        return dict(self._delivered)

    def choose_partition(self, topic: str, key: bytes | None, partition_count: int) -> int:
        """By key, otherwise the partition that keyless records of the topic fill now: one batch
        after another, partition by partition (KIP-480), because full batches cost the broker
        least."""
        if key is not None:
            return partition_for_key(key, partition_count)
        chosen = self._sticky.get(topic)
        if chosen is None or chosen >= partition_count:
            chosen = self._rng.randrange(partition_count)
            self._sticky[topic] = chosen
        return chosen

    def append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
    ) -> None:
        """Add one record. Raises the error of an earlier batch."""
        if self._error is not None:
            # Each raise of one error adds the caller's frames to it, with their records.
            raise self._error.with_traceback(None)
        builder = self._open.get(tp)
        size = _record_bytes_max(key, value, headers)
        if builder is not None and builder.size_bytes + size > self._batch_bytes_max:
            self._seal(tp)
            builder = None
        if builder is None:
            builder = self._open[tp] = RecordBatchBuilder()
        before = builder.size_bytes if builder.record_count else 0
        builder.append(key, value, headers, timestamp_ms)
        self._open_bytes += builder.size_bytes - before

    def seal_all(self) -> None:
        for tp in list(self._open):
            self._seal(tp)

    def _seal(self, tp: TopicPartition) -> None:
        builder = self._open.pop(tp)
        self._open_bytes -= builder.size_bytes
        self._sticky.pop(tp.topic, None)
        data = self._build(tp, builder)
        count = builder.record_count
        self._sealed.add(SealedBatch(partition=tp, data=data, record_count=count))

    def _build(self, tp: TopicPartition, builder: RecordBatchBuilder) -> bytearray:
        if self._identity is None:
            return builder.build(compression=self._compression)
        sequence = self._sequences.get(tp, 0)
        self._sequences[tp] = (sequence + builder.record_count) & SEQUENCE_MASK
        return builder.build(
            compression=self._compression,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=sequence,
        )

    def take(self) -> dict[TopicPartition, bytearray]:
        """The oldest sealed batch of each partition, to be written now; `settle` each of them."""
        assert not self._in_flight, "the batches taken before are not settled"
        self._in_flight = self._sealed.take_oldest()
        return {tp: batch.data for tp, batch in self._in_flight.items()}

    def settle(self, tp: TopicPartition, base_offset: int, error: KafkaError | None) -> None:
        """Take the result of the batch of `tp` that `take` returned."""
        batch = self._in_flight.pop(tp)
        if error is not None:
            self._error = self._error or error
            return
        known = base_offset != UNKNOWN_OFFSET
        last = base_offset + batch.record_count - 1 if known else UNKNOWN_OFFSET
        before = self._delivered.get(tp)
        count = batch.record_count + (before.record_count if before else 0)
        first = before.first_offset if before and before.first_offset >= 0 else base_offset
        self._delivered[tp] = Delivered(record_count=count, first_offset=first, last_offset=last)

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)


def _record_bytes_max(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
    for name, header_value in headers:
        size += 10 + 4 * len(name) + len(header_value or b"")
    return size

"""The writer of one task: Arrow batches in, acknowledged record batches out.

Rules: one request is in flight, with the batches of a partition in order; a transient error (a
broker restarts, a leader moves) is retried until the delivery timeout; a batch that is too large
for its topic is sent in pieces; any other error fails the task.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.batches.encoder import Encoder, Identity, Sealed
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.operations import Outcome
from josefine_broker.client.retry import Action, action_for
from josefine_spark.base.errors import SinkError, reason
from josefine_spark.options.options import SinkOptions
from josefine_spark.write.batch_splitter import split
from josefine_spark.write.delivery import DeliveryCounts

T = TypeVar("T")

SEALED_BYTES_MAX = 4 * 1024 * 1024
"""Finished record batches that may wait to be sent: a request with several batches costs little
more than a request with one."""

TOO_LARGE = {ErrorCode.message_too_large, ErrorCode.record_list_too_large}
"""The batch exceeds the topic's max.message.bytes or its segment.bytes."""

UNKNOWN = {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
"""The topic does not exist: the client returns this only after a wait for new metadata."""


def monotonic_ms() -> int:
    """Milliseconds of the monotonic clock."""
    return time.monotonic_ns() // 1_000_000


class TaskWriter:
    """Writes the rows of one task. `delivery` counts what was acknowledged, per topic."""

    def __init__(
        self,
        client: BlockingClient,
        options: SinkOptions,
        turn: int,
        now_ms: Callable[[], int] = monotonic_ms,
        identity: Identity | None = None,
    ) -> None:
        """`turn`: the partition at which rows without a key start; `identity`: the producer (None:
        a new one). Raises KafkaError when no broker assigns a producer id."""
        self.delivery = DeliveryCounts()
        self._client = client
        self._options = options
        self._now_ms = now_ms
        self._counts: dict[str, int] = {}
        self._identity = identity or self._new_identity()
        self._encoder = Encoder(
            self._identity,
            batch_bytes=options.batch_bytes,
            compression=options.compression,
            hash_keys=options.hash_keys,
            turn=turn,
        )

    def add(self, batch: Any, timestamp_ms: int) -> None:
        """Add the rows of an Arrow batch; sends finished record batches."""
        if batch.num_rows == 0:
            return
        names = batch.schema.names
        nulls = pa.nulls(batch.num_rows, pa.binary())
        topics = self._topics(batch)
        headers = None
        if self._options.include_headers and "headers" in names:
            headers = batch.column("headers")
            _check_headers(headers)
        self._encoder.add(
            batch.column("key") if "key" in names else nulls,
            batch.column("value"),
            headers,
            _partitions(batch, topics),
            topics,
            timestamp_ms,
        )
        while self._encoder.sealed_bytes > SEALED_BYTES_MAX:
            self._send()

    def flush(self, timestamp_ms: int) -> None:
        """Send the rest; every row is acknowledged when this returns."""
        self._encoder.seal_all(timestamp_ms)
        while self._encoder.sealed_bytes:
            self._send()

    def _send(self) -> None:
        """Send one batch per partition, until each is acknowledged or split."""
        waiting = self._encoder.take()
        deadline_ms = self._now_ms() + self._options.delivery_timeout_ms
        while waiting:
            outcomes = self._client.produce_outcomes(
                {tp: batch.data for tp, batch in waiting.items()},
                acks=self._options.acks,
                timeout_ms=self._timeout_ms(deadline_ms),
                transactional_id=self._identity.transactional_id,
            )
            for tp, outcome in outcomes.items():
                if self._settle(tp, waiting[tp], outcome, deadline_ms):
                    del waiting[tp]

    def _settle(
        self, tp: TopicPartition, batch: Sealed, outcome: Outcome, deadline_ms: int
    ) -> bool:
        """Handle a partition's outcome; False: send the same batch again. Raises SinkError."""
        counts = self.delivery.of(tp.topic)
        counts.passed(outcome.passed)
        error = outcome.error
        if error is None:
            counts.acknowledged(batch.records, len(batch.data))
            return True
        # The broker has rejected the whole batch, so its records and sequence numbers can be sent
        # again in smaller batches.
        if error.code in TOO_LARGE:
            self._split(tp, batch, error)
            counts.splits += 1
            return True
        if not _may_pass(error.code) or self._now_ms() >= deadline_ms:
            raise SinkError(f"topic {tp.topic}, partition {tp.partition}: {reason(error)}")
        counts.passed((error.code,))
        return False

    def _split(self, tp: TopicPartition, batch: Sealed, error: KafkaError) -> None:
        limit = self._bytes_max(tp.topic)
        if batch.records == 1:
            known = "" if limit is None else f", which is {limit}"
            raise SinkError(
                f"topic {tp.topic}, partition {tp.partition}: a record of {len(batch.data)} bytes "
                f"is larger than the topic's max.message.bytes{known}"
            ) from error
        self._encoder.put_back(tp, split(batch, limit))
        # Later batches should fit at once. The encoder counts bytes before compression, so the
        # limit is scaled by the compression ratio of this batch.
        fits = len(batch.data) // 2 if limit is None else min(limit, len(batch.data))
        self._encoder.limit(tp.topic, fits * batch.raw_bytes // len(batch.data))

    def _bytes_max(self, topic: str) -> int | None:
        """The topic's max.message.bytes; None: the broker does not report it."""
        try:
            value = self._client.describe_configs([topic])[topic]["max.message.bytes"].value
            return int(value or "")
        except (KafkaError, KeyError, ValueError):
            return None

    def _timeout_ms(self, deadline_ms: int) -> int:
        left_ms = max(1, deadline_ms - self._now_ms())
        return min(left_ms, self._options.connection.request_timeout_ms)

    def _patiently(self, ask: Callable[[int], T]) -> T:
        """`ask(timeout_ms)`, with retries after transient errors while time is left. Raises
        KafkaError."""
        deadline_ms = self._now_ms() + self._options.max_block_ms
        while True:
            try:
                return ask(self._timeout_ms(deadline_ms))
            except KafkaError as error:
                if not _may_pass(error.code) or self._now_ms() >= deadline_ms:
                    raise

    def _new_identity(self) -> Identity:
        if self._options.acks != -1 or not self._options.idempotent:
            return Identity()
        given = self._patiently(lambda ms: self._client.init_producer_id(timeout_ms=ms))
        return Identity(producer_id=given.producer_id, producer_epoch=given.producer_epoch)

    def _count(self, topic: str) -> int:
        """Partition count of a topic; the broker may create a missing one (auto creation)."""
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = self._patiently(
                lambda ms: self._client.partition_count(topic, create=True, timeout_ms=ms)
            )
        return count

    def _topics(self, batch: Any) -> dict[str, tuple[Any, int]]:
        """Row numbers and partition count per topic."""
        if self._options.topic is not None:
            rows = np.arange(batch.num_rows, dtype=np.int64)
            return {self._options.topic: (rows, self._count(self._options.topic))}
        column = batch.column("topic")
        if column.null_count:
            raise SinkError("a row has no topic: fill the column topic or set the option topic")
        codes = pc.dictionary_encode(column.cast(pa.string()))
        indices = codes.indices.to_numpy()
        return {
            name: (np.flatnonzero(indices == code), self._count(name))
            for code, name in enumerate(codes.dictionary.to_pylist())
        }


def _partitions(batch: Any, topics: dict[str, tuple[Any, int]]) -> Any:
    """The partition that each row asks for, -1: none."""
    if "partition" not in batch.schema.names:
        return np.full(batch.num_rows, -1, dtype=np.int64)
    column = batch.column("partition").cast(pa.int64())
    for topic, (rows, count) in topics.items():
        asked = pc.min_max(column.take(pa.array(rows))).as_py()
        if asked["min"] is not None and not 0 <= asked["min"] <= asked["max"] < count:
            wrong = asked["min"] if asked["min"] < 0 else asked["max"]
            raise SinkError(f"a row asks for partition {wrong} of topic {topic}, which has {count}")
    return pc.fill_null(column, -1).to_numpy()


def _check_headers(headers: Any) -> None:
    """Raises SinkError for a header that is null or has no key: a record cannot contain one."""
    entries = headers.values
    if not entries.null_count and not entries.field(0).null_count:
        return
    entries = headers.flatten()  # drops entries below null lists and outside of a slice
    if entries.null_count:
        raise SinkError("a row has a header that is null: filter such entries out of headers")
    if entries.field(0).null_count:
        raise SinkError("a row has a header without a key (its value may be null, its key not)")


def _may_pass(code: ErrorCode) -> bool:
    return action_for(code) in (Action.RETRY, Action.REFRESH) and code not in UNKNOWN

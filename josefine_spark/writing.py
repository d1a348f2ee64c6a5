"""A task's write: Arrow batches in, acknowledged record batches out.

Rules: one request in flight, the batches of a partition in order; a rejected batch ends the task.
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_broker.client.io_blocking import BlockingClient
from josefine_spark.encode import Encoder, Identity
from josefine_spark.errors import SinkError
from josefine_spark.options import SinkOptions

SEALED_BYTES_MAX = 4 * 1024 * 1024
"""Finished record batches that may wait to be sent: one request with several costs little more
than one with one."""


class TaskWriter:
    """Writes the rows of one task. `rows` counts what was acknowledged, per topic."""

    def __init__(self, client: BlockingClient, options: SinkOptions, turn: int) -> None:
        self.rows: Counter[str] = Counter()
        self.record_bytes = 0
        self._client = client
        self._options = options
        self._counts: dict[str, int] = {}
        self._encoder = _encoder(client, options, turn)

    def add(self, batch: Any, timestamp_ms: int) -> None:
        """Take the rows of an Arrow batch; sends what is finished."""
        if batch.num_rows == 0:
            return
        names = batch.schema.names
        nulls = pa.nulls(batch.num_rows, pa.binary())
        topics = self._topics(batch)
        with_headers = self._options.include_headers and "headers" in names
        self._encoder.add(
            batch.column("key") if "key" in names else nulls,
            batch.column("value"),
            batch.column("headers") if with_headers else None,
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
        taken = self._encoder.take()
        self._client.produce(
            {tp: batch.data for tp, batch in taken.items()}, acks=self._options.acks
        )
        for tp, batch in taken.items():
            self.rows[tp.topic] += batch.records
            self.record_bytes += len(batch.data)

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

    def _count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = self._client.partition_count(topic)
        return count


def _partitions(batch: Any, topics: dict[str, tuple[Any, int]]) -> Any:
    """The partition asked for per row, -1 where none is."""
    if "partition" not in batch.schema.names:
        return np.full(batch.num_rows, -1, dtype=np.int64)
    column = batch.column("partition").cast(pa.int64())
    for topic, (rows, count) in topics.items():
        asked = pc.min_max(column.take(pa.array(rows))).as_py()
        if asked["min"] is not None and not 0 <= asked["min"] <= asked["max"] < count:
            wrong = asked["min"] if asked["min"] < 0 else asked["max"]
            raise SinkError(f"a row asks for partition {wrong} of topic {topic}, which has {count}")
    return pc.fill_null(column, -1).to_numpy()


def _encoder(client: BlockingClient, options: SinkOptions, turn: int) -> Encoder:
    identity = Identity()
    if options.acks == -1:
        given = client.init_producer_id()
        identity = Identity(producer_id=given.producer_id, producer_epoch=given.producer_epoch)
    return Encoder(
        identity, batch_bytes=options.batch_bytes, compression=options.compression, turn=turn
    )

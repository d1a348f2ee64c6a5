"""Broker access of a topic sink: its topic, the sinks' records, and the write of a batch's rows.

It decides nothing: `topic_commits` does, with the protocol of `josefine_spark.write.protocol`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_spark.base.errors import SinkError
from josefine_spark.options.connections import client_for, drop_client
from josefine_spark.options.options import DELIVERY_TIMEOUT_MS, TRANSACTION_TIMEOUT_MS
from josefine_spark.sessions.registration import make_active
from josefine_spark.write.coordinator_store import SinkStore, all_sinks
from josefine_spark.write.protocol import Steps
from josefine_spark.write.state import Batch, SinkState
from pipelines.base.errors import RunError, SetupError
from pipelines.base.finding import reason_of
from pipelines.model.pipeline import Sink
from pipelines.model.security import connection_of, options_of_security
from pipelines.model.topic import SinkTopic
from pipelines.sources.josefine import LOOK_TIMEOUT_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TopicLedger:
    """The records in one cluster's `__josefine_sinks`. Every call asks the brokers."""

    def __init__(self, target: SinkTopic) -> None:
        """The cluster of this topic. Raises SetupError if its `security` cannot be read."""
        where = f"topic {target.topic} at {target.bootstrap}"
        self._connection = connection_of(where, target.bootstrap, target.security, LOOK_TIMEOUT_MS)

    def run(self, sink: str, steps: Steps) -> Any:
        """Run the steps to their end; return their result. Raises RunError."""
        client = client_for(self._connection, writing=True)
        store = SinkStore(client, sink, TRANSACTION_TIMEOUT_MS, DELIVERY_TIMEOUT_MS)
        try:
            return store.run(steps)
        except SinkError as error:
            if isinstance(error.__cause__, KafkaError):
                drop_client(self._connection, writing=True)
            raise RunError(str(error)) from error

    def all(self) -> Mapping[str, SinkState]:
        """Every sink's record, by its id; reads only. Raises RunError."""
        try:
            return all_sinks(client_for(self._connection, writing=True), DELIVERY_TIMEOUT_MS)
        except (KafkaError, OSError, CorruptData) as error:
            drop_client(self._connection, writing=True)
            raise RunError(f"{self._connection.bootstrap}: {reason_of(error)}") from error


def topic_id_of(sink: Sink, target: SinkTopic) -> str:
    """The id of the sink's topic. Raises SetupError if it does not exist or no broker answers."""
    where = f"sink `{sink.name}` at {target.bootstrap}"
    connection = connection_of(where, target.bootstrap, target.security, LOOK_TIMEOUT_MS)
    try:
        found = client_for(connection, writing=True).metadata([target.topic]).topics[target.topic]
    except (KafkaError, OSError) as error:
        drop_client(connection, writing=True)
        raise SetupError(f"{where}: {reason_of(error)}") from error
    if found.error_code is ErrorCode.unknown_topic_or_partition:
        raise SetupError(
            f"{where}: topic {target.topic} does not exist: "
            f"josefine topics create {target.topic} -b {target.bootstrap}"
        )
    if found.error_code is not ErrorCode.none:
        raise SetupError(f"{where}: topic {target.topic}: {found.error_code.name}")
    return str(found.topic_id) if found.topic_id is not None else ""


class RowWriter:
    """Writes a batch's rows with `format("josefine")`. Called in a query's own thread."""

    def __init__(self, target: SinkTopic) -> None:
        self._target = target

    def __call__(self, rows: DataFrame, sink: str, batch: Batch) -> int:
        """Write the rows; return their number. Raises Spark's errors."""
        target = self._target
        options = {"bootstrapServers": target.bootstrap, "topic": target.topic}
        options |= options_of_security(target.security)
        if target.exactly_once:
            options |= {
                "delivery": "exactly_once",
                "sinkId": sink,
                "batchId": str(batch.batch_id),
                "batchFingerprint": batch.fingerprint,
                "batchNote": batch.note,
            }
        with tempfile.TemporaryDirectory(prefix="josefine-") as folder:
            log = os.path.join(folder, "delivered")
            options["deliveryLog"] = log
            make_active(rows.sparkSession)
            rows.write.format("josefine").mode("append").options(**options).save()
            return _delivered(log, target.topic)


def _delivered(log: str, topic: str) -> int:
    """The number of records in the delivery log of a write; 0 if it has none."""
    with open(log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return sum(int(line["topics"].get(topic, {}).get("records", 0)) for line in lines)

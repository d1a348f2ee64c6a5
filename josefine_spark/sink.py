"""Writes into topics, batch and streaming, with the columns of Spark's own Kafka sink.

Rules: a task answers only when every row of it is acknowledged; inside one task a retry writes
nothing twice (idempotent producer); a task or batch that runs again writes again: at least once.
`exactly_once` has the other way.
"""

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from josefine_broker.base.errors import KafkaError
from josefine_spark.base.errors import SinkError, reason
from josefine_spark.options.connections import client_for, drop_client
from josefine_spark.options.options import SinkOptions
from josefine_spark.write.columns import check_columns
from josefine_spark.write.delivery_log import TaskWritten, check_delivery_log, log_delivery


class _Writer:
    """What both writers share. Built on the driver, pickled to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        check_delivery_log(options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """In a task: all rows of its Arrow batches, acknowledged."""
        from josefine_spark.write.task_writer import TaskWriter

        connection = self._options.connection
        try:
            client = client_for(connection, writing=True)
            writer = TaskWriter(client, self._options, random.randrange(1 << 16))
            for batch in iterator:
                writer.add(batch, time.time_ns() // 1_000_000)
            writer.flush(time.time_ns() // 1_000_000)
        except KafkaError as error:
            drop_client(connection, writing=True)
            raise SinkError(f"rows could not be written: {reason(error)}") from error
        except BaseException:
            drop_client(connection, writing=True)
            raise
        return TaskWritten(writer.delivery)


class JosefineWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("josefine")`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log_delivery(messages, None, self._options.delivery_log)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What tasks have written stays written: at least once."""


class JosefineStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("josefine")`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        log_delivery(messages, batchId, self._options.delivery_log)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What tasks have written stays written: at least once."""

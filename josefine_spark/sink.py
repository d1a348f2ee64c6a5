"""The at-least-once writers, batch and streaming, with the columns of Spark's own Kafka sink.

Rules: a task returns only after all of its rows are acknowledged; a retry within a task writes no
duplicates (idempotent producer); a task or batch that runs again writes its rows again.
`write/exactly_once.py` has the exactly-once writers.
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
    """Common base of both writers. Created on the driver and pickled to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        check_delivery_log(options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """In a task: write all rows of its Arrow batches and wait for the acknowledgements. Raises
        SinkError."""
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
    """The writer of `df.write.format("josefine")`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, after the last task: log the delivery counts of all of them."""
        log_delivery(messages, None, self._options.delivery_log)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Does nothing: written rows stay in the topic (at least once)."""


class JosefineStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream.format("josefine")`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The same for one micro-batch."""
        log_delivery(messages, batchId, self._options.delivery_log)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: written rows stay in the topic (at least once)."""

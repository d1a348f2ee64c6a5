"""Writes into topics, batch and streaming, with the columns of Spark's own Kafka sink.

Rules: a task answers only when every row of it is acknowledged; inside one task a retry writes
nothing twice (idempotent producer); a task or batch that runs again writes again: at least once.
`exactly_once` has the other way.
"""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from josefine_broker.base.errors import KafkaError
from josefine_spark.connections import client_for, drop_client
from josefine_spark.delivery import DeliveryCounts, append_line
from josefine_spark.errors import OptionError, SinkError, reason
from josefine_spark.options import SinkOptions

log = logging.getLogger("josefine.spark.delivery")
log.setLevel(logging.INFO)  # a Python worker's own level is WARNING

_TEXT_OR_BYTES = (StringType, BinaryType)
COLUMNS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "key": (_TEXT_OR_BYTES, "string or binary"),
    "value": (_TEXT_OR_BYTES, "string or binary"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "headers": ((ArrayType,), "array<struct<key:string,value:binary>>"),
}


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task wrote."""

    delivery: DeliveryCounts = field(default_factory=DeliveryCounts)


class _Writer:
    """What both writers share. Built on the driver, pickled to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        check_delivery_log(options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> TaskWritten:
        """In a task: all rows of its Arrow batches, acknowledged."""
        from josefine_spark.writing import TaskWriter

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


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Names and types of the columns written. Raises OptionError; other columns are left out."""
    types = {one.name: one.dataType for one in schema.fields}
    if "value" not in types:
        raise OptionError(f"a column named value is needed; there are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise OptionError("where to? Set the option topic, or give a column named topic")
    for name, (allowed, words) in COLUMNS.items():
        if schema.names.count(name) > 1:
            raise OptionError(
                f"{schema.names.count(name)} columns are named {name}, as after a join: select "
                "the one to be written"
            )
        if name in types and not isinstance(types[name], allowed):
            raise OptionError(f"column {name} must be {words}, not {types[name].simpleString()}")
    headers = types.get("headers")
    if isinstance(headers, ArrayType) and not _is_header(headers.elementType):
        raise OptionError(f"column headers must be {COLUMNS['headers'][1]}")


def _is_header(kind: DataType) -> bool:
    if not isinstance(kind, StructType) or kind.fieldNames() != ["key", "value"]:
        return False
    return isinstance(kind["key"].dataType, StringType) and isinstance(
        kind["value"].dataType, BinaryType
    )


def check_delivery_log(options: SinkOptions) -> None:
    """Raises OptionError where no line can be written."""
    if options.delivery_log is None:
        return
    try:
        append_line(Path(options.delivery_log), None)
    except OSError as error:
        raise OptionError(f"deliveryLog: {options.delivery_log}: {error.strerror}") from error


def log_delivery(
    messages: Sequence[WriterCommitMessage | None], batch_id: int | None, file: str | None
) -> None:
    """One JSON line of what all tasks of a write have delivered."""
    whole = DeliveryCounts()
    for message in messages:
        if isinstance(message, TaskWritten):
            whole.add(message.delivery)
    line = whole.line(batch_id)
    log.info("%s", line)
    if file is not None:
        try:
            append_line(Path(file), line)
        except OSError as error:  # the rows are there: no reason to fail
            log.warning("deliveryLog: %s: %s", file, error.strerror)

"""The data source `format("josefine")`: PySpark's entry to readers and writers, and the batch
reader.

The columns are those of Spark's own Kafka source. Light imports: PySpark loads this module in every
planner process.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from josefine_spark.base.errors import OptionError
from josefine_spark.base.gc_freeze import freeze_loaded
from josefine_spark.base.plain_errors import without_traceback
from josefine_spark.options.options import (
    Delivery,
    ReadOptions,
    SinkOptions,
    SourceOptions,
    UnreadableBatches,
)
from josefine_spark.options.table_options import (
    check_columns_named,
    is_of_table,
    is_only_written,
    options_with_table,
    plain_options,
    remember_options,
)
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.input_partitions import input_partitions, planning_client, read_task
from josefine_spark.read.source_options import source_options
from josefine_spark.read.stream_reader import JosefineStreamReader
from josefine_spark.write.sink_options import sink_options

log = logging.getLogger("josefine.spark")


class JosefineDataSource(DataSource):
    """PySpark's factory of readers and writers. Each method that takes a schema or reads options
    raises OptionError for one that is unknown, missing, contradictory or not of its type."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(plain_options(options))
        self._is_of_table = is_of_table(options)

    @classmethod
    def name(cls) -> str:
        return "josefine"

    @without_traceback
    def schema(self) -> StructType:
        """The columns, which follow from the options; connects to no broker."""
        columns = self._columns()
        freeze_loaded()
        return remember_options(columns, self.options) if self._is_of_table else columns

    def _columns(self) -> StructType:
        from josefine_spark.read.columns import written_schema

        if self._is_of_table and is_only_written(self.options):
            return written_schema()
        check_columns_named(self.options)
        return _columns_of(source_options(self.options, streaming=None).read)

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query."""
        given = options_with_table(self.options, schema, written=False)
        options = source_options(given, streaming=False)
        _check_schema(schema, options)
        _log_without_effect(options)
        return JosefineReader(options)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of a streaming query."""
        given = options_with_table(self.options, schema, written=False)
        options = source_options(given, streaming=True)
        _check_schema(schema, options)
        _log_without_effect(options)
        if options.read.loss_table is not None:
            from josefine_spark.read.loss_table import check_writable

            check_writable()
        return JosefineStreamReader(options)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of a batch query, for the option `delivery`."""
        from josefine_spark.sink import JosefineWriter

        if overwrite:
            raise OptionError(
                'a topic is append-only and cannot be overwritten: write with mode("append"), the '
                "only supported mode"
            )
        options = sink_options(options_with_table(self.options, schema, written=True))
        _log_without_effect(options)
        if options.delivery is Delivery.EXACTLY_ONCE:
            from josefine_spark.write.exactly_once import ExactlyOnceWriter

            return ExactlyOnceWriter(options, schema)
        return JosefineWriter(options, schema)

    @without_traceback
    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """The writer of a streaming query, for the option `delivery`."""
        from josefine_spark.sink import JosefineStreamWriter

        if overwrite:
            raise OptionError(
                "a topic is append-only and cannot be overwritten: write with "
                'outputMode("append") or "update"'
            )
        options = sink_options(options_with_table(self.options, schema, written=True))
        _log_without_effect(options)
        if options.delivery is Delivery.EXACTLY_ONCE:
            from josefine_spark.write.exactly_once import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options, schema)
        return JosefineStreamWriter(options, schema)


class JosefineReader(DataSourceReader):
    """The reader of a batch query: its ranges are fixed when it is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """On the driver: ask brokers for the bounds, and split them into tasks. Raises OptionError,
        KafkaError, DataLossError."""
        from josefine_spark.read.start_offsets import ranges

        client = planning_client(self._options.read)
        found, start, end = ranges(client, self._options, _wall_ms())
        wanted = [
            OffsetRange(
                partition=tp, topic_id=found.topic_ids[tp.topic], start=start[tp], end=end[tp]
            )
            for tp in found.partitions
        ]
        freeze_loaded()
        return input_partitions(self._options, wanted)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task: Arrow record batches of its offset range. Raises ReadError, DataLossError."""
        return read_task(self._options.read, partition)


_logged: set[tuple[str, ...]] = set()
"""Clauses that this process has logged: Spark creates a reader more than once per query."""


def _log_without_effect(options: SourceOptions | SinkOptions) -> None:
    if options.without_effect and options.without_effect not in _logged:
        _logged.add(options.without_effect)
        log.warning("options without effect here: %s", "; ".join(options.without_effect))


def _check_schema(given: StructType, options: SourceOptions) -> None:
    expected = _columns_of(options.read)
    if [(each.name, each.dataType) for each in given] != [
        (each.name, each.dataType) for each in expected
    ]:
        raise OptionError(
            f"the schema of this source is fixed: {expected.simpleString()}; leave .schema() out"
        )


def _columns_of(read: ReadOptions) -> StructType:
    from josefine_spark.read.columns import spark_schema
    from josefine_spark.read.json_schema import parse_schema

    objects = None if read.json is None else parse_schema(read.json.schema)
    marks = read.unreadable_batches is UnreadableBatches.AS_ROW
    return spark_schema(read.include_headers, read.columns, objects, marks_unreadable=marks)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000

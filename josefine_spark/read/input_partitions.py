"""The input partitions of PySpark's tasks, made from offset ranges by answers of a client, and the
read of one of them.

Light imports: PySpark loads this module in every planner process.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from josefine_spark.options.options import ReadOptions, SourceOptions
from josefine_spark.read.admission import OffsetRange, split_ranges


def input_partitions(options: SourceOptions, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    """One input partition per task, by `minPartitions` and `maxRecordsPerPartition`."""
    pieces = split_ranges(
        ranges,
        partitions_min=options.min_partitions,
        records_max=options.max_records_per_partition,
    )
    return [InputPartition(piece) for piece in pieces]


def planning_client(options: ReadOptions) -> Any:
    """The client that a planner asks for offsets."""
    from josefine_spark.options.connections import client_for
    from josefine_spark.read.offset_clients import offsets_client

    connection = options.connection
    return offsets_client(connection, options.archive, client_for(connection))


def read_task(options: ReadOptions, partition: InputPartition | None) -> Iterator[Any]:
    """The Arrow record batches of one task."""
    if partition is None or partition.value is None:
        # PySpark's placeholder for "no partitions": 4.1 passes None, 4.2 one with the value None.
        return iter(())
    from josefine_spark.read.task_reader import read_range

    return read_range(options, partition.value)

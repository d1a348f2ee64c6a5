"""The newest records of a source, read on the driver without Spark.

Records come as rows with the columns of `columns.columns_ddl`. They are read at once: a
person waits. Records of open and aborted transactions are read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import RunError
from pipelines.model.pipeline import Source
from pipelines.sources.at_once import client_at_once
from pipelines.sources.josefine import topics_of
from pipelines.sources.kinds import ANY_KIND, options_of
from pipelines.sources.local_records import Rate, Records, Row, records_of

if TYPE_CHECKING:
    from josefine_broker.client.fetch import Positions
    from josefine_broker.client.fetched import FetchedPartition
    from josefine_broker.client.io_blocking import BlockingClient

FETCH_BYTES_MAX = 4 * 1024 * 1024


def newest_rows(source: Source, count: int) -> list[Row]:
    """The newest `count` records of each partition; of files and lists, the first.

    Raises SetupError if brokers or files cannot be read, RunError for a damaged batch.
    """
    if source.local is not None:
        ends = ANY_KIND.look(source).latest.ends
        width = 8 if source.headers else 7
        return [row[:width] for row in local_rows(records_of(options_of(source)), ends, count)]
    with client_at_once(source) as client:
        return list(_newest(client, source, count))


def local_rows(records: Records, ends: ByPartition, count: int) -> Iterator[Row]:
    """The first `count` records of each partition; of a rate, the newest."""
    for tp, end in sorted(ends.items()):
        start = max(0, end - count) if isinstance(records, Rate) else 0
        yield from islice(records.read(tp, start, end), count)


def _newest(client: BlockingClient, source: Source, count: int) -> Iterator[Row]:
    from josefine_broker.base.errors import CorruptData, ErrorCode
    from josefine_broker.client.fetch import Positions
    from josefine_broker.client.operations import partition_error

    positions = Positions()
    for tp, bound in topics_of(client, source).bounds().items():
        positions.assign(tp, max(bound.earliest, bound.latest - count), bound.latest)
    while not positions.finished:
        for tp, part in client.fetch(positions.wanted(), bytes_max=FETCH_BYTES_MAX).items():
            if part.error_code is not ErrorCode.none:
                raise partition_error(tp, part.error_code, None)
            try:
                yield from _rows(tp, part, positions, headers=source.headers)
                # By batches, since a transaction's marker is an offset without a record.
                positions.advance(tp, part.records)
            except CorruptData as error:
                raise RunError(f"source `{source.name}`: partition {tp}: {error}") from error


def _rows(
    tp: TopicPartition, part: FetchedPartition, positions: Positions, *, headers: bool
) -> Iterator[Row]:
    from josefine_broker.client.fetch import records_between

    start = positions.position(tp)
    assert start is not None, tp
    for record in records_between(part.records, start, positions.end_offset(tp)):
        key, value = (None if d is None else bytes(d) for d in (record.key, record.value))
        at = datetime.fromtimestamp(max(0, record.timestamp_ms) / 1000, UTC)
        row = (key, value, tp.topic, tp.partition, record.offset, at, 0)
        yield (*row, list(record.headers)) if headers else row

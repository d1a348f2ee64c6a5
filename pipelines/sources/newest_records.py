"""The newest records of a source, read on the driver without Spark.

Records come as rows with the columns of `columns.columns_ddl`. A client of its own reads them, with
timeouts for a person who waits. Records of open and aborted transactions are read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import RunError, SetupError
from pipelines.model.pipeline import Source
from pipelines.model.security import security_of
from pipelines.sources.josefine import numbers_of
from pipelines.sources.kinds import ANY_KIND, options_of
from pipelines.sources.local_records import Rate, Records, Row, records_of

if TYPE_CHECKING:
    from josefine_broker.client.fetch import Positions
    from josefine_broker.client.fetched import FetchedPartition
    from josefine_broker.client.io_blocking import BlockingClient

BOOTSTRAP_TIMEOUT_MS = 2_000
"""A person waits: a wrong address is reported quickly."""
FETCH_BYTES_MAX = 4 * 1024 * 1024


def newest_rows(source: Source, count: int) -> list[Row]:
    """The newest `count` records of each partition; of files and lists, the first.

    Raises SetupError if brokers or files cannot be read, RunError for a damaged batch.
    """
    if source.local is not None:
        ends = ANY_KIND.look(source).latest.ends
        width = 8 if source.headers else 7
        return [row[:width] for row in local_rows(records_of(options_of(source)), ends, count)]
    with _client_of(source) as client:
        return list(_newest(client, source, count))


def local_rows(records: Records, ends: ByPartition, count: int) -> Iterator[Row]:
    """The first `count` records of each partition; of a rate, the newest."""
    for tp, end in sorted(ends.items()):
        start = max(0, end - count) if isinstance(records, Rate) else 0
        yield from islice(records.read(tp, start, end), count)


@contextmanager
def _client_of(source: Source) -> Iterator[BlockingClient]:
    from josefine_broker.base.errors import KafkaError
    from josefine_broker.client.io_blocking import BlockingClient, Policy
    from josefine_spark.base.errors import OptionError

    where = f"source `{source.name}` at {source.bootstrap}"
    try:
        policy = Policy(bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS)
        security = security_of(source.security)
        with BlockingClient(source.bootstrap, policy=policy, security=security) as client:
            yield client
    except (OptionError, KafkaError, OSError, ValueError) as error:
        reason = error.message if isinstance(error, KafkaError) else str(error)
        raise SetupError(f"{where}: {reason}") from error


def _newest(client: BlockingClient, source: Source, count: int) -> Iterator[Row]:
    from josefine_broker.base.errors import CorruptData, ErrorCode
    from josefine_broker.client.fetch import Positions
    from josefine_broker.client.operations import partition_error
    from josefine_spark.options.options import Subscription
    from josefine_spark.read.discovery import all_bounds, discover

    numbers = {topic: tuple(some) for topic, some in numbers_of(source.assigned).items()}
    topics = () if numbers else source.topics
    subscription = Subscription(
        topics=topics, pattern=source.pattern, assigned=tuple(numbers.items())
    )
    found = discover(client, subscription, must_exist=True)
    positions = Positions()
    for tp, bound in all_bounds(client, found.partitions, read_committed=False).items():
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

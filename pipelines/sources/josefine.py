"""The josefine source of a pipeline: offsets of its topics, the stream, committed group offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, nested
from josefine_spark.read.offsets import Bounds
from pipelines.base.errors import RunError, SetupError
from pipelines.exactly_once.offset_chain import Batch, together
from pipelines.model.pipeline import Format, OnError, Source
from pipelines.model.security import PREFIXES, connection_of, options_of_security

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from josefine_broker.client.io_blocking import BlockingClient
    from josefine_spark.options.options import Connection

LOOK_TIMEOUT_MS = 15_000
FIRST_TIMEOUT_MS = 2_000
"""Timeout of the first request: a wrong address should be reported quickly."""

_BATCH_OPTIONS = (
    "bootstrapServers",
    "subscribe",
    "subscribePattern",
    "assign",
    "kafka.isolation.level",
    "includeHeaders",
    "archive",
    "maxRecordsPerPartition",
)
"""The options of a stream that a batch read supports."""

_AS_ROW = {"unreadableBatches": "asRow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """The offsets of a source's topics at one moment."""

    earliest: ByPartition
    latest: TopicOffsets

    def bounds(self) -> dict[TopicPartition, Bounds]:
        """The start and end offset of each partition."""
        return {tp: Bounds(self.earliest.get(tp, 0), end) for tp, end in self.latest.ends.items()}

    def keep(self, ends: ByPartition) -> ByPartition:
        """The part of `ends` whose partitions are still read; no stream can start at the others."""
        return {partition: end for partition, end in ends.items() if partition in self.latest.ends}


def topics_together(found: Mapping[str, Topics]) -> Topics:
    """The offsets of all sources of a sink. Raises RunError if two sources share a topic."""
    named = [topic for each in found.values() for topic in each.latest.topic_ids]
    twice = next((topic for topic in named if named.count(topic) > 1), None)
    if twice is not None:
        names = " and ".join(f"`{name}`" for name in found)
        raise RunError(f"sources {names} have a topic in common, {twice}: no sink can join it")
    return Topics(
        earliest={p: start for each in found.values() for p, start in each.earliest.items()},
        latest=together(each.latest for each in found.values()),
    )


def topics_beside(source: Source, looked: Mapping[str, Topics]) -> set[str]:
    """Those of these topics that belong to other sources, which a source is joined with."""
    others = [found for name, found in looked.items() if name != source.name]
    return {topic for found in others for topic in found.latest.topic_ids}


def options_of(source: Source) -> dict[str, str]:
    """The connector's options for a source of the file."""
    limit, split = source.limit, source.split
    since, is_whole = source.start.option == "startingTimestamp", not source.assigned
    said = {
        "bootstrapServers": source.bootstrap,
        "subscribePattern": source.pattern,
        "subscribe": ",".join(source.topics) if is_whole and source.pattern is None else None,
        "assign": None if is_whole else json.dumps(numbers_of(source.assigned)),
        source.start.option: source.start.text,
        # A partition without a record since then starts at its end.
        "startingOffsetsByTimestampStrategy": "latest" if since else None,
        "maxOffsetsPerTrigger": limit.rows,
        "maxBytesPerTrigger": limit.bytes,
        "minOffsetsPerTrigger": limit.rows_min,
        "maxTriggerDelay": None if limit.delay_ms is None else f"{limit.delay_ms}ms",
        "maxRecordsPerPartition": split.rows,
        "minPartitions": split.tasks_min,
        "stopOffsets": json.dumps(nested(stop)) if (stop := _stop(source)) is not None else None,
        "kafka.isolation.level": "read_committed" if source.committed_only else None,
        "includeHeaders": "true" if source.headers else None,
        "archive": None if source.archive == "broker" else source.archive,
        **options_of_security(source.security),
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def batch_options_of(source: Source) -> dict[str, str]:
    """The options that a batch read supports. An unreadable record batch is a row if it becomes a
    dead letter."""
    options = options_of(source).items()
    known = {k: v for k, v in options if k in _BATCH_OPTIONS or k.startswith(PREFIXES)}
    return known | _unreadable_batches(source)


def numbers_of(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic → its partitions among these."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


def _stop(source: Source) -> ByPartition | None:
    """The end offsets of a run; None: those at its start, or not looked up yet."""
    return source.stop.offsets if source.stop and source.stop.is_by_offsets else None


def topics_of(
    client: BlockingClient, source: Source, connection: Connection | None = None
) -> Topics:
    """The offsets of a source's topics. Raises OptionError if one is missing, KafkaError."""
    from josefine_spark.options.options import BelowLocalStart, Subscription
    from josefine_spark.read.discovery import all_bounds, discover
    from josefine_spark.read.offset_clients import offsets_client

    numbers = {topic: tuple(some) for topic, some in numbers_of(source.assigned).items()}
    topics = () if numbers else source.topics
    subscription = Subscription(
        topics=topics, pattern=source.pattern, assigned=tuple(numbers.items())
    )
    found = discover(client, subscription, must_exist=True)
    below = BelowLocalStart(source.archive)
    asked = offsets_client(connection or _connection(source), below, client)
    bounds = all_bounds(asked, found.partitions, read_committed=False)
    latest = {tp: bound.latest for tp, bound in bounds.items()}
    return Topics(
        earliest={tp: bound.earliest for tp, bound in bounds.items()},
        latest=TopicOffsets(ends=latest, topic_ids=found.topic_ids),
    )


class SourceKind(Protocol):
    """The interface of a source: brokers, or a test source without a broker."""

    def look(self, source: Source) -> Topics: ...

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        """The committed offsets of a consumer group for these partitions. Raises SetupError."""

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        """The first offset of each partition at or after a time, -1 if there is none. Raises
        SetupError."""

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame: ...

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        """Read the records of one batch of the stream again. `marks_unreadable`: an unreadable
        record batch is a row with `decode.UNREADABLE`, as in a stream with dead letters."""

    def parse(self, text: str) -> TopicOffsets: ...

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        """Commit offsets to a consumer group; "" or why they were refused."""


class JosefineKind:
    """Kafka-compatible brokers, through `format("josefine")`."""

    def look(self, source: Source) -> Topics:
        """Query the brokers. Raises SetupError if they are unreachable or a topic is missing."""
        from josefine_broker.base.errors import KafkaError
        from josefine_spark.base.errors import OptionError
        from josefine_spark.options.connections import client_for, drop_client

        connection = _connection(source)
        try:
            return topics_of(client_for(connection), source, connection)
        except (OptionError, KafkaError, OSError) as error:
            drop_client(connection)
            reason = error.message if isinstance(error, KafkaError) else str(error)
            raise SetupError(f"source `{source.name}` at {source.bootstrap}: {reason}") from error

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        partitions = topics.latest.ends
        return _asked(
            source, f"group {group}", lambda client: client.committed_offsets(group, partitions)
        )

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        from josefine_spark.read.discovery import offsets_at

        wanted = dict.fromkeys(topics.latest.ends, time_ms)
        committed = source.committed_only

        def ask(client: BlockingClient) -> ByPartition:
            from josefine_spark.options.options import BelowLocalStart
            from josefine_spark.read.offset_clients import offsets_client

            below = BelowLocalStart(source.archive)
            asked = offsets_client(_connection(source), below, client)
            return offsets_at(asked, wanted, read_committed=committed)

        return _asked(source, "time", ask)

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame:
        """The stream. `at` is set also with a checkpoint: Spark uses it while batch 0 is open."""
        from josefine_spark.options.environment import settle_environment
        from josefine_spark.read.offsets import to_dict

        # The sinks' streams start concurrently, also in a session that the caller made.
        settle_environment(spark)
        options = options_of(source)
        if at is not None:
            # The connector would prefer a time to offsets.
            options.pop(source.start.option)
            options["startingOffsets"] = json.dumps(to_dict(at))
        options |= _objects(source) | _unreadable_batches(source)
        return spark.readStream.format("josefine").options(**options).load()

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        """Only the partitions of the batch: others may have been created since."""
        options = batch_options_of(source)
        options = {k: v for k, v in options.items() if not k.startswith("subscribe")}
        ends = batch.end.ends
        begins = {p: start for p in ends if (start := batch.starts.get(p)) is not None}
        options["assign"] = json.dumps(numbers_of(sorted(ends)))
        options["startingOffsets"] = json.dumps(nested(begins))
        options["endingOffsets"] = json.dumps(nested(ends))
        options |= _objects(source)
        if marks_unreadable:
            options |= _AS_ROW
        return spark.read.format("josefine").options(**options).load()

    def parse(self, text: str) -> TopicOffsets:
        from josefine_spark.read.offsets import parse_offset

        return parse_offset(text)

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        from josefine_broker.base.errors import KafkaError
        from josefine_spark.options.connections import client_for

        try:
            client_for(_connection(source)).commit_offsets(group, ends, timeout_ms=2_000)
        except SetupError as error:
            return str(error)
        except KafkaError as error:
            return error.message or error.code.name
        except OSError as error:
            return str(error)
        return ""


def _objects(source: Source) -> dict[str, str]:
    """The options that make the connector decode plain JSON. None if it does not support a column's
    type, or if the values have a frame."""
    from pyspark.sql.types import StructType

    from josefine_spark.read.json_schema import unreadable
    from pipelines.formats.json import time_zone

    how = source.decode
    if how is None or how.format is not Format.JSON or how.framed or how.explodes:
        return {}
    schema = StructType.fromDDL(how.schema.text)
    assert isinstance(schema, StructType)
    if unreadable(schema) is not None:
        return {}
    return {
        "jsonSchema": schema.json(),
        "jsonTimeZone": time_zone(),
        "jsonStrict": str(how.strict).lower(),
        "jsonAccept": ",".join(how.accept),
    }


def first_record_ms(source: Source, positions: ByPartition) -> int | None:
    """The earliest timestamp of the first records at these positions; None: there is none. Raises
    SetupError, soon: the caller's answer is worth more than this figure."""
    from josefine_broker.client.fetch import records_between

    found: list[int] = []

    def ask(client: BlockingClient) -> ByPartition:
        local = dict(positions)
        if source.archive == "auto":
            from josefine_spark.read.archive_files import ArchivedClient

            # Brokers without an archive reader refuse what only the archive has.
            for tp, timestamp_ms in ArchivedClient(_connection(source)).first_ms(positions).items():
                found.append(timestamp_ms)
                del local[tp]
        # A fetch of one byte has the first batch of each partition, complete.
        parts = client.fetch(local, bytes_max=1, partition_bytes_max=1, max_wait_ms=0)
        for tp, part in parts.items():
            first = next(records_between(part.records, positions[tp], None), None)
            if first is not None:
                found.append(first.timestamp_ms)
        return {}

    if positions:
        _asked(source, "records", ask, FIRST_TIMEOUT_MS)
    return min(found, default=None)


def _unreadable_batches(source: Source) -> dict[str, str]:
    """The option that makes unreadable record batches rows, if they become dead letters."""
    return _AS_ROW if source.has_on_error(OnError.DEAD_LETTER) else {}


def _connection(source: Source, timeout_ms: int = LOOK_TIMEOUT_MS) -> Connection:
    where = f"source `{source.name}` at {source.bootstrap}"
    return connection_of(where, source.bootstrap, source.security, timeout_ms)


def _asked(
    source: Source,
    what: str,
    ask: Callable[[BlockingClient], ByPartition],
    timeout_ms: int = LOOK_TIMEOUT_MS,
) -> ByPartition:
    """Query the brokers; raises SetupError if they fail."""
    from josefine_broker.base.errors import KafkaError
    from josefine_spark.options.connections import client_for

    connection = _connection(source, timeout_ms)
    try:
        return ask(client_for(connection))
    except (KafkaError, OSError) as error:
        reason = error.message if isinstance(error, KafkaError) else str(error)
        said = f"source `{source.name}` at {source.bootstrap}: {what}: {reason}"
        raise SetupError(said) from error

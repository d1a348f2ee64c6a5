"""The josefine source of a pipeline: what the topics have, the stream, the recorded offsets."""

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
"""For the first look at the topics: a wrong address should be told quickly."""

_BATCH_OPTIONS = (
    "bootstrapServers",
    "subscribe",
    "subscribePattern",
    "assign",
    "kafka.isolation.level",
    "includeHeaders",
    "maxRecordsPerPartition",
)
"""Of a stream's options, those that a batch read knows."""

_AS_ROW = {"unreadableBatches": "asRow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What a source's topics have at one moment."""

    earliest: ByPartition
    latest: TopicOffsets

    def bounds(self) -> dict[TopicPartition, Bounds]:
        """Where each partition begins and ends."""
        return {tp: Bounds(self.earliest.get(tp, 0), end) for tp, end in self.latest.ends.items()}

    def keep(self, ends: ByPartition) -> ByPartition:
        """The part of `ends` whose partitions are still read; the others cannot be started at."""
        return {partition: end for partition, end in ends.items() if partition in self.latest.ends}


def topics_together(found: Mapping[str, Topics]) -> Topics:
    """What all of a sink's sources have. Raises RunError where two have one topic."""
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
    """The topics of the other sources among these, which a source is joined with."""
    others = [found for name, found in looked.items() if name != source.name]
    return {topic for found in others for topic in found.latest.topic_ids}


def options_of(source: Source) -> dict[str, str]:
    """The connector's options for what the file says."""
    limit, split = source.limit, source.split
    since, is_whole = source.start.option == "startingTimestamp", not source.assigned
    said = {
        "bootstrapServers": source.bootstrap,
        "subscribePattern": source.pattern,
        "subscribe": ",".join(source.topics) if is_whole and source.pattern is None else None,
        "assign": None if is_whole else json.dumps(numbers_of(source.assigned)),
        source.start.option: source.start.text,
        # A partition without a record since then begins at its end.
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
        **options_of_security(source.security),
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def batch_options_of(source: Source) -> dict[str, str]:
    """Those that a batch read knows. An unreadable record batch is a row where it becomes a dead
    letter."""
    options = options_of(source).items()
    known = {k: v for k, v in options if k in _BATCH_OPTIONS or k.startswith(PREFIXES)}
    return known | _unreadable_batches(source)


def numbers_of(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic → the numbers of its partitions among these."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


def _stop(source: Source) -> ByPartition | None:
    """The offsets at which a run ends; None: at what is there, or nobody has looked them up yet."""
    return source.stop.offsets if source.stop and source.stop.is_by_offsets else None


class SourceKind(Protocol):
    """Josefine, and the test sources that need no broker."""

    def look(self, source: Source) -> Topics: ...

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        """What a consumer group committed of these partitions. Raises SetupError."""

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        """The first offset of each partition from a time on, -1 where none is that late. Raises
        SetupError."""

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame: ...

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        """The records of one batch of the stream, once more. `marks_unreadable`: an unreadable
        record batch is a row with `decode.UNREADABLE`, as it is where it becomes a dead letter."""

    def parse(self, text: str) -> TopicOffsets: ...

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        """Tell a consumer group; "" or why it was not taken."""


class JosefineKind:
    """Brokers that speak Kafka, through `format("josefine")`."""

    def look(self, source: Source) -> Topics:
        """Ask the brokers. Raises SetupError when they cannot be reached or a topic is missing."""
        from josefine_broker.base.errors import KafkaError
        from josefine_spark.base.errors import OptionError
        from josefine_spark.options.connections import client_for, drop_client
        from josefine_spark.options.options import Subscription
        from josefine_spark.read.discovery import all_bounds, discover

        connection = _connection(source)
        numbers = {topic: tuple(some) for topic, some in numbers_of(source.assigned).items()}
        topics = () if numbers else source.topics
        subscription = Subscription(
            topics=topics, pattern=source.pattern, assigned=tuple(numbers.items())
        )
        try:
            client = client_for(connection)
            found = discover(client, subscription, must_exist=True)
            bounds = all_bounds(client, found.partitions, read_committed=False)
        except (OptionError, KafkaError, OSError) as error:
            drop_client(connection)
            reason = error.message if isinstance(error, KafkaError) else str(error)
            raise SetupError(f"source `{source.name}` at {source.bootstrap}: {reason}") from error
        latest = {tp: bound.latest for tp, bound in bounds.items()}
        return Topics(
            earliest={tp: bound.earliest for tp, bound in bounds.items()},
            latest=TopicOffsets(ends=latest, topic_ids=found.topic_ids),
        )

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        partitions = topics.latest.ends
        return _asked(
            source, f"group {group}", lambda client: client.committed_offsets(group, partitions)
        )

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        from josefine_spark.read.discovery import offsets_at

        wanted = dict.fromkeys(topics.latest.ends, time_ms)
        committed = source.committed_only
        return _asked(
            source, "time", lambda client: offsets_at(client, wanted, read_committed=committed)
        )

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame:
        """The stream. `at` is given also with a checkpoint: Spark asks while batch 0 is open."""
        from josefine_spark.options.environment import settle_environment
        from josefine_spark.read.offsets import to_dict

        # The sinks' streams start at once, also in a session that is not ours.
        settle_environment(spark)
        options = options_of(source)
        if at is not None:
            # A time would be asked for before offsets.
            options.pop(source.start.option)
            options["startingOffsets"] = json.dumps(to_dict(at))
        options |= _objects(source) | _unreadable_batches(source)
        return spark.readStream.format("josefine").options(**options).load()

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        """Only the batch's partitions: others may have come since."""
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
    """The option by which plain JSON is read where records are decoded; none where its columns are
    of types that are not read there, or more is asked than whether it fits them."""
    from pyspark.sql.types import StructType

    from josefine_spark.read.json_schema import unreadable

    how = source.decode
    if how is None or how.format is not Format.JSON or how.framed or how.strict:
        return {}
    schema = StructType.fromDDL(how.schema.text)
    assert isinstance(schema, StructType)
    return {} if unreadable(schema) is not None else {"jsonSchema": schema.json()}


def _unreadable_batches(source: Source) -> dict[str, str]:
    """The option by which unreadable record batches become rows, where these are dead letters."""
    return _AS_ROW if source.has_on_error(OnError.DEAD_LETTER) else {}


def _connection(source: Source) -> Connection:
    where = f"source `{source.name}` at {source.bootstrap}"
    return connection_of(where, source.bootstrap, source.security, LOOK_TIMEOUT_MS)


def _asked(source: Source, what: str, ask: Callable[[BlockingClient], ByPartition]) -> ByPartition:
    """What brokers say; raises SetupError where they do not."""
    from josefine_broker.base.errors import KafkaError
    from josefine_spark.options.connections import client_for

    connection = _connection(source)
    try:
        return ask(client_for(connection))
    except (KafkaError, OSError) as error:
        reason = error.message if isinstance(error, KafkaError) else str(error)
        said = f"source `{source.name}` at {source.bootstrap}: {what}: {reason}"
        raise SetupError(said) from error

"""The options of the source and the sink: names, types, defaults, and what contradicts what.

Rules: one literal table says which options exist; an unknown one is an error that names the
nearest known one; names are compared without case, as Spark does. Pure.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from josefine_spark.errors import OptionError
from josefine_spark.positions import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    Kind,
    Position,
    parse_offsets,
    parse_timestamp,
    parse_timestamps,
)

CONNECTION_OPTIONS = (
    "kafka.bootstrap.servers",
    "bootstrapServers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.security.protocol",
)
SOURCE_OPTIONS = (
    *CONNECTION_OPTIONS,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "kafka.isolation.level",
    "kafka.check.crcs",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
)
SINK_OPTIONS = (
    *CONNECTION_OPTIONS,
    "topic",
    "includeHeaders",
    "delivery",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "checkpointLocation",
)
REFUSED = {
    "kafka.group.id": "this source joins no group: it keeps its offsets in the checkpoint",
    "groupIdPrefix": "this source joins no group: it keeps its offsets in the checkpoint",
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "this source keeps its offsets in the checkpoint",
    "kafka.key.deserializer": "keys are bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "values are bytes; decode them with DataFrame operations",
    "kafka.key.serializer": "keys are strings or bytes; encode them with DataFrame operations",
    "kafka.value.serializer": "values are strings or bytes; encode them with DataFrame operations",
    "kafka.interceptor.classes": "there are no Java classes here to intercept",
    "path": "name topics with subscribe, subscribePattern, assign or (writing) topic",
}

FETCH_BYTES = 8 * 1024 * 1024
"""Of one fetch response: large enough that per-response costs vanish, small enough that three of
them per task (one decoded, two waiting) are no load."""
FETCH_BYTES_MAX = 64 * 1024 * 1024
POLL_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000
BATCH_BYTES = 512 * 1024
"""Of one record batch in the sink: below every broker's default limit of 1 MiB."""

COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


E = TypeVar("E", bound=Enum)


class MissingStrategy(Enum):
    """What to do in a partition that has no record at or after the starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


class Delivery(Enum):
    """What the sink promises when a task or a batch runs again."""

    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach the brokers. Hashable: it is the key of the connection cache."""

    bootstrap: str
    client_id: str = "josefine-spark"
    request_timeout_ms: int = REQUEST_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics named, None for a pattern."""
        if self.pattern is not None:
            return None
        return self.topics or tuple(topic for topic, _ in self.assigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the executors need; it travels pickled with every task."""

    connection: Connection
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    fetch_bytes: int = FETCH_BYTES
    fetch_wait_ms: int = 500
    read_committed: bool = False
    check_crcs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options of a read."""

    read: ReadOptions
    subscription: Subscription
    starting: Position
    ending: Position
    missing: MissingStrategy = MissingStrategy.ERROR
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All options of a write."""

    connection: Connection
    topic: str | None = None
    include_headers: bool = True
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    acks: int = -1
    batch_bytes: int = BATCH_BYTES
    compression: int = 0


def source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Check and type the options of `readStream` or `read` (None: either). Raises OptionError."""
    options = _Options(given, SOURCE_OPTIONS)
    if streaming is None:
        starting = _starting(options, LATEST)
    elif streaming:
        options.only("batch reads", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
        starting = _starting(options, LATEST)
    else:
        options.only(
            "streaming reads", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"
        )
        starting = _starting(options, EARLIEST)
        _forbid(starting, Kind.LATEST, LATEST_OFFSET, "latest", "a batch read starts")
    ending = _ending(options)
    _forbid(ending, Kind.EARLIEST, EARLIEST_OFFSET, "earliest", "a read ends")
    maximum = options.integer("maxOffsetsPerTrigger", 1)
    minimum = options.integer("minOffsetsPerTrigger", 1)
    if minimum is not None and maximum is not None and minimum > maximum:
        raise OptionError(f"minOffsetsPerTrigger {minimum} is above maxOffsetsPerTrigger {maximum}")
    return SourceOptions(
        read=_read_options(options),
        subscription=_subscription(options),
        starting=starting,
        ending=ending,
        missing=options.choice("startingOffsetsByTimestampStrategy", MissingStrategy.ERROR),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", 15 * 60_000),
        min_partitions=options.integer("minPartitions", 1),
        max_records_per_partition=options.integer("maxRecordsPerPartition", 1),
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check and type the options of `writeStream` or `write`. Raises OptionError."""
    options = _Options(given, SINK_OPTIONS)
    if options.text("delivery", "").lower() == "exactly_once":
        raise OptionError(
            "delivery=exactly_once is not built yet: use at_least_once, or write to a Delta table"
        )
    acks = options.text("kafka.acks", "all")
    if acks not in ("all", "-1", "1"):
        raise OptionError(f"kafka.acks: expected all or 1, got {acks!r}")
    compression = options.text("kafka.compression.type", "none").lower()
    if compression not in COMPRESSIONS:
        raise OptionError(
            f"kafka.compression.type: expected one of {', '.join(COMPRESSIONS)}, "
            f"got {compression!r}"
        )
    return SinkOptions(
        connection=_connection(options),
        topic=options.text("topic", "") or None,
        include_headers=options.boolean("includeHeaders", True),
        delivery=options.choice("delivery", Delivery.AT_LEAST_ONCE),
        acks=1 if acks == "1" else -1,
        batch_bytes=options.integer("kafka.batch.size", 1024) or BATCH_BYTES,
        compression=COMPRESSIONS[compression],
    )


class _Options:
    """The given options under their lower-case names, each read with its type."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known}
        refused = {name.lower(): (name, why) for name, why in REFUSED.items()}
        for key in given:
            if key.lower() in refused:
                name, why = refused[key.lower()]
                raise OptionError(f"option {name} is not taken: {why}")
            if key.lower() not in names:
                raise OptionError(f"unknown option {key!r}{_nearest(key, names)}")
        self._values = {key.lower(): str(value) for key, value in given.items()}

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str) -> str:
        return self._values.get(name.lower(), default).strip()

    def only(self, where: str, *names: str) -> None:
        for name in names:
            if self.has(name):
                raise OptionError(f"option {name} is for {where} only")

    def integer(self, name: str, minimum: int) -> int | None:
        if not self.has(name):
            return None
        text = self.text(name, "")
        if not text.isdigit() or int(text) < minimum:
            raise OptionError(f"{name}: expected a whole number from {minimum}, got {text!r}")
        return int(text)

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise OptionError(f"{name}: expected true or false, got {text!r}")
        return text == "true"

    def choice(self, name: str, default: E) -> E:
        text = self.text(name, str(default.value)).lower()
        for member in type(default):
            if member.value == text:
                return member
        words = " or ".join(str(member.value) for member in type(default))
        raise OptionError(f"{name}: expected {words}, got {text!r}")

    def duration_ms(self, name: str, default_ms: int) -> int:
        if not self.has(name):
            return default_ms
        text = self.text(name, "").lower()
        match = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)?", text)
        if match is None:
            raise OptionError(f"{name}: expected a duration such as 30s or 15m, got {text!r}")
        factors = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000}
        factors |= {"h": 3_600_000, "d": 86_400_000}
        return int(match.group(1)) * factors[match.group(2)]


def _nearest(key: str, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6)
    return f": did you mean {names[near[0]]}?" if near else ""


def _connection(options: _Options) -> Connection:
    both = [name for name in ("kafka.bootstrap.servers", "bootstrapServers") if options.has(name)]
    if not both:
        raise OptionError("kafka.bootstrap.servers (or bootstrapServers) is missing")
    servers = [options.text(name, "") for name in both]
    if len(set(servers)) > 1:
        raise OptionError("kafka.bootstrap.servers and bootstrapServers say different things")
    for server in servers[0].split(","):
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:,\[\]]+):\d{1,5}", server.strip()):
            raise OptionError(f"{both[0]}: expected host:port[,host:port], got {servers[0]!r}")
    protocol = options.text("kafka.security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise OptionError(f"kafka.security.protocol: only PLAINTEXT is built yet, got {protocol}")
    return Connection(
        bootstrap=servers[0],
        client_id=options.text("kafka.client.id", "josefine-spark"),
        request_timeout_ms=options.integer("kafka.request.timeout.ms", 1) or REQUEST_TIMEOUT_MS,
    )


def _read_options(options: _Options) -> ReadOptions:
    isolation = options.text("kafka.isolation.level", "read_uncommitted").lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(
            f"kafka.isolation.level: expected read_committed or read_uncommitted, got {isolation!r}"
        )
    fetch_bytes = options.integer("kafka.fetch.max.bytes", 1) or FETCH_BYTES
    wait_ms = options.integer("kafka.fetch.max.wait.ms", 0)
    return ReadOptions(
        connection=_connection(options),
        include_headers=options.boolean("includeHeaders", False),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        poll_timeout_ms=options.integer("kafkaConsumer.pollTimeoutMs", 1) or POLL_TIMEOUT_MS,
        fetch_bytes=min(fetch_bytes, FETCH_BYTES_MAX),
        fetch_wait_ms=500 if wait_ms is None else wait_ms,
        read_committed=isolation == "read_committed",
        check_crcs=options.boolean("kafka.check.crcs", True),
    )


def _subscription(options: _Options) -> Subscription:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if options.has(name)]
    if len(ways) != 1:
        said = f"got {' and '.join(ways)}" if ways else "got none"
        raise OptionError(
            f"exactly one of subscribe, subscribePattern and assign is needed, {said}"
        )
    text = options.text(ways[0], "")
    if ways[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError("subscribe: expected topic[,topic], got nothing")
        return Subscription(topics=topics)
    if ways[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern: {text!r} is no pattern: {error}") from error
        if not text:
            raise OptionError("subscribePattern: expected a pattern, got nothing")
        return Subscription(pattern=text)
    return Subscription(assigned=_assigned(text))


def _assigned(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    shape = 'assign: expected JSON as {"topic":[0,1]}, got ' + repr(text)
    try:
        data = json.loads(text)
    except ValueError as error:
        raise OptionError(shape) from error
    if not isinstance(data, dict) or not data:
        raise OptionError(shape)
    for partitions in data.values():
        good = isinstance(partitions, list) and partitions
        if not good or not all(type(p) is int and p >= 0 for p in partitions):
            raise OptionError(shape)
    return tuple((topic, tuple(sorted(set(data[topic])))) for topic in sorted(data))


def _starting(options: _Options, default: Position) -> Position:
    """Spark's precedence: one timestamp, then timestamps per partition, then offsets."""
    if options.has("startingTimestamp"):
        return parse_timestamp("startingTimestamp", options.text("startingTimestamp", ""))
    name = "startingOffsetsByTimestamp"
    if options.has(name):
        return parse_timestamps(name, options.text(name, ""))
    if options.has("startingOffsets"):
        return parse_offsets("startingOffsets", options.text("startingOffsets", ""))
    return default


def _ending(options: _Options) -> Position:
    if options.has("endingTimestamp"):
        return parse_timestamp("endingTimestamp", options.text("endingTimestamp", ""))
    if options.has("endingOffsetsByTimestamp"):
        name = "endingOffsetsByTimestamp"
        return parse_timestamps(name, options.text(name, ""))
    if options.has("endingOffsets"):
        return parse_offsets("endingOffsets", options.text("endingOffsets", ""))
    return LATEST


def _forbid(position: Position, kind: Kind, offset: int, word: str, what: str) -> None:
    named = position.kind is Kind.OFFSETS and offset in position.values.values()
    if position.kind is kind or named:
        raise OptionError(f"{position.option}: {what} at no partition's {word} ({offset})")

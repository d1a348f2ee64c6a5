"""The options of a read, batch or streaming: parsing, defaults and checks for contradictions.

Pure. Raises OptionError with one sentence that names the option.
"""

import json
import re
from collections.abc import Iterable, Mapping

from josefine_arrow.batches.row_filter import RowFilter
from josefine_spark.base.errors import OptionError
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.options.kafka_options import IGNORED_BY_SOURCE, REFUSED
from josefine_spark.options.options import (
    CONNECTION_OPTIONS,
    FETCH_BYTES,
    FETCH_BYTES_MAX,
    POLL_TIMEOUT_MS,
    BelowLocalStart,
    JsonColumn,
    MissingStrategy,
    ReadOptions,
    SourceOptions,
    Subscription,
    UnreadableBatches,
    connection,
)
from josefine_spark.options.parse import OptionTable, OptionText
from josefine_spark.options.positions import (
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

SOURCE_OPTIONS = (
    *CONNECTION_OPTIONS,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsets",
    "startingGroup",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "stopOffsets",
    "failOnDataLoss",
    "unreadableBatches",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "commitGroup",
    "lossTable",
    "archive",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "includeLeaderEpoch",
    "columns",
    "jsonSchema",
    "jsonTimeZone",
    "jsonStrict",
    "jsonAccept",
    "fromTimestamp",
    "keys",
    "kafka.isolation.level",
    "kafka.client.rack",
    "kafka.check.crcs",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
)
ALWAYS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
OPTIONAL = {"headers": "includeHeaders", "leader_epoch": "includeLeaderEpoch"}
"""Column → the option that adds it to the others."""
COLUMNS = (*ALWAYS, *OPTIONAL)
"""The source's columns in order, as in `josefine_arrow/batches/columns.py` but without pyarrow (a
test compares them)."""
STREAMING_OPTIONS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "stopOffsets",
    "commitGroup",
    "lossTable",
)
STARTING_OPTIONS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")

TABLE = OptionTable(known=SOURCE_OPTIONS, refused=REFUSED, ignored=IGNORED_BY_SOURCE)


def source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Check and type the options of `readStream` or `read` (None: either). Raises OptionError."""
    # While a schema is requested Spark does not pass whether the read will be a stream (None): then
    # only what is wrong for both is refused.
    options = OptionText(given, TABLE)
    if streaming is None:
        starting = _starting(options, LATEST)
    elif streaming:
        options.only("batch reads", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
        starting = _starting(options, LATEST)
    else:
        options.only("streaming reads", *STREAMING_OPTIONS)
        starting = _starting(options, EARLIEST)
        _forbid(starting, Kind.LATEST, LATEST_OFFSET, "latest", "a batch read starts")
    group = _group(options, starting)
    ending = _ending(options)
    _forbid(ending, Kind.EARLIEST, EARLIEST_OFFSET, "earliest", "a read ends")
    options.integer("fetchOffset.numRetries", 0)
    options.integer("fetchOffset.retryIntervalMs", 0)
    maximum = options.integer("maxOffsetsPerTrigger", 1)
    minimum = options.integer("minOffsetsPerTrigger", 1)
    if minimum is not None and maximum is not None and minimum > maximum:
        raise OptionError(f"minOffsetsPerTrigger {minimum} is above maxOffsetsPerTrigger {maximum}")
    return SourceOptions(
        read=_read_options(options),
        subscription=_subscription(options),
        starting=starting,
        starting_given=any(options.has(name) for name in STARTING_OPTIONS),
        starting_group=group,
        commit_group=_name(options, "commitGroup"),
        ending=ending,
        stops_at=_stops_at(options),
        missing=options.choice("startingOffsetsByTimestampStrategy", MissingStrategy.ERROR),
        max_offsets_per_trigger=maximum,
        max_bytes_per_trigger=options.size_bytes("maxBytesPerTrigger"),
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", 15 * 60_000),
        min_partitions=options.integer("minPartitions", 1),
        max_records_per_partition=options.integer("maxRecordsPerPartition", 1),
        without_effect=tuple(options.without_effect),
    )


def _read_options(options: OptionText) -> ReadOptions:
    isolation = options.text("kafka.isolation.level", "read_uncommitted").lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(
            f"kafka.isolation.level: expected read_committed or read_uncommitted, got {isolation!r}"
        )
    fetch_bytes = options.integer("kafka.fetch.max.bytes", 1) or FETCH_BYTES
    wait_ms = options.integer("kafka.fetch.max.wait.ms", 0)
    return ReadOptions(
        connection=connection(options),
        include_headers=options.boolean("includeHeaders", False),
        columns=_columns(options),
        json=_json(options),
        rows=RowFilter(from_ms=_from_ms(options), keys=_keys(options)),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        unreadable_batches=_unreadable_batches(options),
        poll_timeout_ms=options.integer("kafkaConsumer.pollTimeoutMs", 1) or POLL_TIMEOUT_MS,
        fetch_bytes=min(fetch_bytes, FETCH_BYTES_MAX),
        fetch_wait_ms=500 if wait_ms is None else wait_ms,
        read_committed=isolation == "read_committed",
        rack=options.text("kafka.client.rack", ""),
        check_crcs=options.boolean("kafka.check.crcs", True),
        loss_table=_loss_table(options),
        archive=options.choice("archive", BelowLocalStart.BROKER),
    )


def _unreadable_batches(options: OptionText) -> UnreadableBatches:
    """Without the option an unreadable batch is treated like any other loss."""
    fails = options.boolean("failOnDataLoss", True)
    by_loss = UnreadableBatches.FAIL if fails else UnreadableBatches.SKIP
    return options.choice("unreadableBatches", by_loss)


def _columns(options: OptionText) -> tuple[str, ...] | None:
    """The columns asked for; None: the standard ones, and `headers` with includeHeaders."""
    if not options.has("columns"):
        if not options.boolean("includeLeaderEpoch", False):
            return None
        added = [name for name, option in OPTIONAL.items() if options.boolean(option, False)]
        return (*ALWAYS, *added)
    asked = [name.strip() for name in options.text("columns", "").split(",") if name.strip()]
    known = {name.lower(): name for name in COLUMNS}
    unknown = [name for name in asked if name.lower() not in known]
    if unknown or not asked:
        got = f"no column is called {unknown[0]!r}" if unknown else "got nothing"
        raise OptionError(f"columns: expected some of {', '.join(COLUMNS)}; {got}")
    wanted = {known[name.lower()] for name in asked}
    for name, option in OPTIONAL.items():
        if options.boolean(option, name in wanted) != (name in wanted):
            raise OptionError(f"columns and {option} contradict each other about column {name}")
    return tuple(name for name in COLUMNS if name in wanted)


_JSON_OPTIONS = ("jsonTimeZone", "jsonStrict", "jsonAccept")


def _json(options: OptionText) -> JsonColumn | None:
    if not options.has("jsonSchema"):
        without = [name for name in _JSON_OPTIONS if options.has(name)]
        if without:
            raise OptionError(f"{without[0]} is of the column `json`: give its jsonSchema too")
        return None
    from josefine_spark.read.json_schema import parse_schema

    columns = _columns(options)
    if columns is not None and "value" not in columns:
        raise OptionError("jsonSchema reads the column value: name it in columns too")
    schema = options.text("jsonSchema", "")
    parse_schema(schema)
    return JsonColumn(
        schema=schema,
        time_zone=_time_zone(options.text("jsonTimeZone", "UTC")),
        strict=options.boolean("jsonStrict", False),
        accept=_accepted(options.text("jsonAccept", "")),
    )


def _time_zone(name: str) -> str:
    from josefine_arrow.schema.times import is_zone

    if not is_zone(name):
        raise OptionError(
            f"jsonTimeZone: expected a zone such as Europe/Berlin or +01:00, got {name!r}"
        )
    return name


def _accepted(text: str) -> frozenset[str]:
    from josefine_arrow.formats.json.options import ACCEPT, contradiction

    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in ACCEPT]
    if unknown:
        raise OptionError(f"jsonAccept: expected some of {', '.join(ACCEPT)}, got {unknown[0]!r}")
    wrong = contradiction(names)
    if wrong:
        raise OptionError(f"jsonAccept: {wrong}")
    return frozenset(names)


def _from_ms(options: OptionText) -> int | None:
    if not options.has("fromTimestamp"):
        return None
    position = parse_timestamp("fromTimestamp", options.text("fromTimestamp", ""))
    if position.kind is not Kind.TIMESTAMP:
        raise OptionError(
            "fromTimestamp: a relative time would filter other rows when a batch is read again: "
            "give a fixed time, or set the start by startingTimestamp"
        )
    return position.timestamp_ms


def _keys(options: OptionText) -> frozenset[bytes] | None:
    """The keys to read. JSON, because a key may contain a comma."""
    if not options.has("keys"):
        return None
    text = options.text("keys", "")
    try:
        keys = json.loads(text)
    except ValueError:
        keys = None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise OptionError(f'keys: expected JSON as ["first","second"], got {text!r}')
    return frozenset(key.encode(errors="surrogatepass") for key in keys)


def _subscription(options: OptionText) -> Subscription:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if options.has(name)]
    if len(ways) != 1:
        got = f"got {' and '.join(ways)}" if ways else "got none"
        raise OptionError(f"exactly one of subscribe, subscribePattern and assign is needed, {got}")
    text = options.text(ways[0], "")
    if ways[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError("subscribe: expected topic[,topic], got nothing")
        _check_names("subscribe", topics)
        return Subscription(topics=topics)
    if ways[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(
                f"subscribePattern: {text!r} is not a valid Python regular expression: {error}"
            ) from error
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
    _check_names("assign", data)
    return tuple((topic, tuple(sorted(set(data[topic])))) for topic in sorted(data))


def _check_names(option: str, topics: Iterable[str]) -> None:
    """Raises OptionError for a name that breaks Kafka's rule for topic names."""
    for topic in topics:
        if topic in (".", "..") or not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic):
            raise OptionError(
                f"{option}: {topic!r} is not a valid topic name (characters a-z A-Z 0-9 . _ -, "
                "at most 249 of them)"
            )


def _starting(options: OptionText, default: Position) -> Position:
    """Spark's precedence: one timestamp, then timestamps per partition, then offsets."""
    if options.has("startingTimestamp"):
        return parse_timestamp("startingTimestamp", options.text("startingTimestamp", ""))
    name = "startingOffsetsByTimestamp"
    if options.has(name):
        return parse_timestamps(name, options.text(name, ""))
    if options.has("startingOffsets"):
        return parse_offsets("startingOffsets", options.text("startingOffsets", ""))
    return default


def _group(options: OptionText, starting: Position) -> str | None:
    """The starting group. With one, the start option is a default for the other partitions, so it
    must not name partitions itself."""
    group = _name(options, "startingGroup")
    if group is not None and starting.kind in (Kind.OFFSETS, Kind.TIMESTAMPS):
        raise OptionError(
            f"startingGroup and {starting.option} both name offsets: with a group, "
            "startingOffsets only defines where partitions without a committed offset start"
        )
    return group


def _loss_table(options: OptionText) -> str | None:
    path = options.text("lossTable", "") or None
    if path is not None and options.boolean("failOnDataLoss", True):
        raise OptionError("lossTable is for failOnDataLoss=false: otherwise no range is skipped")
    return path


def _name(options: OptionText, name: str) -> str | None:
    text = options.text(name, "")
    if options.has(name) and not text:
        raise OptionError(f"{name}: expected the name of a consumer group, got nothing")
    return text or None


def _ending(options: OptionText) -> Position:
    if options.has("endingTimestamp"):
        return parse_timestamp("endingTimestamp", options.text("endingTimestamp", ""))
    if options.has("endingOffsetsByTimestamp"):
        name = "endingOffsetsByTimestamp"
        return parse_timestamps(name, options.text(name, ""))
    if options.has("endingOffsets"):
        ending = parse_offsets("endingOffsets", options.text("endingOffsets", ""))
        if ending.kind is Kind.LAST:
            raise OptionError('endingOffsets: "last N" is a start, not an end')
        return ending
    return LATEST


def _stops_at(options: OptionText) -> ByPartition | None:
    if not options.has("stopOffsets"):
        return None
    position = parse_offsets("stopOffsets", options.text("stopOffsets", ""))
    if position.kind is not Kind.OFFSETS or min(position.values.values(), default=0) < 0:
        raise OptionError('stopOffsets: expected JSON as {"topic":{"0":23}}, of offsets from 0 on')
    return position.values


def _forbid(position: Position, kind: Kind, offset: int, word: str, what: str) -> None:
    named = position.kind is Kind.OFFSETS and offset in position.values.values()
    if position.kind is kind or named:
        raise OptionError(f"{position.option}: {what} at no partition's {word} ({offset})")

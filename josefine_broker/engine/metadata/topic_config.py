"""The topic configs that are served: names, types, defaults, validators.

Rules: names, accepted values and printed values are Kafka's (tests/compat/recorded has Apache
Kafka's answer for each; `segment.records` is ours, and `segment.bytes` may be smaller here). Every
accepted config takes effect, except those in `inert_configs.py`; any other name is refused, never
ignored. A topic stores each value as it was given; it is parsed where it is used.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.archive_configs import archive_contradiction
from josefine_broker.engine.metadata.config_texts import (
    LONG_MAX,
    Check,
    Value,
    anything,
    at_least,
    between,
    choice,
    choices,
    printed,
    read_value,
)
from josefine_broker.engine.metadata.config_texts import ConfigType as ConfigType
from josefine_broker.engine.metadata.image import WAS_COMPACTED
from josefine_broker.engine.metadata.inert_configs import INERT, REFUSED, Inert
from josefine_broker.engine.metadata.log_config import LogConfig, TimestampType
from josefine_broker.engine.metadata.mirror_configs import check_ends
from josefine_broker.engine.metadata.table_configs import (
    LATER,
    TABLE_KEYS,
    TableKey,
    TableSettings,
    check_place,
    contradiction,
)
from josefine_broker.records.codecs import GZIP_LEVELS, LZ4_LEVELS, ZSTD_LEVELS, Compression

HOUR_MS = 3600 * 1000
SEGMENT_BYTES_MIN = 1024
"""Kafka's is 1 MiB since 4.0. Smaller segments do no harm here, and help tests and small disks."""
# None: stored with the codec of the producer.
COMPRESSIONS: Mapping[str, Compression | None] = {
    "uncompressed": Compression.NONE,
    "zstd": Compression.ZSTD,
    "lz4": Compression.LZ4,
    "snappy": Compression.SNAPPY,
    "gzip": Compression.GZIP,
    "producer": None,
}
_COMPRESSION_NAMES = {codec: name for name, codec in COMPRESSIONS.items()}


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The resolved settings of one topic: its own configs over the broker's defaults."""

    log: LogConfig = field(default_factory=LogConfig)
    min_insync_replicas: int = 1
    """With fewer replicas in sync acks=all is refused, and nothing is committed."""
    unclean_leader_election: bool = False
    """Whether an out-of-sync replica may lead if no other one is left; records may be lost."""
    takes_dead_letters: bool = False
    """Whether brokers may write the dead letters of groups to it (KIP-1191)."""
    timestamp_before_max_ms: int = LONG_MAX
    """How far a timestamp may be in the past (KIP-937); the default is no limit."""
    timestamp_after_max_ms: int = HOUR_MS
    """How far a timestamp may be in the future (KIP-937; the default is Kafka 4's)."""
    table: TableSettings = field(default_factory=TableSettings)
    mirror_source: str = ""
    """Cluster and id of the topic that this one mirrors, or has mirrored; empty: it never has."""
    mirror_session: str = ""
    """The session that alone may append; empty: clients may write."""
    mirror_ends: tuple[str, ...] = ()
    """Where each partition's mirror ended, as `partition:offset`: from there on clients write."""
    mirror_end_epochs: tuple[str, ...] = ()
    """The leader epoch of each partition then, as `partition:epoch`: later ones are of clients."""
    mirror_epochs: tuple[str, ...] = ()
    """The mirror's own notes: `partition:offset:epoch:crc` of the source."""
    inert: Mapping[str, str] = field(default_factory=_nothing)
    """The configs that were set on the topic and have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One config: how its text becomes a field of the settings, and back.

    `broker_name` is Kafka's name of the broker-wide default (`log.segment.records` is ours); empty
    if there is none.
    """

    name: str
    broker_name: str
    type: ConfigType
    meaning: str
    """One sentence, which COMPATIBILITY.md prints."""
    check: Check
    """Raises ValueError for a value that is not allowed."""
    show: Callable[[TopicSettings], str]
    """The value in these settings, as text."""
    store: Callable[[TopicSettings, Any], TopicSettings]
    """The settings with this value instead; the given ones stay as they are."""

    def parse(self, text: str) -> Value:
        """The value of a text. Raises ValueError with what is wrong."""
        value = read_value(self.type, text, self.name)
        self.check(value)
        return value

    def normal(self, text: str) -> str:
        """The text as DescribeConfigs prints it. Raises ValueError."""
        value = self.parse(text)
        if self.name == "cleanup.policy":
            assert isinstance(value, tuple)
            # A policy that is named twice counts once, and is printed once.
            value = tuple(dict.fromkeys(value))
        return printed(value)


def _in_log(
    name: str,
    broker_name: str,
    kind: ConfigType,
    attribute: str,
    check: Check,
    meaning: str,
    *,
    none: int | None = None,
) -> ConfigKey:
    """A config in LogConfig. The value `none` means no limit, and so does any value below -1 if
    `none` is -1."""

    def show(settings: TopicSettings) -> str:
        value = getattr(settings.log, attribute)
        return printed(none if value is None and none is not None else value)

    def store(settings: TopicSettings, value: Any) -> TopicSettings:
        # `none` may also be a positive number; then only that number means no limit.
        is_none = none is not None and (value == none or value < none == -1)
        changed: dict[str, Any] = {attribute: None if is_none else value}
        return replace(settings, log=replace(settings.log, **changed))

    return ConfigKey(
        name=name,
        broker_name=broker_name,
        type=kind,
        meaning=meaning,
        check=check,
        show=show,
        store=store,
    )


def _in_settings(
    name: str, broker_name: str, kind: ConfigType, attribute: str, check: Check, meaning: str
) -> ConfigKey:
    """A config in TopicSettings."""
    return ConfigKey(
        name=name,
        broker_name=broker_name,
        type=kind,
        meaning=meaning,
        check=check,
        show=lambda settings: printed(getattr(settings, attribute)),
        store=lambda settings, value: replace(settings, **{attribute: value}),
    )


def _table_key(key: TableKey) -> ConfigKey:
    """A config of a table topic, in TableSettings."""

    def store(settings: TopicSettings, value: Value) -> TopicSettings:
        changed: dict[str, Any] = {key.attribute: value}
        return replace(settings, table=replace(settings.table, **changed))

    return ConfigKey(
        name=key.name,
        broker_name="",
        type=key.type,
        meaning=key.meaning,
        check=key.check,
        show=lambda settings: printed(getattr(settings.table, key.attribute)),
        store=store,
    )


def _inert_key(inert: Inert) -> ConfigKey:
    """A config without effect, which is stored as it was given."""
    name = inert.name

    def store(settings: TopicSettings, value: Value) -> TopicSettings:
        others = {each: kept for each, kept in settings.inert.items() if each != name}
        if printed(value) != inert.default:
            others[name] = printed(value)
        return replace(settings, inert=MappingProxyType(others))

    return ConfigKey(
        name=name,
        broker_name=inert.broker_name,
        type=inert.type,
        meaning=f"Without effect: {inert.why}.",
        check=inert.check,
        show=lambda settings: settings.inert.get(name, inert.default),
        store=store,
    )


def _gzip_level(value: Value) -> None:
    """The levels are not one range: -1 is the default, and 0 is no level of gzip in Kafka."""
    if value not in GZIP_LEVELS:
        raise ValueError(f"must be -1, or from 1 to {GZIP_LEVELS[-1]}")


def _store_log(settings: TopicSettings, **changed: Any) -> TopicSettings:
    """The settings with other values in their LogConfig."""
    return replace(settings, log=replace(settings.log, **changed))


_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE

# fmt: off
_ACTING: tuple[ConfigKey, ...] = (
    ConfigKey(
        name="cleanup.policy",
        broker_name="log.cleanup.policy",
        type=_LIST,
        meaning="delete: old segments are deleted; compact: the last record of each key stays;"
        " empty: everything is kept.",
        check=choices("compact", "delete"),
        show=lambda settings: printed(tuple(sorted(settings.log.cleanup_policy))),
        store=lambda settings, value: _store_log(settings, cleanup_policy=frozenset(value)),
    ),
    ConfigKey(
        name="compression.type",
        broker_name="compression.type",
        type=_STRING,
        meaning="The codec that batches are stored with; producer: as they were sent.",
        check=choice(*COMPRESSIONS),
        show=lambda settings: _COMPRESSION_NAMES[settings.log.compression],
        store=lambda settings, value: _store_log(settings, compression=COMPRESSIONS[value]),
    ),
    _in_log("compression.gzip.level", "compression.gzip.level", _INT, "gzip_level", _gzip_level,
        "Level of gzip where batches are stored with that codec; -1: its default."),
    _in_log("compression.lz4.level", "compression.lz4.level", _INT, "lz4_level",
        between(LZ4_LEVELS[0], LZ4_LEVELS[-1]),
        "Level of lz4 where batches are stored with that codec."),
    _in_log("compression.zstd.level", "compression.zstd.level", _INT, "zstd_level",
        between(ZSTD_LEVELS[0], ZSTD_LEVELS[-1]),
        "Level of zstd where batches are stored with that codec."),
    _in_log("delete.retention.ms", "log.cleaner.delete.retention.ms", _LONG, "delete_retention_ms",
        at_least(0),
        "How long a deleted key of a compacted topic can still be read as deleted."),
    _in_settings("errors.deadletterqueue.group.enable", "", _BOOLEAN, "takes_dead_letters",
        anything,
        "Whether brokers may write the dead letters of share groups to this topic (KIP-1191)."),
    _in_log("flush.messages", "log.flush.interval.messages", _LONG, "flush_messages", at_least(1),
        "Records per fsync; 1: acks=all is answered once every in-sync replica has synced them.",
        none=LONG_MAX),
    _in_log("flush.ms", "log.flush.interval.ms", _LONG, "flush_ms", at_least(0),
        "Largest age of unsynced data.", none=LONG_MAX),
    _in_log("index.interval.bytes", "log.index.interval.bytes", _INT, "index_interval_bytes",
        at_least(0),
        "Log bytes between two index entries."),
    _in_log("josefine.archive.location", "", _STRING, "archive_location", check_place,
        "Path or URI of the Delta table that `josefine archive run` keeps of this topic, with"
        " `remote.storage.enable`."),
    _in_settings("josefine.mirror.end.epochs", "", _LIST, "mirror_end_epochs", check_ends,
        "Set by `josefine mirror cutover`: the leader epoch of each partition then; batches of"
        " later ones are clients', also below the mirror's end after an unclean election."),
    _in_settings("josefine.mirror.ends", "", _LIST, "mirror_ends", check_ends,
        "Set by `josefine mirror cutover`: the offset of each partition from which on clients"
        " write; producers before it are those of another cluster."),
    _in_settings("josefine.mirror.epochs", "", _LIST, "mirror_epochs", anything,
        "Set by `josefine mirror run`: the source's leader epochs, as partition:offset:epoch:crc,"
        " where crc is the checksum of the epoch's first batch here."),
    _in_settings("josefine.mirror.session", "", _STRING, "mirror_session", anything,
        "Set by `josefine mirror run`: the session that alone may append, with the offsets of its"
        " source; clients cannot write to the topic. Empty: they can."),
    _in_settings("josefine.mirror.source", "", _STRING, "mirror_source", anything,
        "Set by `josefine mirror run`: the cluster and the id of the topic that is mirrored."),
    _in_log("local.retention.bytes", "log.local.retention.bytes", _LONG, "local_retention_bytes",
        at_least(-2),
        "With `remote.storage.enable`, the size of a partition past which its oldest archived"
        " segments go; -2: as `retention.bytes`, -1: no bound."),
    _in_log("local.retention.ms", "log.local.retention.ms", _LONG, "local_retention_ms",
        at_least(-2),
        "With `remote.storage.enable`, the age past which archived segments go; -2: as"
        " `retention.ms`, -1: no bound."),
    _in_log("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", _LONG,
        "max_compaction_lag_ms", at_least(1),
        "Age at which a segment is closed and cleaned however little of the log is dirty.",
        none=LONG_MAX),
    _in_log("max.message.bytes", "message.max.bytes", _INT, "message_bytes_max", at_least(0),
        "Largest record batch, as sent and as stored."),
    _in_settings("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", _LONG,
        "timestamp_after_max_ms", at_least(0),
        "How far a record's timestamp may be ahead of the broker's clock."),
    _in_settings("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", _LONG,
        "timestamp_before_max_ms", at_least(0),
        "How far a record's timestamp may lag the broker's clock."),
    ConfigKey(
        name="message.timestamp.type",
        broker_name="log.message.timestamp.type",
        type=_STRING,
        meaning="Whose clock stamps records: the producer's or the broker's.",
        check=choice("CreateTime", "LogAppendTime"),
        show=lambda settings: settings.log.timestamp_type.value,
        store=lambda settings, value: _store_log(settings, timestamp_type=TimestampType(value)),
    ),
    ConfigKey(
        name="min.cleanable.dirty.ratio",
        broker_name="log.cleaner.min.cleanable.ratio",
        type=_DOUBLE,
        meaning="A compacted log is cleaned when more than this part of it is new since the last"
        " pass.",
        check=between(0, 1),
        show=lambda settings: printed(float(settings.log.min_cleanable_dirty_ratio)),
        # No ratio exceeds NaN, nor 1; and NaN would compare unequal to any other settings.
        store=lambda settings, value: _store_log(
            settings, min_cleanable_dirty_ratio=1.0 if math.isnan(value) else value
        ),
    ),
    _in_log("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", _LONG,
        "min_compaction_lag_ms", at_least(0),
        "How long records of a compacted topic stay untouched."),
    _in_settings("min.insync.replicas", "min.insync.replicas", _INT, "min_insync_replicas",
        at_least(1),
        "Replicas in sync without which acks=all is refused."),
    _in_log("remote.storage.enable", "", _BOOLEAN, "archived", anything,
        "Whether the topic has an archive at `josefine.archive.location`, for which retention"
        " waits."),
    _in_log("retention.bytes", "log.retention.bytes", _LONG, "retention_bytes", anything,
        "Size of a partition past which its oldest segments go; below 0: no bound.", none=-1),
    _in_log("retention.ms", "log.retention.ms", _LONG, "retention_ms", at_least(-1),
        "Age past which closed segments go; -1: no bound.", none=-1),
    _in_log("segment.bytes", "log.segment.bytes", _INT, "segment_bytes",
        at_least(SEGMENT_BYTES_MIN),
        "Largest segment file."),
    _in_log("segment.ms", "log.roll.ms", _LONG, "segment_ms", at_least(1),
        "Largest age of a segment."),
    _in_log("segment.records", "log.segment.records", _LONG, "segment_records", at_least(-1),
        "Records after which a segment is closed; -1: no bound (ours, not Kafka's).", none=-1),
    _in_settings("unclean.leader.election.enable", "unclean.leader.election.enable", _BOOLEAN,
        "unclean_leader_election", anything,
        "Whether a replica out of sync may lead where no other is left: records are lost."),
)
# fmt: on
_OF_TABLES = map(_table_key, TABLE_KEYS)
TOPIC_CONFIGS = tuple(
    sorted([*_ACTING, *_OF_TABLES, *map(_inert_key, INERT)], key=lambda key: key.name)
)
_REFUSED = {**REFUSED, **LATER}
_INTERNAL_SEGMENT_BYTES = ConfigKey(
    name="internal.segment.bytes",
    broker_name="",
    type=_INT,
    meaning="Kafka's, for tests: the largest segment file, whatever `segment.bytes` is.",
    check=anything,
    show=lambda settings: "",
    store=lambda settings, value: _store_log(settings, segment_bytes=max(value, SEGMENT_BYTES_MIN)),
)
"""Accepted and not described, as in Kafka."""
_KEYS = {key.name: key for key in (*TOPIC_CONFIGS, _INTERNAL_SEGMENT_BYTES)}


def is_list(name: str) -> bool:
    """Whether a served config is a list (KIP-339 appends to lists)."""
    key = _KEYS.get(name)
    return key is not None and key.type is _LIST


def check_config(name: str, value: str | None) -> None:
    """Raises KafkaError(invalid_config) with one sentence."""
    if value is None:
        raise KafkaError(ErrorCode.invalid_config, f"'{name}' has no value")
    key = _KEYS.get(name)
    if name in _REFUSED:
        raise KafkaError(ErrorCode.invalid_config, f"'{name}' is not served: {_REFUSED[name]}")
    if key is None:
        near = get_close_matches(name, _KEYS, n=1)
        hint = f"; the nearest is '{near[0]}'" if near else ""
        raise KafkaError(
            ErrorCode.invalid_config, f"'{name}' is not served as a topic config{hint}"
        )
    try:
        key.parse(value)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.invalid_config, f"'{name}' cannot be '{value}': {error}"
        ) from error


def check_configs(
    pairs: Iterable[tuple[str, str | None]], defaults: TopicSettings
) -> tuple[tuple[str, str], ...]:
    """The pairs, validated each and together; the last one of a repeated name counts, as in Kafka.

    Raises KafkaError(invalid_config).
    """
    checked: dict[str, str] = {}
    for name, value in pairs:
        if value is None:
            check_config(name, value)
        else:
            checked[name] = value
    for name, value in checked.items():
        check_config(name, value)
    check_together(checked.items(), defaults)
    return tuple(checked.items())


def check_together(config: Iterable[tuple[str, str]], defaults: TopicSettings) -> None:
    """Validate configs that depend on each other. Raises KafkaError(invalid_config)."""
    settings = resolve(config, defaults)
    log = settings.log
    if wrong := contradiction(settings.table) or archive_contradiction(
        log, settings.inert, settings.table.location
    ):
        raise KafkaError(ErrorCode.invalid_config, wrong)
    most_ms = log.max_compaction_lag_ms
    if most_ms is not None and log.min_compaction_lag_ms > most_ms:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"'min.compaction.lag.ms' {log.min_compaction_lag_ms} is more than"
            f" 'max.compaction.lag.ms' {most_ms}",
        )


def resolve(config: Iterable[tuple[str, str]], defaults: TopicSettings) -> TopicSettings:
    """The settings of a topic with `config` set on it.

    The broker that took the request has validated the pairs. In a rolling upgrade that may have
    been newer code: a config that is unknown here has no effect, and must not stop this broker.
    """
    settings = defaults
    # The internal name last: it wins over `segment.bytes`, in whatever order they were set.
    for name, value in sorted(config, key=lambda pair: pair[0] == _INTERNAL_SEGMENT_BYTES.name):
        key = _KEYS.get(name)
        if name == WAS_COMPACTED:
            settings = replace(settings, log=replace(settings.log, was_compacted=True))
        if key is None:
            continue
        try:
            parsed = key.parse(value)
        except ValueError:
            continue
        settings = key.store(settings, parsed)
    return settings


def shown(settings: TopicSettings) -> Mapping[str, str]:
    """Every served config as text, by name."""
    return {key.name: key.show(settings) for key in TOPIC_CONFIGS}


def described(config: Iterable[tuple[str, str]], defaults: TopicSettings) -> Mapping[str, str]:
    """Every config of a topic with `config` set on it, by name, as DescribeConfigs prints it.

    A config that was set on the topic is printed from its own text: several texts may have one
    effect, such as every `retention.bytes` below 0.
    """
    texts = dict(shown(defaults))
    for name, value in config:
        if name in texts:
            try:
                texts[name] = _KEYS[name].normal(value)
            except ValueError:
                continue  # as in `resolve`
    return texts

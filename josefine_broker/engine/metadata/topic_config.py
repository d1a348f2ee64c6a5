"""The topic configurations that are served: names, types, defaults, checks.

Rules: the names and meanings are Kafka's (`segment.records` is ours); a setting that is accepted
has its effect, but for those in `inert_configs.py`, and any other name is refused, never swallowed.
Batches are stored as the producer sent them, so `compression.type` is `producer` and nothing else.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.config_texts import (
    INT_MAX,
    LONG_MAX,
    choice,
    flag,
    number,
    ratio,
)
from josefine_broker.engine.metadata.image import WAS_COMPACTED
from josefine_broker.engine.metadata.inert_configs import INERT, REFUSED, Inert
from josefine_broker.engine.metadata.log_config import LogConfig, TimestampType

HOUR_MS = 3600 * 1000


class ConfigType(Enum):
    """Value types with their DescribeConfigs numbers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """All settings of one topic, resolved: what was set on it over the broker's defaults."""

    log: LogConfig = field(default_factory=LogConfig)
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    """Whether a replica out of sync may lead where no other is left; records may be lost."""
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = HOUR_MS
    """How far ahead of the broker's clock a record may be (KIP-937; the default is Kafka 4's)."""
    inert: Mapping[str, str] = field(default_factory=_nothing)
    """What was set on it and has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One configuration: how its text becomes a field of the settings, and back.

    `broker_name` is what Kafka calls the broker's default of it (`log.segment.records` is ours).
    """

    name: str
    broker_name: str
    type: ConfigType
    meaning: str
    parse: Callable[[str], Any]
    show: Callable[[TopicSettings], str]
    store: Callable[[TopicSettings, Any], TopicSettings]


def _cleanup_policy(text: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not policies or not policies <= {"delete", "compact"}:
        raise ValueError("must be delete, compact, or both")
    return policies


def _log_key(
    name: str,
    broker_name: str,
    kind: ConfigType,
    attribute: str,
    low: int,
    high: int,
    none: int | None,
    meaning: str,
) -> ConfigKey:
    """A number in LogConfig; the number `none` stands for no limit."""

    def show(settings: TopicSettings) -> str:
        value = getattr(settings.log, attribute)
        return str(none if value is None else value)

    def store(settings: TopicSettings, value: int) -> TopicSettings:
        changed: dict[str, Any] = {attribute: None if value == none else value}
        return replace(settings, log=replace(settings.log, **changed))

    parse = number(name, low, high)
    return ConfigKey(
        name=name,
        broker_name=broker_name,
        type=kind,
        meaning=meaning,
        parse=parse,
        show=show,
        store=store,
    )


def _settings_key(
    name: str, broker_name: str, kind: ConfigType, attribute: str, high: int, meaning: str
) -> ConfigKey:
    return ConfigKey(
        name=name,
        broker_name=broker_name,
        type=kind,
        meaning=meaning,
        parse=number(name, 0 if kind is ConfigType.LONG else 1, high),
        show=lambda settings: str(getattr(settings, attribute)),
        store=lambda settings, value: replace(settings, **{attribute: value}),
    )


def _inert_key(inert: Inert) -> ConfigKey:
    """A setting that is kept as it was given."""
    name = inert.name

    def checked(text: str) -> str:
        inert.parse(text)
        return text

    def store(settings: TopicSettings, value: str) -> TopicSettings:
        others = {each: kept for each, kept in settings.inert.items() if each != name}
        if value != inert.default:
            others[name] = value
        return replace(settings, inert=MappingProxyType(others))

    return ConfigKey(
        name=name,
        broker_name=inert.broker_name,
        type=ConfigType[inert.type],
        meaning=f"Without effect: {inert.why}.",
        parse=checked,
        show=lambda settings: settings.inert.get(name, inert.default),
        store=store,
    )


_INT, _LONG = ConfigType.INT, ConfigType.LONG

_ACTING: tuple[ConfigKey, ...] = (
    ConfigKey(
        name="cleanup.policy",
        broker_name="log.cleanup.policy",
        type=ConfigType.LIST,
        meaning="delete: old segments go; compact: the last record of each key stays.",
        parse=_cleanup_policy,
        show=lambda settings: ",".join(sorted(settings.log.cleanup_policy)),
        store=lambda settings, value: replace(
            settings, log=replace(settings.log, cleanup_policy=value)
        ),
    ),
    ConfigKey(
        name="compression.type",
        broker_name="compression.type",
        type=ConfigType.STRING,
        meaning="producer: batches are stored as they were sent.",
        parse=choice("producer", why="batches are stored as they were sent"),
        show=lambda settings: "producer",
        store=lambda settings, value: settings,
    ),
    _log_key(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        _LONG,
        "delete_retention_ms",
        0,
        LONG_MAX,
        None,
        "How long a deleted key of a compacted topic can still be read as deleted.",
    ),
    _log_key(
        "flush.messages",
        "log.flush.interval.messages",
        _LONG,
        "flush_messages",
        1,
        LONG_MAX,
        LONG_MAX,
        "Records per fsync; 1: acks=all is answered once every in-sync replica has synced them.",
    ),
    _log_key(
        "flush.ms",
        "log.flush.interval.ms",
        _LONG,
        "flush_ms",
        0,
        LONG_MAX,
        LONG_MAX,
        "Largest age of unsynced data.",
    ),
    _log_key(
        "index.interval.bytes",
        "log.index.interval.bytes",
        _INT,
        "index_interval_bytes",
        1,
        INT_MAX,
        None,
        "Log bytes between two index entries.",
    ),
    _log_key(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        _LONG,
        "max_compaction_lag_ms",
        1,
        LONG_MAX,
        LONG_MAX,
        "Age at which a segment is closed and cleaned however little of the log is dirty.",
    ),
    _log_key(
        "max.message.bytes",
        "message.max.bytes",
        _INT,
        "message_bytes_max",
        0,
        INT_MAX,
        None,
        "Largest record batch, as sent.",
    ),
    _settings_key(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        _LONG,
        "timestamp_after_max_ms",
        LONG_MAX,
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    _settings_key(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        _LONG,
        "timestamp_before_max_ms",
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    ConfigKey(
        name="message.timestamp.type",
        broker_name="log.message.timestamp.type",
        type=ConfigType.STRING,
        meaning="Whose clock stamps records: the producer's or the broker's.",
        parse=choice("CreateTime", "LogAppendTime"),
        show=lambda settings: settings.log.timestamp_type.value,
        store=lambda settings, value: replace(
            settings, log=replace(settings.log, timestamp_type=TimestampType(value))
        ),
    ),
    ConfigKey(
        name="min.cleanable.dirty.ratio",
        broker_name="log.cleaner.min.cleanable.ratio",
        type=ConfigType.DOUBLE,
        meaning="A compacted log is cleaned when more of it than this was written since.",
        parse=ratio,
        show=lambda settings: str(settings.log.min_cleanable_dirty_ratio),
        store=lambda settings, value: replace(
            settings, log=replace(settings.log, min_cleanable_dirty_ratio=value)
        ),
    ),
    _log_key(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        _LONG,
        "min_compaction_lag_ms",
        0,
        LONG_MAX,
        None,
        "How long records of a compacted topic stay untouched.",
    ),
    _settings_key(
        "min.insync.replicas",
        "min.insync.replicas",
        _INT,
        "min_insync_replicas",
        2**15 - 1,
        "Replicas in sync without which acks=all is refused.",
    ),
    _log_key(
        "retention.bytes",
        "log.retention.bytes",
        _LONG,
        "retention_bytes",
        -1,
        LONG_MAX,
        -1,
        "Size of a partition past which its oldest segments go; -1: no bound.",
    ),
    _log_key(
        "retention.ms",
        "log.retention.ms",
        _LONG,
        "retention_ms",
        -1,
        LONG_MAX,
        -1,
        "Age past which closed segments go; -1: no bound.",
    ),
    _log_key(
        "segment.bytes",
        "log.segment.bytes",
        _INT,
        "segment_bytes",
        1024,
        INT_MAX,
        None,
        "Largest segment file.",
    ),
    _log_key(
        "segment.ms",
        "log.roll.ms",
        _LONG,
        "segment_ms",
        1,
        LONG_MAX,
        None,
        "Largest age of a segment.",
    ),
    _log_key(
        "segment.records",
        "log.segment.records",
        _LONG,
        "segment_records",
        -1,
        LONG_MAX,
        -1,
        "Records after which a segment is closed; -1: no bound (ours, not Kafka's).",
    ),
    ConfigKey(
        name="unclean.leader.election.enable",
        broker_name="unclean.leader.election.enable",
        type=ConfigType.BOOLEAN,
        meaning="Whether a replica out of sync may lead where no other is left: records are lost.",
        parse=flag,
        show=lambda settings: str(settings.unclean_leader_election).lower(),
        store=lambda settings, value: replace(settings, unclean_leader_election=value),
    ),
)
TOPIC_CONFIGS = tuple(sorted([*_ACTING, *map(_inert_key, INERT)], key=lambda key: key.name))
_KEYS = {key.name: key for key in TOPIC_CONFIGS}


def is_list(name: str) -> bool:
    """Whether a served configuration is a list (KIP-339 appends to those)."""
    key = _KEYS.get(name)
    return key is not None and key.type is ConfigType.LIST


def check_config(name: str, value: str | None) -> None:
    """Raises KafkaError(invalid_config) in one sentence."""
    if value is None:
        raise KafkaError(ErrorCode.invalid_config, f"'{name}' has no value")
    key = _KEYS.get(name)
    if name in REFUSED:
        raise KafkaError(ErrorCode.invalid_config, f"'{name}' is not served: {REFUSED[name]}")
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


def check_configs(pairs: Iterable[tuple[str, str | None]]) -> tuple[tuple[str, str], ...]:
    """The pairs, checked, without their None; a name given twice is refused."""
    checked: dict[str, str] = {}
    for name, value in pairs:
        check_config(name, value)
        assert value is not None
        if name in checked:
            raise KafkaError(ErrorCode.invalid_config, f"'{name}' is given twice")
        checked[name] = value
    return tuple(checked.items())


def resolve(config: Iterable[tuple[str, str]], defaults: TopicSettings) -> TopicSettings:
    """The settings of a topic with `config` set on it.

    The pairs were checked by the broker that was asked. In a rolling upgrade that may have been
    newer code: what this one does not know has no effect here, and must not stop it.
    """
    settings = defaults
    for name, value in config:
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
    """Every served configuration as text, by name."""
    return {key.name: key.show(settings) for key in TOPIC_CONFIGS}

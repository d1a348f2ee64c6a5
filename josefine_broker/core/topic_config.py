"""The topic configurations that are served: names, types, defaults, checks.

Rules: the names and meanings are Kafka's (`segment.records` is ours); a name Kafka knows and this
broker does not serve is refused, never swallowed: a setting that is accepted must have its effect.
Batches are stored as the producer sent them, so `compression.type` is `producer` and nothing else.
`compact` promises that the last record of each key stays; keeping all of them keeps that promise.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from typing import Any

from josefine_broker.base.durations import duration_ms
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.log_config import LogConfig, TimestampType

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
HOUR_MS = 3600 * 1000

_UNITS = {"ms": " of milliseconds", "bytes": " of bytes"}
"""By the last part of a configuration's name."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")


class ConfigType(Enum):
    """Value types with their DescribeConfigs numbers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


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


def _number(name: str, low: int, high: int) -> Callable[[str], int]:
    """Kafka's numbers are of milliseconds or bytes as their names say, and have no unit."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(_no_number(name, text))
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return parse


def _no_number(name: str, text: str) -> str:
    unit = _UNITS.get(name.rpartition(".")[2], "")
    found = duration_ms(text) if unit == _UNITS["ms"] else None
    return f"must be a whole number{unit}" + ("" if found is None else f": {text} is {found}")


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return text

    return parse


def parse_flag(text: str) -> bool:
    """As Kafka reads booleans: whatever their case."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError("must be true or false")
    return value


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

    parse = _number(name, low, high)
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
        parse=_number(name, 0 if kind is ConfigType.LONG else 1, high),
        show=lambda settings: str(getattr(settings, attribute)),
        store=lambda settings, value: replace(settings, **{attribute: value}),
    )


_INT, _LONG = ConfigType.INT, ConfigType.LONG

TOPIC_CONFIGS: tuple[ConfigKey, ...] = (
    ConfigKey(
        name="cleanup.policy",
        broker_name="log.cleanup.policy",
        type=ConfigType.LIST,
        meaning="delete: old segments go; compact: all records stay (no cleaner runs yet).",
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
        parse=_choice("producer"),
        show=lambda settings: "producer",
        store=lambda settings, value: settings,
    ),
    _log_key(
        "flush.messages",
        "log.flush.interval.messages",
        _LONG,
        "flush_messages",
        1,
        LONG_MAX,
        LONG_MAX,
        "Records per fsync.",
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
        parse=_choice("CreateTime", "LogAppendTime"),
        show=lambda settings: settings.log.timestamp_type.value,
        store=lambda settings, value: replace(
            settings, log=replace(settings.log, timestamp_type=TimestampType(value))
        ),
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
        parse=parse_flag,
        show=lambda settings: str(settings.unclean_leader_election).lower(),
        store=lambda settings, value: replace(settings, unclean_leader_election=value),
    ),
)
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
    """The settings of a topic with `config` set on it. The pairs have been checked before."""
    settings = defaults
    for name, value in config:
        key = _KEYS[name]
        settings = key.store(settings, key.parse(value))
    return settings


def shown(settings: TopicSettings) -> Mapping[str, str]:
    """Every served configuration as text, by name."""
    return {key.name: key.show(settings) for key in TOPIC_CONFIGS}

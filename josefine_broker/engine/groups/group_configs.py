"""The configurations of single groups (KIP-848, KIP-932): their names, bounds and effects.

Rules: a group has those that were set on it (in the metadata image, as texts), and otherwise what
its broker's file has. Values are checked as by Kafka 4.4: by type, by Kafka's bounds, and a
session timeout must be above the heartbeat interval. The bounds are Kafka's defaults, extended to
the broker's own value, because a group may always have what it has without a configuration.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.share.config import DeadLetters, ShareConfig, start_of
from josefine_broker.engine.groups.share.values import Limits
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.metadata.config_texts import ConfigType, printed, read_value

Config = tuple[tuple[str, str], ...]
"""What was set on a group: names and texts, sorted."""

CONSUMER_SESSION = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT = "consumer.heartbeat.interval.ms"
SHARE_SESSION, SHARE_HEARTBEAT = "share.session.timeout.ms", "share.heartbeat.interval.ms"
RESET = "share.auto.offset.reset"
DLQ_TOPIC = "errors.deadletterqueue.topic.name"
DLQ_COPY = "errors.deadletterqueue.copy.record.enable"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


class GroupConfigKey(NamedTuple):
    """One configuration."""

    name: str
    type: ConfigType
    default: str
    """Kafka's."""
    bounds: tuple[int, int] | None
    """Of a number, inclusive."""
    words: tuple[str, ...]
    """The allowed words of a text."""
    read: Callable[[GroupSettings], object]
    """The broker's own value."""
    meaning: str
    has_broker_config: bool = True
    """Whether a broker has it as a default, under this name after "group."."""

    @property
    def broker_name(self) -> str:
        return f"group.{self.name}"


def _number(
    name: str, default: int, low: int, high: int, read: Callable[[GroupSettings], int], meaning: str
) -> GroupConfigKey:
    return GroupConfigKey(name, ConfigType.INT, str(default), (low, high), (), read, meaning)


# fmt: off
KEYS: Mapping[str, GroupConfigKey] = {each.name: each for each in (
    _number(CONSUMER_HEARTBEAT, 5_000, 5_000, 15_000,
            lambda own: own.consumer_heartbeat_interval_ms,
            "Heartbeat interval of members of the consumer protocol."),
    _number(CONSUMER_SESSION, 45_000, 45_000, 60_000,
            lambda own: own.consumer_session_timeout_ms,
            "How long a member of the consumer protocol may send no heartbeat."),
    GroupConfigKey(DLQ_COPY, ConfigType.BOOLEAN, "false", None, (), lambda own: False,
                   "Whether a dead letter has the key and value of its record (KIP-1191).",
                   has_broker_config=False),
    GroupConfigKey(DLQ_TOPIC, ConfigType.STRING, "", None, (), lambda own: "",
                   "The topic of the dead letters of a share group (KIP-1191); empty: none.",
                   has_broker_config=False),
    GroupConfigKey(RESET, ConfigType.STRING, "latest", None, (),
                   lambda own: own.share.start_at.value,
                   "Where a share group starts in a partition that is new to it: latest, earliest,"
                   " or by_duration:PT1H, an hour ago.",
                   has_broker_config=False),
    _number("share.delivery.count.limit", 5, 2, 10,
            lambda own: own.share.limits.deliveries_max,
            "How often a record is delivered at most."),
    _number(SHARE_HEARTBEAT, 5_000, 5_000, 15_000,
            lambda own: own.consumer_heartbeat_interval_ms,
            "Heartbeat interval of members of a share group."),
    GroupConfigKey("share.isolation.level", ConfigType.STRING, UNCOMMITTED, None,
                   (COMMITTED, UNCOMMITTED),
                   lambda own: COMMITTED if own.share.is_committed_only else UNCOMMITTED,
                   "read_committed: no records of open or aborted transactions.",
                   has_broker_config=False),
    _number("share.partition.max.record.locks", 2_000, 100, 4_000,
            lambda own: own.share.limits.locks_max,
            "Records of a partition that are in flight at most."),
    _number("share.record.lock.duration.ms", 30_000, 15_000, 60_000,
            lambda own: own.share.limits.lock_ms,
            "How long a member has a record before others may get it."),
    GroupConfigKey("share.renew.acknowledge.enable", ConfigType.BOOLEAN, "true", None, (),
                   lambda own: own.share.may_renew,
                   "Whether members may renew the locks of their records (KIP-1222).",
                   has_broker_config=False),
    _number(SHARE_SESSION, 45_000, 45_000, 60_000,
            lambda own: own.consumer_session_timeout_ms,
            "How long a member of a share group may send no heartbeat."),
)}
# fmt: on


def check(config: Iterable[tuple[str, str]], own: GroupSettings) -> None:
    """Refuse a group's whole configuration. Raises KafkaError(invalid_config) with one sentence."""
    values = {name: key.read(own) for name, key in KEYS.items()}
    for name, text in config:
        values[name] = _value(name, text, own)
    for session, interval in (
        (CONSUMER_SESSION, CONSUMER_HEARTBEAT),
        (SHARE_SESSION, SHARE_HEARTBEAT),
    ):
        timeout_ms, interval_ms = values[session], values[interval]
        assert isinstance(timeout_ms, int)
        assert isinstance(interval_ms, int)
        if timeout_ms <= interval_ms:
            message = f"'{session}' ({timeout_ms}) must be above '{interval}' ({interval_ms})"
            raise KafkaError(ErrorCode.invalid_config, message)


def _value(name: str, text: str, own: GroupSettings) -> object:
    """Raises KafkaError(invalid_config)."""
    key = KEYS.get(name)
    if key is None:
        near = get_close_matches(name, KEYS, n=1)
        hint = f"; the nearest is '{near[0]}'" if near else ""
        message = f"'{name}' is not served as a group config{hint}"
        raise KafkaError(ErrorCode.invalid_config, message)
    try:
        value = read_value(key.type, text, name)
        if key.words and value not in key.words:
            raise ValueError(f"must be {' or '.join(key.words)}")
        if name == RESET:
            start_of(str(value))
        if name == DLQ_TOPIC:
            _check_dead_letter_topic(str(value), own.share.dead_letter_prefix)
        if key.bounds is not None:
            mine = key.read(own)
            assert isinstance(value, int)
            assert isinstance(mine, int)
            low, high = min(key.bounds[0], mine), max(key.bounds[1], mine)
            if not low <= value <= high:
                raise ValueError(f"must be from {low} to {high}")
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_config, f"'{name}' {error}: {text!r}") from error
    return value


def _check_dead_letter_topic(topic: str, prefix: str) -> None:
    """Raises ValueError. The topic itself may be created later, as in Kafka."""
    if topic and not _TOPIC_NAME.fullmatch(topic):
        raise ValueError("must be a topic name: 1 to 249 of a-z A-Z 0-9 . _ -")
    if topic.startswith("__"):
        raise ValueError("must not start with __")
    # Or a client that may write a record that is rejected could write to any topic.
    if topic and not topic.startswith(prefix):
        raise ValueError(f"must start with {prefix}")


def normal(name: str, text: str) -> str:
    """A valid text as DescribeConfigs prints it."""
    return printed(read_value(KEYS[name].type, text, name))


def shown(own: GroupSettings) -> dict[str, str]:
    """The broker's own value of each configuration, as text."""
    found = {}
    for name, key in KEYS.items():
        value = key.read(own)
        assert isinstance(value, bool | int | str)
        found[name] = printed(value)
    return found


class GroupConfig(NamedTuple):
    """What a group does."""

    consumer_session_ms: int
    consumer_heartbeat_ms: int
    share_session_ms: int
    share_heartbeat_ms: int
    share: ShareConfig


# Read with each request of a member, and changed rarely.
@lru_cache(maxsize=1_024)
def resolve(
    config: Config, own: GroupSettings, *, serves_dead_letters: bool = False
) -> GroupConfig:
    """What a group with this configuration does. A text that is not valid here has no effect: the
    broker that accepted it may have had other bounds in its file. `serves_dead_letters`: whether
    every broker of the cluster does."""
    values = {name: key.read(own) for name, key in KEYS.items()}
    for pair in config:
        try:
            values[pair[0]] = _value(*pair, own)
        except KafkaError:
            continue
    # Without effect before: a broker of an older level could not read the states it leads to.
    topic = str(values[DLQ_TOPIC]) if serves_dead_letters else ""
    number = {name: value for name, value in values.items() if isinstance(value, int)}
    return GroupConfig(
        number[CONSUMER_SESSION],
        number[CONSUMER_HEARTBEAT],
        number[SHARE_SESSION],
        number[SHARE_HEARTBEAT],
        ShareConfig(
            Limits(
                lock_ms=number["share.record.lock.duration.ms"],
                deliveries_max=number["share.delivery.count.limit"],
                locks_max=number["share.partition.max.record.locks"],
                has_dead_letters=bool(topic),
                repeat_ms=own.share.limits.repeat_ms,
            ),
            *start_of(str(values[RESET])),
            is_committed_only=values["share.isolation.level"] == COMMITTED,
            may_renew=bool(values["share.renew.acknowledge.enable"]),
            dead_letters=DeadLetters(topic, bool(values[DLQ_COPY])) if topic else None,
            dead_letter_prefix=own.share.dead_letter_prefix,
        ),
    )

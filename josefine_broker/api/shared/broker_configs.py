"""The broker configurations that DescribeConfigs shows, under Kafka's names, which tools expect.

A row reads its value from the running broker's settings, so none is shown that has no effect.
Values that only the host knows (listeners, limits of connections) come from
`BrokerSettings.host_configs` under Kafka's name; if missing there, the default applies.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.topic_config import (
    TOPIC_CONFIGS,
    ConfigType,
    TopicSettings,
    shown,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
INT_MAX = 2**31 - 1

_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_LIST, _STRING, _DOUBLE = ConfigType.LIST, ConfigType.STRING, ConfigType.DOUBLE


class BrokerConfig(NamedTuple):
    """One configuration. `default` is Kafka's; None: it has none."""

    name: str
    type: ConfigType
    default: str | None
    read: Callable[[Context], object]


class ShownConfig(NamedTuple):
    """One configuration with its value here."""

    name: str
    type: ConfigType
    default: str | None
    value: str | None


def _from_host(name: str, kind: ConfigType, default: str | None) -> BrokerConfig:
    """A configuration that the handlers know only as text."""
    return BrokerConfig(
        name, kind, default, lambda ctx: ctx.settings.host_configs.get(name, default)
    )


def _fixed(name: str, kind: ConfigType, value: str) -> BrokerConfig:
    """A value that cannot be changed."""
    return BrokerConfig(name, kind, value, lambda _: value)


def _advertised(ctx: Context) -> str | None:
    broker = ctx.image.brokers.get(ctx.broker_id)
    if broker is None:
        return None
    return ",".join(f"{at.listener}://{at.host}:{at.port}" for at in broker.endpoints)


def _rack(ctx: Context) -> str | None:
    broker = ctx.image.brokers.get(ctx.broker_id)
    return None if broker is None else broker.rack


def _hours(ms: int | None) -> int:
    """Whole hours; -1 is no limit."""
    return -1 if ms is None else ms // HOUR_MS


def _migration(ctx: Context) -> str:
    groups = ctx.settings.offsets.groups
    return {
        (False, False): "disabled",
        (True, False): "upgrade",
        (False, True): "downgrade",
        (True, True): "bidirectional",
    }[groups.upgrades_classic, groups.downgrades_consumer]


# fmt: off
BROKER_CONFIGS: tuple[BrokerConfig, ...] = (
    BrokerConfig("advertised.listeners", _LIST, None, _advertised),
    BrokerConfig("auto.create.topics.enable", _BOOLEAN, "true",
                 lambda ctx: ctx.settings.auto_create_topics),
    _fixed("auto.leader.rebalance.enable", _BOOLEAN, "true"),
    BrokerConfig("broker.id", _INT, "-1", lambda ctx: ctx.broker_id),
    BrokerConfig("broker.rack", _STRING, None, _rack),
    _from_host("connections.max.idle.ms", _LONG, "600000"),
    _from_host("connections.max.reauth.ms", _LONG, "0"),
    _fixed("controlled.shutdown.enable", _BOOLEAN, "true"),
    BrokerConfig("default.replication.factor", _INT, "1",
                 lambda ctx: ctx.settings.default_replication_factor),
    _fixed("delete.topic.enable", _BOOLEAN, "true"),
    BrokerConfig("fetch.max.bytes", _INT, "57671680", lambda ctx: ctx.settings.fetch.bytes_max),
    BrokerConfig("group.consumer.heartbeat.interval.ms", _INT, "5000",
                 lambda ctx: ctx.settings.offsets.groups.consumer_heartbeat_interval_ms),
    BrokerConfig("group.consumer.migration.policy", _STRING, "bidirectional", _migration),
    BrokerConfig("group.consumer.session.timeout.ms", _INT, "45000",
                 lambda ctx: ctx.settings.offsets.groups.consumer_session_timeout_ms),
    BrokerConfig("group.initial.rebalance.delay.ms", _INT, "3000",
                 lambda ctx: ctx.settings.offsets.groups.initial_rebalance_delay_ms),
    BrokerConfig("group.max.session.timeout.ms", _INT, "1800000",
                 lambda ctx: ctx.settings.offsets.groups.session_timeout_max_ms),
    BrokerConfig("group.max.size", _INT, str(INT_MAX),
                 lambda ctx: min(ctx.settings.offsets.groups.size_max, INT_MAX)),
    BrokerConfig("group.min.session.timeout.ms", _INT, "6000",
                 lambda ctx: ctx.settings.offsets.groups.session_timeout_min_ms),
    BrokerConfig("group.share.delivery.count.limit", _INT, "5",
                 lambda ctx: ctx.settings.offsets.groups.share.limits.deliveries_max),
    BrokerConfig("group.share.partition.max.record.locks", _INT, "2000",
                 lambda ctx: ctx.settings.offsets.groups.share.limits.locks_max),
    BrokerConfig("group.share.record.lock.duration.ms", _INT, "30000",
                 lambda ctx: ctx.settings.offsets.groups.share.limits.lock_ms),
    _from_host("inter.broker.listener.name", _STRING, None),
    _from_host("leader.imbalance.check.interval.seconds", _LONG, "300"),
    _from_host("listener.security.protocol.map", _STRING,
               "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
    _from_host("listeners", _LIST, "PLAINTEXT://:9092"),
    _from_host("log.cleaner.backoff.ms", _LONG, "15000"),
    _from_host("log.cleaner.dedupe.buffer.size", _LONG, "134217728"),
    _fixed("log.cleaner.enable", _BOOLEAN, "true"),
    _from_host("log.cleaner.io.max.bytes.per.second", _DOUBLE, "1.7976931348623157E308"),
    BrokerConfig("log.dir", _LIST, "/tmp/kafka-logs", lambda ctx: ctx.settings.data_directory),
    BrokerConfig("log.dirs", _LIST, None, lambda ctx: ctx.settings.data_directory),
    _from_host("log.retention.check.interval.ms", _LONG, "300000"),
    BrokerConfig("log.retention.hours", _INT, "168",
                 lambda ctx: _hours(ctx.settings.topic_defaults.log.retention_ms)),
    BrokerConfig("log.roll.hours", _INT, "168",
                 lambda ctx: _hours(ctx.settings.topic_defaults.log.segment_ms)),
    _from_host("max.connections", _INT, str(INT_MAX)),
    _from_host("max.connections.per.ip", _INT, str(INT_MAX)),
    BrokerConfig("max.incremental.fetch.session.cache.slots", _INT, "1000",
                 lambda ctx: ctx.settings.fetch.sessions_max),
    BrokerConfig("node.id", _INT, None, lambda ctx: ctx.broker_id),
    BrokerConfig("num.partitions", _INT, "1", lambda ctx: ctx.settings.default_partitions),
    BrokerConfig("offset.metadata.max.bytes", _INT, "4096",
                 lambda ctx: ctx.settings.offsets.metadata_bytes_max),
    BrokerConfig("offsets.commit.timeout.ms", _INT, "5000",
                 lambda ctx: ctx.settings.offsets.timeout_ms),
    BrokerConfig("offsets.retention.minutes", _INT, "10080",
                 lambda ctx: ctx.settings.offsets.groups.offsets_retention_ms // MINUTE_MS),
    BrokerConfig("offsets.topic.num.partitions", _INT, "50",
                 lambda ctx: ctx.settings.offsets.partitions),
    BrokerConfig("offsets.topic.replication.factor", ConfigType.SHORT, "3",
                 lambda ctx: ctx.settings.default_replication_factor),
    _fixed("offsets.topic.segment.bytes", _INT, "104857600"),
    _fixed("process.roles", _LIST, "broker,controller"),
    BrokerConfig("replica.fetch.max.bytes", _INT, "1048576",
                 lambda ctx: ctx.settings.replica_fetch.partition_bytes_max),
    BrokerConfig("replica.fetch.response.max.bytes", _INT, "10485760",
                 lambda ctx: ctx.settings.replica_fetch.bytes_max),
    BrokerConfig("replica.fetch.wait.max.ms", _INT, "500",
                 lambda ctx: ctx.settings.replica_fetch.wait_ms),
    BrokerConfig("replica.lag.time.max.ms", _LONG, "30000",
                 lambda ctx: ctx.settings.replica_fetch.lag_time_max_ms),
    BrokerConfig("sasl.enabled.mechanisms", _LIST, "GSSAPI",
                 lambda ctx: ctx.settings.host_configs.get("sasl.enabled.mechanisms", "")),
    _from_host("socket.request.max.bytes", _INT, "104857600"),
    _from_host("socket.send.buffer.bytes", _INT, "102400"),
    _from_host("ssl.client.auth", _STRING, "none"),
    BrokerConfig("transaction.max.timeout.ms", _INT, "900000",
                 lambda ctx: ctx.settings.offsets.transactions.timeout_max_ms),
    BrokerConfig("transaction.state.log.min.isr", _INT, "2",
                 lambda ctx: ctx.settings.topic_defaults.min_insync_replicas),
    BrokerConfig("transaction.state.log.num.partitions", _INT, "50",
                 lambda ctx: ctx.settings.offsets.transactions.partitions),
    BrokerConfig("transaction.state.log.replication.factor", ConfigType.SHORT, "3",
                 lambda ctx: ctx.settings.default_replication_factor),
    _fixed("transaction.state.log.segment.bytes", _INT, "104857600"),
    BrokerConfig("transaction.two.phase.commit.enable", _BOOLEAN, "false",
                 lambda ctx: ctx.settings.offsets.transactions.two_phase_enable),
    BrokerConfig("transactional.id.expiration.ms", _INT, "604800000",
                 lambda ctx: ctx.settings.offsets.transactions.id_expiration_ms),
)
# fmt: on

KAFKA_DEFAULTS = shown(TopicSettings())
"""Defaults of topic configurations, by name."""


def broker_configs(ctx: Context) -> Iterator[ShownConfig]:
    """The configurations of this broker, with its topic defaults."""
    for name, kind, default, read in BROKER_CONFIGS:
        value = read(ctx)
        text = str(value).lower() if isinstance(value, bool) else value
        yield ShownConfig(name, kind, default, None if text is None else str(text))
    of_topics = shown(ctx.settings.topic_defaults)
    for key in TOPIC_CONFIGS:
        if key.broker_name:
            default = KAFKA_DEFAULTS[key.name]
            yield ShownConfig(key.broker_name, key.type, default, of_topics[key.name])

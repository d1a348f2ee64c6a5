"""Translations between configuration and settings of the parts that `node.py` creates, and texts
for users. Nothing is started or resolved here: randomness and names are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from josefine_broker.base.addresses import HostPort, is_loopback
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.config.sections import LogSection, ReplicationSection
from josefine_broker.engine.broker import EngineConfig
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.controller.controller import ControllerConfig
from josefine_broker.engine.groups.share.config import ShareConfig, StartAt
from josefine_broker.engine.groups.share.values import Limits
from josefine_broker.engine.groups.values import NO_SIZE_LIMIT, GroupSettings
from josefine_broker.engine.limits.request_memory import GRACE_MS
from josefine_broker.engine.metadata.changes import RegisterBroker
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Endpoint
from josefine_broker.engine.metadata.log_config import LogConfig, TimestampType
from josefine_broker.engine.metadata.topic_config import COMPRESSIONS, TopicSettings
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.engine.telemetry.client_metrics import ClientMetricsSettings
from josefine_broker.engine.transactions.values import TransactionSettings
from josefine_broker.host.log.cleaner import CleanerSettings
from josefine_broker.host.log.scrub import ScrubSettings
from josefine_broker.host.net.connection_host import ConnectionLimits
from josefine_broker.host.net.server import Bound
from josefine_broker.records.structure import is_compiled
from josefine_broker.text.front import TextSettings
from raft import Config, NodeId

SWEEPS_PER_TIMEOUT = 8
WILDCARDS = frozenset({"0.0.0.0", "::"})
"""Bound addresses that clients cannot dial."""


def log_config(section: LogSection) -> LogConfig:
    """The broker's defaults for partition logs."""
    return LogConfig(
        segment_bytes=section.segment_bytes,
        segment_ms=section.segment_ms,
        segment_records=section.segment_records,
        index_interval_bytes=section.index_interval_bytes,
        retention_ms=section.retention_ms,
        retention_bytes=section.retention_bytes,
        flush_messages=section.flush_messages,
        flush_ms=section.flush_ms,
        message_bytes_max=section.message_bytes_max,
        compression=COMPRESSIONS[section.compression_type],
        validates_records=section.validate_records == "full",
        timestamp_type=TimestampType(section.timestamp_type),
        delete_retention_ms=section.cleaner_delete_retention_ms,
        min_cleanable_dirty_ratio=section.cleaner_min_cleanable_ratio,
        min_compaction_lag_ms=section.cleaner_min_compaction_lag_ms,
        max_compaction_lag_ms=section.cleaner_max_compaction_lag_ms,
    )


def cleaner_settings(section: LogSection) -> CleanerSettings:
    """Settings of the log cleaner."""
    return CleanerSettings(
        backoff_ms=section.cleaner_backoff_ms,
        map_bytes_max=section.cleaner_dedupe_buffer_bytes,
        bytes_per_second_max=section.cleaner_bytes_per_second_max,
    )


def scrub_settings(section: LogSection) -> ScrubSettings:
    """Settings of the scrub."""
    return ScrubSettings(
        interval_ms=section.scrub_interval_ms,
        bytes_per_second_max=section.scrub_bytes_per_second_max,
    )


def broker_settings(config: BrokerConfig) -> BrokerSettings:
    """The configuration that handlers use."""
    # What a topic may set for itself is in `topic_defaults`.
    defaults = config.topic_defaults
    return BrokerSettings(
        data_directory=str(config.broker.data_dir.absolute()),
        auto_create_topics=config.broker.auto_create_topics,
        partitions_max=config.broker.partitions_max,
        default_partitions=defaults.partitions,
        default_replication_factor=defaults.replication_factor,
        topic_defaults=TopicSettings(
            log=log_config(config.log),
            min_insync_replicas=defaults.min_insync_replicas,
            unclean_leader_election=defaults.unclean_leader_election_enable,
        ),
        offsets=OffsetsSettings(
            flush=config.log.flush_internal_topics,
            groups=group_settings(config),
            transactions=TransactionSettings(
                timeout_max_ms=config.transactions.max_timeout_ms,
                id_expiration_ms=config.transactions.id_expiration_ms,
                two_phase_enable=config.transactions.two_phase_commit_enable,
                two_phase_timeout_max_ms=config.transactions.two_phase_commit_timeout_max_ms,
            ),
        ),
        metadata_timeout_ms=config.raft.proposal_timeout_ms,
        replica_fetch=fetch_limits(config.replication),
        client_metrics=ClientMetricsSettings(
            prefixes=tuple(config.telemetry.client_metrics),
            push_interval_ms=config.telemetry.client_push_interval_ms,
            push_bytes_max=config.telemetry.client_push_bytes_max,
        ),
        host_configs=host_configs(config),
    )


def host_configs(config: BrokerConfig) -> Mapping[str, str]:
    """Configurations shown by DescribeConfigs that no handler knows, under Kafka's names."""
    broker, network, log = config.broker, config.network, config.log
    names = [each.name for each in broker.listeners]
    found = {
        "connections.max.idle.ms": network.idle_timeout_ms,
        "connections.max.reauth.ms": config.sasl.reauthentication_ms or 0,
        "inter.broker.listener.name": config.inter_broker_listener,
        "leader.imbalance.check.interval.seconds": config.cluster.imbalance_check_interval_ms
        // 1_000,
        "listener.security.protocol.map": ",".join(
            f"{name}:{config.protocol_of(name).value}" for name in names
        ),
        "listeners": ",".join(f"{each.name}://{each.address}" for each in broker.listeners),
        "log.cleaner.backoff.ms": log.cleaner_backoff_ms,
        "log.cleaner.dedupe.buffer.size": log.cleaner_dedupe_buffer_bytes,
        "log.retention.check.interval.ms": log.retention_check_interval_ms,
        "max.connections": network.connections_max,
        "sasl.enabled.mechanisms": ",".join(config.sasl.mechanisms),
        "socket.request.max.bytes": network.frame_bytes_max,
        "ssl.client.auth": config.tls.client_auth,
    }
    # Kafka's -1: the system's own size.
    found["socket.send.buffer.bytes"] = network.send_buffer_bytes or -1
    if network.connections_per_address_max is not None:
        found["max.connections.per.ip"] = network.connections_per_address_max
    if log.cleaner_bytes_per_second_max is not None:
        found["log.cleaner.io.max.bytes.per.second"] = float(log.cleaner_bytes_per_second_max)
    return {name: str(value) for name, value in found.items()}


def group_settings(config: BrokerConfig) -> GroupSettings:
    """Settings of the group coordinator."""
    group = config.group
    return GroupSettings(
        initial_rebalance_delay_ms=group.initial_rebalance_delay_ms,
        session_timeout_min_ms=group.min_session_timeout_ms,
        session_timeout_max_ms=group.max_session_timeout_ms,
        size_max=group.max_size or NO_SIZE_LIMIT,
        consumer_session_timeout_ms=group.consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=group.consumer_heartbeat_interval_ms,
        upgrades_classic=group.consumer_migration_policy in ("upgrade", "bidirectional"),
        downgrades_consumer=group.consumer_migration_policy in ("downgrade", "bidirectional"),
        share=ShareConfig(
            Limits(
                lock_ms=group.share_record_lock_duration_ms,
                deliveries_max=group.share_delivery_count_limit,
                locks_max=group.share_partition_max_record_locks,
            ),
            StartAt(group.share_auto_offset_reset),
            is_committed_only=group.share_isolation_level == "read_committed",
            dead_letter_prefix=group.share_dead_letter_topic_prefix,
        ),
        offsets_retention_ms=config.offsets.retention_ms,
    )


def authorizer(config: BrokerConfig) -> Authorizer | None:
    """None: every client may do everything."""
    super_users, acls = config.acls.super_principals, config.acls
    if super_users is None:
        return None
    return Authorizer(super_users, allow_if_none=acls.allow_everyone_if_no_acl_found)


def listeners_apart(config: BrokerConfig) -> frozenset[str]:
    """Listeners that brokers do not use: those with SASL, because brokers have no password, and all
    others if brokers have a listener of their own."""
    own = config.broker.inter_broker_listener
    return frozenset(
        each.name
        for each in config.broker.listeners
        if config.protocol_of(each.name).is_sasl or own not in (None, each.name)
    )


def controller_config(config: BrokerConfig) -> ControllerConfig:
    """Settings of the controller, should this broker become it."""
    return ControllerConfig(
        session_timeout_ms=config.cluster.session_timeout_ms,
        imbalance_check_interval_ms=config.cluster.imbalance_check_interval_ms,
        min_insync_replicas=config.topic_defaults.min_insync_replicas,
        unclean_leader_election=config.topic_defaults.unclean_leader_election_enable,
        voters_max=config.raft.voters_max,
    )


def fetch_limits(section: ReplicationSection) -> FetchLimits:
    """Limits of a follower's fetch."""
    return FetchLimits(
        wait_ms=section.fetch_wait_ms,
        bytes_max=section.fetch_bytes_max,
        partition_bytes_max=section.partition_fetch_bytes_max,
        throttle_bytes_per_second=section.throttle_bytes_per_second,
        lag_time_max_ms=section.lag_time_max_ms,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """The bounds of each connection."""
    network = config.network
    return ConnectionLimits(
        frame_bytes_max=network.frame_bytes_max,
        in_flight_max=network.in_flight_max,
        write_buffer_bytes=network.write_buffer_bytes,
        send_buffer_bytes=network.send_buffer_bytes,
        request_bytes_max=network.request_bytes_max,
    )


def sweep_ms(config: BrokerConfig) -> int:
    """Interval of the sweep for connections that are idle or hold up others."""
    return min(max(1, config.network.idle_timeout_ms // SWEEPS_PER_TIMEOUT), GRACE_MS // 4)


def text_settings(config: BrokerConfig) -> TextSettings:
    """Settings of the text protocol."""
    section = config.text
    return TextSettings(
        acks=ACKS_ALL if section.acks == "all" else int(section.acks),
        is_strict=section.strict,
        line_bytes_max=section.line_bytes_max,
        reply_bytes_max=section.reply_bytes_max,
        reply_records_max=section.reply_records_max,
        subscriptions_max=section.subscriptions_max,
        session_timeout_ms=section.session_timeout_ms,
        timeout_ms=section.timeout_ms,
    )


def registration(
    config: BrokerConfig,
    bound: Iterable[Bound],
    this_host: str,
    admin: str | None,
    incarnation: str,
) -> RegisterBroker:
    """The registration of this broker: per listener the advertised address, otherwise the bound one
    (with `this_host` for a wildcard, which only the binder understands)."""
    named = {listener.name: listener for listener in config.broker.advertised_listeners}
    endpoints = []
    for listener in bound:
        chosen = named.get(listener.name)
        if chosen is not None:
            endpoints.append(Endpoint(listener.name, chosen.host, chosen.port))
        else:
            host = this_host if listener.host in WILDCARDS else listener.host
            endpoints.append(Endpoint(listener.name, host, listener.port))
    return RegisterBroker(
        broker_id=config.broker.id,
        incarnation=incarnation,
        endpoints=tuple(endpoints),
        rack=config.broker.rack,
        admin=admin,
        features=SUPPORTED,
    )


def initial_voters(config: BrokerConfig) -> list[int]:
    """The voters of a cluster that starts with this configuration; empty: it joins one."""
    if config.raft.seeds:
        return []
    return [each.id for each in config.raft.voters] or [config.broker.id]


def engine_config(
    config: BrokerConfig, cluster_id: str, new_cluster_id: str, bound: Bound, this_host: str
) -> EngineConfig:
    """The engine's configuration: `cluster_id` was stored in an earlier run, `new_cluster_id` names
    a cluster that starts here, `bound` is the raft listener."""
    raft = config.raft
    return EngineConfig(
        raft=Config(
            node_id=NodeId(config.broker.id),
            initial_voters=tuple(NodeId(each) for each in initial_voters(config)),
            cluster_id=new_cluster_id,
            format=1,
            heartbeat_ms=raft.heartbeat_timeout_ms,
            election_timeout_ms=raft.election_timeout_ms,
        ),
        snapshots=SnapshotLimits(blocks=raft.snapshot_blocks, bytes=raft.snapshot_bytes),
        settings=broker_settings(config),
        authorizer=authorizer(config),
        listeners_apart=listeners_apart(config),
        controller=controller_config(config),
        address=raft_address(config, bound, this_host),
        seeds=raft.seeds,
        named_voters=frozenset(each.id for each in raft.voters),
        cluster_id=cluster_id,
        heartbeat_ms=config.cluster.heartbeat_interval_ms,
        session_timeout_ms=config.cluster.session_timeout_ms,
        proposal_timeout_ms=raft.proposal_timeout_ms,
    )


def configured_book(config: BrokerConfig) -> AddressBook:
    """The addresses of other brokers in the configuration."""
    book = AddressBook()
    for voter in config.raft.voters:
        book.learn(voter.id, voter.address)
    return book


def raft_address(config: BrokerConfig, bound: Bound, this_host: str) -> HostPort:
    """Where other brokers dial this one: the advertised address, otherwise its entry among the
    voters, otherwise the bound address (with `this_host` for a wildcard)."""
    if config.raft.advertised is not None:
        return config.raft.advertised
    if config.own_voter is not None:
        return config.own_voter.address
    return HostPort(this_host if bound.host in WILDCARDS else bound.host, bound.port)


def slow_validation(config: BrokerConfig, *, is_compiled: bool = is_compiled) -> list[str]:
    """A warning if records are validated by Python."""
    if is_compiled or config.log.validate_records != "full":
        return []
    return [
        "records are validated by Python on this platform, about 1.5 us each: log.validate_records:"
        " headers (conf/broker.yaml) trades that check for speed"
    ]


def named_but_loopback(bound: Iterable[Bound], config: BrokerConfig) -> list[str]:
    """Listeners whose name resolves to loopback on this machine, while other brokers are
    elsewhere."""
    others = [each.address for each in config.raft.voters if each != config.own_voter]
    if all(is_loopback(each.host) for each in (*others, *config.raft.seeds)):
        return []
    return [
        f"{each.name} listens on {each.host}:{each.port}, which is {each.resolved_host} here, so"
        f" only this machine reaches it: fix the name (in /etc/hosts) or listen on 0.0.0.0"
        for each in bound
        if is_loopback(each.resolved_host) and not is_loopback(each.host)
    ]

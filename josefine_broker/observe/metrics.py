"""Metrics of a running broker: the counters of the data path, and states that are read on a scrape.
Reads only; names and meanings are in `host/metric_table.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from josefine_broker.engine.context import Context, Counters
from josefine_broker.engine.coordinators.archive_ends import ArchiveEnds
from josefine_broker.engine.hosted import HostedPartition, ReplicaCounters
from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.engine.traffic import Traffic
from josefine_broker.engine.transactions.states import IDLE
from josefine_broker.host.clock import RealClock
from josefine_broker.host.engine_host import EngineHost
from josefine_broker.host.log.cleaner import Cleaner, CleanerStats, DirtCheck
from josefine_broker.host.log.damage import DamagedLogs
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.scrub import Scrub
from josefine_broker.host.metrics import Metrics, Sample
from josefine_broker.host.net.server import Server
from josefine_broker.host.ticker import Ticker
from josefine_broker.observe.cluster import is_under_replicated, partitions_of


def register_metrics(metrics: Metrics, ctx: Context, logs: LogManager) -> None:
    """Data path, replicas and logs."""
    for counters in (ctx.counters, ctx.hosted.counters):
        for name in counters.__slots__:
            metrics.one(name, partial(_counter, counters, name))
    for name, field in _TRAFFIC_TOTALS.items():
        metrics.one(name, partial(_total, ctx, field))
    for name, field in _TRAFFIC_OF_TOPICS.items():
        metrics.read(name, partial(_by_topic, ctx, field))
    for name, read in _OF_PARTITIONS.items():
        metrics.read(name, partial(_by_partition, ctx, read))
    metrics.one("parked_requests", lambda: len(ctx.parked))
    metrics.one("groups", lambda: len(ctx.clients.groups.coordinator))
    metrics.one("topics", lambda: len(ctx.image.topics))
    metrics.one("logs", lambda: len(logs))
    metrics.one("logs_offline", partial(_offline, ctx))
    metrics.one(
        "replicas_halted", lambda: sum(bool(p.halt) for p in ctx.hosted.partitions.values())
    )
    metrics.one("recovery_logs_cut", lambda: sum(log.recovery_report.may_lack for _, log in logs))
    metrics.one("recovery_bytes_cut", lambda: sum(log.recovery_report.bytes_cut for _, log in logs))
    metrics.one("transactions_open", partial(_transactions_open, ctx))


_TRAFFIC_TOTALS = {
    "produced_batches": "batches_in",
    "produced_records": "records_in",
    "produced_bytes": "bytes_in",
    "fetched_bytes": "bytes_out",
}
_TRAFFIC_OF_TOPICS = {
    "topic_records_in": "records_in",
    "topic_bytes_in": "bytes_in",
    "topic_bytes_out": "bytes_out",
}
_OF_PARTITIONS: dict[str, Callable[[HostedPartition], float]] = {
    "log_size_bytes": lambda hosted: hosted.log.size_bytes,
    "log_end_offset": lambda hosted: hosted.log.log_end_offset,
    "log_start_offset": lambda hosted: hosted.log.log_start_offset,
}


def register_server_metrics(metrics: Metrics, server: Server, ticker: Ticker) -> None:
    """Clients, and the lateness of the thread that serves them."""
    metrics.one("connections", lambda: server.connection_count)
    metrics.one("connection_bytes_in", lambda: server.bytes_in)
    metrics.one("request_memory_bytes", lambda: server.memory.used)
    metrics.one("request_memory_waiting", lambda: server.memory.waiting)
    metrics.one("accept_pauses", lambda: server.accept_pauses)
    metrics.one("requests_queued", lambda: server.requests_queued)
    metrics.one("loop_late_seconds", lambda: ticker.late_seconds)
    metrics.one("loop_wakes", lambda: ticker.wakes)


def register_cleaner_metrics(metrics: Metrics, cleaner: Cleaner) -> None:
    """Metrics of the log cleaner."""
    for counters in (cleaner.stats, cleaner.check):
        for name in counters.__slots__:
            metrics.one(f"cleaner_{name}", partial(_stat, counters, name))
    metrics.one("cleaner_logs_damaged", lambda: len(cleaner.damaged))


def register_healing_metrics(
    metrics: Metrics, damaged: DamagedLogs, repairs: Repairs, scrub: Scrub
) -> None:
    """Metrics of the verification and repair of logs."""
    counters = repairs.counters
    now_ms = RealClock().now_ms
    read: dict[str, Callable[[], float]] = {
        "log_bytes_verified": lambda: damaged.bytes_verified,
        "log_damage_found": lambda: damaged.found,
        "log_damaged_segments": lambda: sum(len(each.found) for each in damaged.logs.values()),
        "log_damage_repaired": lambda: counters.repaired,
        "log_repairs_failed": lambda: counters.failed,
        "log_repair_bytes_fetched": lambda: counters.bytes_fetched,
        "log_ranges_lost": lambda: len(repairs.lost),
        "log_unverified_seconds": lambda: scrub.progress.oldest_ms(now_ms()) / 1_000,
    }
    for name, value in read.items():
        metrics.one(name, value)


def register_archive_metrics(metrics: Metrics, archives: ArchiveEnds) -> None:
    """Metrics of the archives that retention waits for."""
    metrics.one("archive_waiting_partitions", lambda: len(archives.reasons()))
    metrics.one("archive_waiting_bytes", lambda: sum(archives.waiting_bytes.values()))


def register_cluster_metrics(
    metrics: Metrics,
    engine: EngineHost,
    lag: Callable[[], Mapping[tuple[str, int], int]],
) -> None:
    """This broker's view of its cluster: Raft, the raft listener, brokers, replicas."""
    broker, stats = engine.broker, engine.transport.stats
    ctx, quorum = broker.ctx, broker.quorum
    # Callables, not values: a scrape reads the state of its own moment.
    read: dict[str, Callable[[], float]] = {
        "raft_term": lambda: quorum.status().term,
        "raft_commit_height": lambda: quorum.status().commit.height,
        "raft_applied_height": lambda: quorum.applied.height,
        "raft_is_leader": lambda: quorum.status().leader == ctx.broker_id,
        "raft_has_leader": lambda: quorum.status().leader is not None,
        "raft_peers_connected": lambda: stats.connected,
        "raft_terms_seen": lambda: quorum.terms_seen,
        "raft_dead_blocks": lambda: quorum.dead_blocks,
        "raft_dials_failed": lambda: stats.dials_failed,
        "raft_peers_refused": lambda: stats.refused,
        "raft_frames_refused": lambda: stats.frames_refused,
        "raft_handshakes_failed": lambda: stats.handshakes_failed,
        "raft_silent_closed": lambda: stats.silent,
        "raft_frames_dropped": lambda: stats.frames_dropped,
        "raft_bytes_in": lambda: stats.bytes_in,
        "raft_bytes_out": lambda: stats.bytes_out,
        "brokers_registered": lambda: len(ctx.image.brokers),
        "brokers_fenced": lambda: len(ctx.image.brokers) - len(ctx.image.live_brokers()),
        "controller_decisions": lambda: broker.controlling.decisions,
        "partitions_led": lambda: sum(
            each.partition.is_leader for each in ctx.hosted.partitions.values()
        ),
        "partitions_under_replicated": lambda: _under_replicated(ctx),
        "partitions_under_min_isr": lambda: _under_min_isr(ctx),
        "partitions_offline": lambda: sum(
            each.leader == NO_LEADER for _, _, each in partitions_of(ctx.image)
        ),
    }
    for name, source in read.items():
        metrics.one(name, source)
    metrics.histogram("raft_store_seconds", engine.stores)
    metrics.read(
        "replica_lag_records",
        lambda: [
            ({"topic": topic, "partition": str(index)}, records)
            for (topic, index), records in lag().items()
        ],
    )


def _counter(counters: Counters | ReplicaCounters, name: str) -> float:
    return float(getattr(counters, name))


def _stat(counters: CleanerStats | DirtCheck, name: str) -> float:
    return float(getattr(counters, name))


def _total(ctx: Context, field: str) -> float:
    return _counted(ctx.hosted.traffic.total(), field)


def _by_topic(ctx: Context, field: str) -> Iterator[Sample]:
    for name, traffic in ctx.hosted.traffic.topics():
        yield {"topic": name}, _counted(traffic, field)


def _counted(traffic: Traffic, field: str) -> float:
    return float(getattr(traffic, field))


def _by_partition(ctx: Context, read: Callable[[HostedPartition], float]) -> Iterator[Sample]:
    for tp in list(ctx.hosted.partitions):
        hosted = ctx.hosted.partitions.get(tp)  # it may be gone: other work ran in between
        if hosted is not None:
            yield {"topic": tp[0], "partition": str(tp[1])}, read(hosted)


def _under_replicated(ctx: Context) -> int:
    return sum(
        each.leader == ctx.broker_id and is_under_replicated(each)
        for _, _, each in partitions_of(ctx.image)
    )


def _under_min_isr(ctx: Context) -> int:
    return sum(
        each.partition.is_leader and each.partition.is_under_min_isr
        for each in ctx.hosted.partitions.values()
    )


def _offline(ctx: Context) -> int:
    hosted = ctx.hosted
    return len(hosted.unopened) + sum(bool(each.log.failure) for each in hosted.partitions.values())


def _transactions_open(ctx: Context) -> int:
    views = ctx.clients.transactions.coordinator.views()
    return sum(view.record.state not in IDLE for view in views)

"""What `/health` checks and what `/metrics` reads of a running broker. Reads only."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from josefine_broker.base.ids import TopicPartition
from josefine_broker.config_sections import IdentitySection
from josefine_broker.engine.broker import Broker
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.sentences import leaving
from josefine_broker.engine.context import Context, Counters
from josefine_broker.engine.hosted import ReplicaCounters
from josefine_broker.engine.loading import Loading
from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.host.engine_host import EngineHost
from josefine_broker.host.log.cleaner import Cleaner, CleanerStats
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.metrics import Metrics, Sample
from josefine_broker.host.net.admin_http import Check
from josefine_broker.host.net.server import Server
from josefine_broker.observe_cluster import is_under_replicated, partitions_of, place_of
from josefine_broker.storage_watch import (
    damaged_logs,
    failed_logs,
    free_bytes,
    named,
    needed_bytes,
)

NOTHING: Mapping[TopicPartition, str] = MappingProxyType({})


def health_checks(
    broker: Broker,
    server: Server,
    config: IdentitySection,
    logs: LogManager,
    cleaner: Cleaner,
) -> Mapping[str, Callable[[], Check]]:
    """The checks of `/health`, by name."""
    ctx, quorum = broker.ctx, broker.quorum

    def listeners() -> Check:
        detail = f"{server.connection_count} connections"
        return Check(ok=server.is_listening, detail=detail)

    def metadata() -> Check:
        if broker.failure is not None:
            return Check(ok=False, detail=f"stopped: {broker.failure}")
        if quorum.lacks_room:
            return Check(ok=False, detail=f"waits: {quorum.lacks_room}")
        status = quorum.status()
        if status.leader is None:
            why = broker.why_no_controller()
            return Check(ok=False, detail=f"no raft leader in term {status.term}: {why}")
        return Check(ok=True, detail=f"raft leader {status.leader} in term {status.term}")

    def cluster() -> Check:
        place = place_of(ctx)
        if place is Place.SERVING:
            return Check(
                ok=True, detail=f"controller {ctx.cluster.controller_id} hears this broker"
            )
        if place is Place.LEAVING:
            return Check(ok=False, detail=leaving(ctx.storage.trouble))
        return Check(ok=False, detail=broker.describe_wait())

    return {
        "listeners": listeners,
        "metadata": metadata,
        "cluster": cluster,
        "logs": lambda: check_logs(ctx, logs, cleaner.damaged),
        "replicas": lambda: check_replicas(ctx),
        "groups": lambda: check_groups(ctx),
        "disk": lambda: check_disk(ctx, config),
    }


def check_logs(
    ctx: Context, logs: LogManager, not_cleaned: Mapping[TopicPartition, str] = NOTHING
) -> Check:
    """Whether all are served, and are what was written as far as the cleaner has looked. One that
    was cut is told for as long as this process lives: it is served, and somebody should see it."""
    trouble = [each for each in (failed_logs(ctx), damaged_logs(ctx)) if each]
    if not_cleaned:
        reason = next(iter(not_cleaned.values()))
        trouble.append(f"not cleaned, for they are damaged: {named(not_cleaned)}: {reason}")
    cut = [tp for tp, log in logs if log.recovery_report.may_lack]
    if cut:
        told = f"cut at this start, records may be lost: {named(cut)}"
        return Check(ok=not trouble, detail="; ".join([*trouble, told]))
    if trouble:
        return Check(ok=False, detail="; ".join(trouble))
    return Check(ok=True, detail=f"{len(ctx.hosted.partitions)} partitions")


def check_replicas(ctx: Context) -> Check:
    """Whether every follower here follows: one that does not waits for a person."""
    halted = {tp: each.halt for tp, each in ctx.hosted.partitions.items() if each.halt}
    if halted:
        reason = next(iter(halted.values()))
        return Check(ok=False, detail=f"not followed: {named(halted)}: {reason}")
    doubts = sum(
        each.completeness_of(ctx.broker_id) is not Completeness.COMPLETE
        for _, _, each in partitions_of(ctx.image)
    )
    return Check(ok=True, detail=f"{doubts} logs here count again once they are copied")


def check_groups(ctx: Context) -> Check:
    """Whether every group that this broker should coordinate can be read from its log."""
    groups = ctx.clients.groups
    troubles = {
        tp: each.trouble
        for tp, each in groups.loading.items()
        if isinstance(each, Loading) and each.trouble
    }
    if troubles:
        reason = next(iter(troubles.values()))
        return Check(ok=False, detail=f"not read, tried again: {named(troubles)}: {reason}")
    return Check(ok=True, detail=f"{len(groups.coordinator)} groups")


def check_disk(ctx: Context, config: IdentitySection) -> Check:
    """Whether there is the space that `broker.disk_free_bytes_min` asks for."""
    free, needed = free_bytes(config.data_dir), needed_bytes(ctx, config)
    return Check(ok=free >= needed, detail=f"{free} bytes free, {needed} are to be")


def register_metrics(metrics: Metrics, ctx: Context, logs: LogManager, server: Server) -> None:
    """Everything is read when `/metrics` is asked, from the counters the data path keeps."""

    def per_partition(read: Callable[[tuple[str, int]], float]) -> Callable[[], Iterator[Sample]]:
        return lambda: (
            ({"topic": tp[0], "partition": str(tp[1])}, read(tp))
            for tp in list(ctx.hosted.partitions)
            if tp in ctx.hosted.partitions
        )

    for counters in (ctx.counters, ctx.hosted.counters):
        for name in counters.__slots__:
            text = f"Data path: {name.replace('_', ' ')}."
            metrics.counter(name, text, one(_counter(counters, name)))
    metrics.gauge("connections", "Open client connections.", one(lambda: server.connection_count))
    metrics.counter(
        "accept_pauses",
        "So often there was no file descriptor for a new client.",
        one(lambda: server.accept_pauses),
    )
    metrics.gauge("parked_requests", "Requests that wait.", one(lambda: len(ctx.parked)))
    metrics.gauge(
        "groups",
        "Consumer groups that this broker coordinates.",
        one(lambda: len(ctx.clients.groups.coordinator)),
    )
    metrics.gauge("topics", "Topics of the cluster.", one(lambda: len(ctx.image.topics)))
    metrics.gauge("logs", "Open partition logs.", one(lambda: len(logs)))
    metrics.gauge(
        "replicas_halted",
        "Replicas here that do not follow, for their leader lacks what was confirmed.",
        one(lambda: sum(bool(each.halt) for each in ctx.hosted.partitions.values())),
    )
    metrics.gauge(
        "logs_offline",
        "Partitions here whose log cannot be opened, or is not written any more.",
        one(lambda: _offline(ctx)),
    )
    metrics.counter(
        "recovery_logs_cut",
        "Logs that this start had to cut where confirmed records may have been.",
        one(lambda: sum(log.recovery_report.may_lack for _, log in logs)),
    )
    metrics.counter(
        "recovery_bytes_cut",
        "Bytes that this start cut from logs, unfinished last writes among them.",
        one(lambda: sum(log.recovery_report.bytes_cut for _, log in logs)),
    )
    metrics.gauge(
        "log_size_bytes",
        "Size of a partition's log.",
        per_partition(lambda tp: ctx.hosted.partitions[tp].log.size_bytes),
    )
    metrics.gauge(
        "log_end_offset",
        "Offset of the next record of a partition.",
        per_partition(lambda tp: ctx.hosted.partitions[tp].log.log_end_offset),
    )
    metrics.gauge(
        "log_start_offset",
        "First offset of a partition that is kept.",
        per_partition(lambda tp: ctx.hosted.partitions[tp].log.log_start_offset),
    )
    metrics.counter("process_cpu_seconds", "User and system time.", one(_cpu_seconds))
    metrics.gauge(
        "process_resident_bytes_max",
        "Largest resident memory so far.",
        one(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024),
    )


def register_cleaner_metrics(metrics: Metrics, cleaner: Cleaner) -> None:
    """What the log cleaner does."""
    stats = cleaner.stats
    counters = {
        "passes": "Passes of the log cleaner that came as far as they had room for keys.",
        "passes_failed": "Passes that the disk, or a change of the log, ended.",
        "bytes_read": "Bytes that passes read; what is dirty is read twice.",
        "bytes_written": "Bytes of cleaned segments.",
        "bytes_removed": "Bytes by which logs became shorter.",
        "records_read": "Records that passes judged.",
        "records_removed": "Records that a later one of their key replaced, and old tombstones.",
        "tombstones_removed": "Tombstones among them.",
        "records_without_key": "Records kept for want of a key, each time that a pass met them.",
        "batches_left_alone": "Batches that no pass can judge, each time that one met them.",
        "seconds": "Time that passes took.",
    }
    gauges = {
        "map_bytes": "Memory of the keys of the last pass.",
        "ratio_max": "Dirty part of the dirtiest log, when they were last looked at.",
        "due": "Logs that were to be cleaned then.",
    }
    for name, meaning in counters.items():
        metrics.counter(f"cleaner_{name}", meaning, one(partial(_stat, stats, name)))
    for name, meaning in gauges.items():
        metrics.gauge(f"cleaner_{name}", meaning, one(partial(_stat, stats, name)))
    metrics.gauge(
        "cleaner_logs_damaged",
        "Logs that are not cleaned, for they are not what was written.",
        one(lambda: len(cleaner.damaged)),
    )


def _stat(stats: CleanerStats, name: str) -> float:
    return float(getattr(stats, name))


def register_cluster_metrics(
    metrics: Metrics,
    engine: EngineHost,
    lag: Callable[[], Mapping[tuple[str, int], int]],
) -> None:
    """What this broker sees of its cluster: Raft, the raft listener, brokers, replicas."""
    broker, stats = engine.broker, engine.transport.stats
    ctx, quorum = broker.ctx, broker.quorum
    gauges: dict[str, tuple[str, Callable[[], float]]] = {
        "raft_term": ("Raft term.", lambda: quorum.status().term),
        "raft_commit_height": (
            "Height of the last committed block.",
            lambda: quorum.status().commit.height,
        ),
        "raft_applied_height": (
            "Height of the last block in the image.",
            lambda: quorum.applied.height,
        ),
        "raft_is_leader": (
            "1 while this broker leads Raft, and so is the controller.",
            lambda: quorum.status().leader == ctx.broker_id,
        ),
        "raft_peers_connected": ("Brokers that this one has dialed.", lambda: stats.connected),
        "brokers_registered": ("Brokers of the cluster.", lambda: len(ctx.image.brokers)),
        "brokers_fenced": (
            "Brokers that the controller does not hear, or that stop.",
            lambda: len(ctx.image.brokers) - len(ctx.image.live_brokers()),
        ),
        "partitions_led": ("Partitions that this broker leads.", lambda: _led(ctx)),
        "partitions_under_replicated": (
            "Partitions led here with fewer replicas in sync than there are.",
            lambda: _under_replicated(ctx),
        ),
        "partitions_offline": ("Partitions of the cluster without a leader.", lambda: _off(ctx)),
    }
    counters: dict[str, tuple[str, Callable[[], float]]] = {
        "raft_terms_seen": ("Elections this broker took part in.", lambda: quorum.terms_seen),
        "raft_dead_blocks": ("Blocks that a lost branch took away.", lambda: quorum.dead_blocks),
        "raft_dials_failed": ("Peers that could not be reached.", lambda: stats.dials_failed),
        "raft_peers_refused": ("Greetings refused, on either side.", lambda: stats.refused),
        "raft_frames_refused": (
            "Frames that a peer may not send, or that cannot be true.",
            lambda: stats.frames_refused,
        ),
        "raft_silent_closed": (
            "Connections to the raft listener that did not introduce themselves in time.",
            lambda: stats.silent,
        ),
        "raft_frames_dropped": ("Frames dropped for a slow peer.", lambda: stats.frames_dropped),
        "raft_bytes_in": ("Bytes that the raft listener received.", lambda: stats.bytes_in),
        "raft_bytes_out": ("Bytes that the raft listener sent.", lambda: stats.bytes_out),
        "controller_decisions": (
            "Decisions this broker proposed as controller.",
            lambda: broker.controlling.decisions,
        ),
    }
    for name, (meaning, read) in gauges.items():
        metrics.gauge(name, meaning, one(read))
    for name, (meaning, read) in counters.items():
        metrics.counter(name, meaning, one(read))
    metrics.gauge(
        "replica_lag_records",
        "Committed records of its leader that a replica here still lacks.",
        lambda: [
            ({"topic": topic, "partition": str(index)}, records)
            for (topic, index), records in lag().items()
        ],
    )


def one(read: Callable[[], float]) -> Callable[[], list[Sample]]:
    """A value without labels."""
    return lambda: [({}, read())]


def _led(ctx: Context) -> int:
    return sum(hosted.partition.is_leader for hosted in ctx.hosted.partitions.values())


def _under_replicated(ctx: Context) -> int:
    return sum(
        each.leader == ctx.broker_id and is_under_replicated(each)
        for _, _, each in partitions_of(ctx.image)
    )


def _off(ctx: Context) -> int:
    return sum(each.leader == NO_LEADER for _, _, each in partitions_of(ctx.image))


def _offline(ctx: Context) -> int:
    hosted = ctx.hosted
    return len(hosted.unopened) + sum(bool(each.log.failure) for each in hosted.partitions.values())


def _counter(counters: Counters | ReplicaCounters, name: str) -> Callable[[], float]:
    return lambda: float(getattr(counters, name))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

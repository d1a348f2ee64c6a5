"""The checks of `/health` on a running broker. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from josefine_broker.base.ids import TopicPartition
from josefine_broker.config.sections import IdentitySection
from josefine_broker.engine.broker import Broker
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.status_text import leaving
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.archive_ends import ArchiveEnds
from josefine_broker.engine.coordinators.loading import Loading
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.host.log.cleaner import Cleaner
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.net.admin_http import Check
from josefine_broker.host.net.server import Server
from josefine_broker.observe.cluster import partitions_of, place_of
from josefine_broker.observe.storage import (
    NAMED_MAX,
    damaged_logs,
    failed_logs,
    free_bytes,
    named,
    needed_bytes,
    no_handle,
)

ALARM_FACTOR = 2
"""Archives that are waited for are an alarm below so many times the free space that is needed."""
NOTHING: Mapping[TopicPartition, str] = MappingProxyType({})


def health_checks(
    broker: Broker,
    server: Server,
    config: IdentitySection,
    logs: LogManager,
    cleaner: Cleaner,
    repairs: Repairs,
    archives: ArchiveEnds,
) -> Mapping[str, Callable[[], Check]]:
    """The checks of `/health`, by name."""
    ctx, quorum = broker.ctx, broker.quorum

    def listeners() -> Check:
        detail = f"{server.connection_count} connections"
        return Check(ok=server.is_listening, detail=detail)

    def process() -> Check:
        if broker.failure is not None:
            return Check(ok=False, detail=f"stopped: {broker.failure}")
        return Check(ok=True, detail="no broken invariant")

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

    # The order is that of causes: a stopped process explains every failure below it.
    return {
        "process": process,
        "listeners": listeners,
        "metadata": metadata,
        "cluster": cluster,
        "logs": lambda: check_logs(ctx, logs, cleaner.damaged),
        "damage": lambda: check_damage(repairs),
        "replicas": lambda: check_replicas(ctx),
        "groups": lambda: check_groups(ctx),
        "archives": lambda: check_archives(ctx, archives, config),
        "disk": lambda: check_disk(ctx, config),
    }


def check_logs(
    ctx: Context, logs: LogManager, not_cleaned: Mapping[TopicPartition, str] = NOTHING
) -> Check:
    """Whether all logs are served and undamaged as far as the cleaner has read. A log that was cut
    is reported until this process ends: it is served, and somebody should know."""
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


def check_damage(repairs: Repairs) -> Check:
    """Whether every damaged range of a log here can be repaired from another replica."""
    if repairs.lost:
        ranges = ", ".join(
            f"{tp} offsets {start} to {end}" for tp, (start, end) in repairs.lost[:NAMED_MAX]
        )
        advice = "restore a replica that has them, or run: josefine log repair --accept-loss"
        return Check(ok=False, detail=f"lost, for no replica has them intact: {ranges}; {advice}")
    under_repair = {tp for tp, _ in repairs}
    if under_repair:
        detail = f"being repaired from other replicas: {named(under_repair)}"
        return Check(ok=True, detail=detail)
    return Check(ok=True, detail=f"none; {repairs.counters.repaired} segments were repaired")


def check_replicas(ctx: Context) -> Check:
    """Whether every follower here follows: one that does not needs a person."""
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
    """Whether every group that this broker should coordinate was loaded from its log."""
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


def check_archives(ctx: Context, archives: ArchiveEnds, config: IdentitySection) -> Check:
    """Whether there is room for what waits for an archive. It fails before the disk is full: then
    nothing could be appended."""
    waiting = archives.reasons()
    if not waiting:
        return Check(ok=True, detail="retention waits for none")
    reason = next(iter(waiting.values()))
    bytes_ = sum(archives.waiting_bytes[tp] for tp in waiting)
    detail = f"{bytes_} bytes of {named(waiting)} wait: {reason}"
    free, needed = free_bytes(config.data_dir), needed_bytes(ctx, config)
    return Check(ok=free >= ALARM_FACTOR * needed, detail=detail)


def check_disk(ctx: Context, config: IdentitySection) -> Check:
    """Whether the free space is at least `broker.disk_free_bytes_min`, files can be opened, and
    no limit keeps records out."""
    lack = no_handle(config.data_dir)
    if lack:
        return Check(ok=False, detail=lack)
    if ctx.storage.limit.reason:
        return Check(ok=False, detail=ctx.storage.trouble)
    free, needed = free_bytes(config.data_dir), needed_bytes(ctx, config)
    return Check(ok=free >= needed, detail=f"{free} bytes free, {needed} required")

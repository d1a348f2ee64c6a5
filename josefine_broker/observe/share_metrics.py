"""Metrics of share groups, of the partitions that this broker leads. Reads only.

Rules: as in `group_metrics.py`: the series with names of groups are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.host.metrics import Metrics, Sample

SERIES_MAX = 10_000


def register_share_metrics(metrics: Metrics, ctx: Context, series_max: int = SERIES_MAX) -> None:
    """The counts of each group, what is in flight in each partition, and the sessions."""
    for name, read in {
        "share_records_acquired": _acquired,
        "share_record_acknowledgements": _acknowledged,
        "share_lock_timeouts": _lock_timeouts,
        "share_dead_letters": _dead_letters,
        "share_dead_letters_lost": _dead_letters_lost,
        "share_records_in_flight": partial(_in_state, RecordState.ACQUIRED),
        "share_records_archiving": partial(_in_state, RecordState.ARCHIVING),
    }.items():
        metrics.read(name, partial(_bounded, read, ctx, series_max))
    metrics.one("share_sessions", lambda: len(ctx.clients.shares.sessions))
    metrics.one("share_partitions", lambda: len(ctx.clients.shares.led))
    metrics.one("share_states", lambda: len(ctx.clients.shares.states))


def _bounded(read: object, ctx: Context, series_max: int) -> Iterator[Sample]:
    assert callable(read)
    return islice(read(ctx), series_max)


def _acquired(ctx: Context) -> Iterator[Sample]:
    for group_id, counts in ctx.clients.shares.counts.all():
        yield {"group": group_id}, float(counts.acquired)


def _lock_timeouts(ctx: Context) -> Iterator[Sample]:
    for group_id, counts in ctx.clients.shares.counts.all():
        yield {"group": group_id}, float(counts.lock_timeouts)


def _dead_letters(ctx: Context) -> Iterator[Sample]:
    for group_id, counts in ctx.clients.shares.counts.all():
        yield {"group": group_id}, float(counts.dead_letters)


def _dead_letters_lost(ctx: Context) -> Iterator[Sample]:
    for group_id, counts in ctx.clients.shares.counts.all():
        yield {"group": group_id}, float(counts.dead_letters_lost)


def _acknowledged(ctx: Context) -> Iterator[Sample]:
    for group_id, counts in ctx.clients.shares.counts.all():
        for ack_type, count in sorted(counts.acknowledged.items(), key=lambda each: each[0].value):
            yield {"group": group_id, "ack_type": ack_type.name.lower()}, float(count)


def _in_state(state: RecordState, ctx: Context) -> Iterator[Sample]:
    """Records that members have now, or whose dead letters are due; by partition."""
    for key, led in sorted(ctx.clients.shares.led.items(), key=lambda each: each[0]):
        if led.partition is not None:
            had = sum(
                each.last - each.first + 1 for each in led.partition.spans if each.state is state
            )
            labels = {"group": key.group_id, "topic": led.tp.topic, "partition": str(key.partition)}
            yield labels, float(had)

"""Metrics of the consumer groups that this broker coordinates. Reads only.

Rules: clients name the groups, so the series with their names are bounded: as many groups as fit,
in the order of their names, and a gauge with the number of omitted series. A lag is exported if
this broker has a replica of the partition; otherwise the committed offset and the leader's
`log_end_offset` give it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.consumer.states import ConsumerGroupState
from josefine_broker.engine.groups.states import GroupState
from josefine_broker.host.metrics import Metrics, Sample
from josefine_broker.observe.share_metrics import register_share_metrics

SERIES_MAX = 10_000
"""Series per metric: a number that Prometheus easily takes from one target."""

Series = Callable[[Context], Iterator[Sample]]


def register_group_metrics(metrics: Metrics, ctx: Context, series_max: int = SERIES_MAX) -> None:
    """Totals over all groups, and each group by name within the bound."""
    register_share_metrics(metrics, ctx, series_max)
    counts = ctx.clients.groups.coordinator.counts
    for field in ("rebalances", "members_lost", "offsets_committed"):
        metrics.one(f"group_{field}", partial(getattr, counts, field))
    metrics.read("groups_in_state", partial(_by_state, ctx))
    series: dict[str, Series] = {
        "group_members": _members,
        "group_committed_offset": _committed,
        "group_lag_records": _lag,
    }
    for name, read in series.items():
        metrics.read(name, partial(_bounded, read, ctx, series_max))
    metrics.one(
        "group_series_omitted",
        lambda: sum(_omitted(read, ctx, series_max) for read in series.values()),
    )


def _bounded(read: Series, ctx: Context, series_max: int) -> Iterator[Sample]:
    return islice(read(ctx), series_max)


def _omitted(read: Series, ctx: Context, series_max: int) -> int:
    return max(0, sum(1 for _ in read(ctx)) - series_max)


def _by_state(ctx: Context) -> list[Sample]:
    states = Counter(view.state.value for view in ctx.clients.groups.coordinator.views())
    names = dict.fromkeys(each.value for each in (*GroupState, *ConsumerGroupState))
    return [({"state": name}, float(states[name])) for name in names]


def _members(ctx: Context) -> Iterator[Sample]:
    coordinator = ctx.clients.groups.coordinator
    for group_id in coordinator.group_ids:
        view = coordinator.view(group_id)
        if view is not None:
            yield {"group": group_id}, float(view.size)


def _committed(ctx: Context) -> Iterator[Sample]:
    for labels, _, offset in _offsets(ctx):
        yield labels, float(offset)


def _lag(ctx: Context) -> Iterator[Sample]:
    for labels, tp, offset in _offsets(ctx):
        hosted = ctx.hosted.partitions.get(tp)
        if hosted is not None:
            yield labels, float(max(0, hosted.partition.high_watermark - offset))


def _offsets(ctx: Context) -> Iterator[tuple[dict[str, str], tuple[str, int], int]]:
    offsets = ctx.clients.groups.coordinator.offsets
    for group_id in offsets.group_ids:
        for tp, committed in sorted(offsets.committed(group_id).items()):
            labels = {"group": group_id, "topic": tp.topic, "partition": str(tp.partition)}
            yield labels, tp, committed.offset

"""`/cluster/local`: state of the cluster that only this broker has, as JSON. Reads only.

Rules: counters come with the broker's monotonic clock, in milliseconds, so that a reader computes
rates without regard to how long an answer was on its way. Clients name groups and transactional
ids, so of each kind as many are listed as fit, in the order of their names, with the number of
omitted ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from josefine_broker.engine.context import Context
from josefine_broker.engine.transactions.states import IDLE

TOLD_MAX = 500
"""Limit of groups, and of transactions."""


def local_view(ctx: Context, query: Mapping[str, str]) -> dict[str, Any]:
    """The body of `/cluster/local`; with `?topic=NAME` that of one topic's partitions here."""
    topic = query.get("topic")
    if topic is not None:
        return {"broker_id": ctx.broker_id, "partitions": _partitions(ctx, topic)}
    groups = ctx.clients.groups.coordinator.group_ids
    open_ones = [
        view
        for view in ctx.clients.transactions.coordinator.views()
        if view.record.state not in IDLE
    ]
    now_ms = ctx.clock.now_ms()
    return {
        "broker_id": ctx.broker_id,
        "monotonic_ms": ctx.clock.monotonic_ms(),
        "topics": _topics(ctx),
        "groups": [_group(ctx, each) for each in sorted(groups)[:TOLD_MAX]],
        "groups_omitted": max(0, len(groups) - TOLD_MAX),
        "transactions": [
            {
                "id": view.transactional_id,
                "state": view.record.state.value,
                "partitions": [f"{tp.topic}-{tp.partition}" for tp in sorted(view.unended)],
                "open_ms": max(0, now_ms - view.record.started_ms),
            }
            for view in open_ones[:TOLD_MAX]
        ],
        "transactions_omitted": max(0, len(open_ones) - TOLD_MAX),
    }


def _topics(ctx: Context) -> dict[str, dict[str, int]]:
    found = {
        name: {"bytes_in": t.bytes_in, "bytes_out": t.bytes_out, "records_in": t.records_in}
        | {"size": 0}
        for name, t in ctx.hosted.traffic.topics()
    }
    for (topic, _), hosted in ctx.hosted.partitions.items():
        found[topic]["size"] += hosted.log.size_bytes
    return found


def _group(ctx: Context, group_id: str) -> dict[str, Any]:
    coordinator = ctx.clients.groups.coordinator
    view = coordinator.view(group_id)
    lag, elsewhere = 0, 0
    for tp, committed in coordinator.offsets.committed(group_id).items():
        hosted = ctx.hosted.partitions.get(tp)
        if hosted is None:
            elsewhere += 1
        else:
            lag += max(0, hosted.partition.high_watermark - committed.offset)
    return {
        "group": group_id,
        "state": "unknown" if view is None else view.state.value,
        "members": 0 if view is None else view.size,
        "lag": lag,
        "partitions_elsewhere": elsewhere,
    }


def _partitions(ctx: Context, topic: str) -> dict[str, dict[str, int]]:
    return {
        str(index): {
            "size": hosted.log.size_bytes,
            "start": hosted.log.log_start_offset,
            "end": hosted.log.log_end_offset,
        }
        for (name, index), hosted in ctx.hosted.partitions.items()
        if name == topic
    }

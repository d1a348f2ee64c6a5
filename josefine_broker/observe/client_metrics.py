"""Metrics that clients pushed to this broker (KIP-714). Reads only.

Clients name them, so the series are bounded; a gauge has the number of omitted ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from josefine_broker.engine.context import Context
from josefine_broker.host.metrics import Metrics, Sample

SERIES_MAX = 10_000
"""A number that Prometheus easily takes from one target."""


def register_client_metrics(metrics: Metrics, ctx: Context, series_max: int = SERIES_MAX) -> None:
    """The pushes, and each pushed number within the bound."""
    pushed = ctx.clients.metrics
    metrics.one("client_metrics_pushes", lambda: pushed.pushes)
    metrics.one("client_metrics_pushes_refused", lambda: pushed.pushes_refused)
    metrics.read("client_metric", lambda: islice(_series(ctx), series_max))
    metrics.one(
        "client_metric_series_omitted",
        lambda: max(0, sum(1 for _ in _series(ctx)) - series_max),
    )


def _series(ctx: Context) -> Iterator[Sample]:
    """A series that a client names twice has its last number."""
    found: dict[tuple[str, ...], float] = {}
    for instance, client_id, point in ctx.clients.metrics.series(ctx.clock.monotonic_ms()):
        found[point.name, client_id, str(instance), point.of] = point.value
    for labels, value in found.items():
        yield (
            dict(zip(("metric", "client_id", "client_instance_id", "of"), labels, strict=True)),
            value,
        )

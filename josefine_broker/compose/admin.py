"""What the admin listener serves: health, metrics, and the pages of the broker's state."""

from __future__ import annotations

from typing import NamedTuple

from josefine_broker.compose.security import Securing
from josefine_broker.compose.tracing import Tracing
from josefine_broker.compose.upkeep import Upkeep
from josefine_broker.config.sections import IdentitySection
from josefine_broker.host.engine_host import EngineHost
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.admin_http import AdminServer
from josefine_broker.host.net.server import Server
from josefine_broker.host.peers.replicator import Replicator
from josefine_broker.host.ticker import Ticker
from josefine_broker.observe.client_metrics import register_client_metrics
from josefine_broker.observe.cluster import chain_view, cluster_view
from josefine_broker.observe.debug import debug_view
from josefine_broker.observe.group_metrics import register_group_metrics
from josefine_broker.observe.health import health_checks
from josefine_broker.observe.local import local_view
from josefine_broker.observe.metrics import (
    register_archive_metrics,
    register_cleaner_metrics,
    register_cluster_metrics,
    register_healing_metrics,
    register_metrics,
    register_server_metrics,
)
from josefine_broker.observe.process_metrics import register_process_metrics


class Observed(NamedTuple):
    """The parts of a running broker whose state the admin listener shows."""

    config: IdentitySection
    engine: EngineHost
    manager: LogManager
    upkeep: Upkeep
    server: Server
    ticker: Ticker
    replicator: Replicator
    securing: Securing
    tracing: Tracing


def register_all(metrics: Metrics, seen: Observed) -> None:
    """Register the metrics of every part."""
    ctx, upkeep = seen.engine.broker.ctx, seen.upkeep
    register_metrics(metrics, ctx, seen.manager)
    register_server_metrics(metrics, seen.server, seen.ticker)
    register_cleaner_metrics(metrics, upkeep.cleaner)
    register_healing_metrics(metrics, upkeep.damaged, upkeep.repairs, upkeep.scrub)
    register_archive_metrics(metrics, upkeep.archives.ends)
    register_cluster_metrics(metrics, seen.engine, seen.replicator.lag)
    register_group_metrics(metrics, ctx)
    register_client_metrics(metrics, ctx)
    register_process_metrics(metrics, seen.config)
    seen.securing.register_metrics(metrics, ctx.clients.authorizer)
    seen.tracing.register_metrics(metrics)


def admin_server(metrics: Metrics, seen: Observed) -> AdminServer:
    """The site over these parts, not started yet."""
    broker, ctx, upkeep = seen.engine.broker, seen.engine.broker.ctx, seen.upkeep
    # Pages get functions, not values: each request reads the state of its own moment.
    return AdminServer(
        metrics,
        health_checks(
            *(broker, seen.server, seen.config, seen.manager),
            *(upkeep.cleaner, upkeep.repairs, upkeep.archives.ends),
        ),
        lambda: {"broker_id": ctx.broker_id, "cluster_id": ctx.image.cluster_id},
        {
            "/cluster": lambda _query: cluster_view(broker),
            "/cluster/chain": lambda query: chain_view(broker, query),
            "/cluster/local": lambda query: local_view(ctx, query),
            **upkeep.pages(),
        },
        seen.securing.door(ctx, metrics.connections),
        {"/debug": lambda query: debug_view(ctx, seen.server, query)},
        upkeep.actions(),
    )

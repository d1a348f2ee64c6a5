"""GetTelemetrySubscriptions (key 71, KIP-714): which metrics a client should push, and how often.

Listed only where the configuration asks clients for metrics, as by Kafka. Counters are cumulative:
a lost push loses no numbers.
"""

from uuid import UUID

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.telemetry.client_metrics import COMPRESSIONS
from josefine_broker.wire.entities import get_telemetry_subscriptions as e


def handle(
    ctx: Context, info: RequestInfo, request: e.GetTelemetrySubscriptionsRequest
) -> e.GetTelemetrySubscriptionsResponse:
    """A client without an id gets one."""
    metrics = ctx.clients.metrics
    instance = request.client_instance_id or _new_id(ctx)
    metrics.subscribe(instance, info.header.client_id or "", ctx.clock.monotonic_ms())
    return e.GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=metrics.settings.subscription_id,
        accepted_compression_types=tuple(int(each) for each in COMPRESSIONS),
        push_interval_ms=metrics.settings.push_interval_ms,
        telemetry_max_bytes=metrics.settings.push_bytes_max,
        requested_metrics=metrics.settings.requested,
    )


def refuse(
    request: e.GetTelemetrySubscriptionsRequest, error: KafkaError
) -> e.GetTelemetrySubscriptionsResponse:
    """The answer when the whole request is refused."""
    return e.GetTelemetrySubscriptionsResponse(error_code=error.code)


def _new_id(ctx: Context) -> UUID:
    return UUID(int=ctx.ports.rng.getrandbits(128), version=4)

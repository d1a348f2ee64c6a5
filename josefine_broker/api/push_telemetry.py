"""PushTelemetry (key 72, KIP-714): a client's metrics, which this broker exports at /metrics."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import push_telemetry as e


def handle(ctx: Context, info: RequestInfo, request: e.PushTelemetryRequest) -> object:
    """They take the place of the last ones."""
    if request.client_instance_id is None:
        raise KafkaError(ErrorCode.invalid_request, "no client instance id")
    ctx.clients.metrics.push(
        request.client_instance_id,
        request.subscription_id,
        request.compression_type,
        request.metrics,
        ctx.clock.monotonic_ms(),
        is_terminating=request.terminating,
    )
    return e.PushTelemetryResponse()


def refuse(request: e.PushTelemetryRequest, error: KafkaError) -> e.PushTelemetryResponse:
    """The answer when the request is refused."""
    return e.PushTelemetryResponse(error_code=error.code)

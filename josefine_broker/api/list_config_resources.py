"""ListConfigResources (key 74, KIP-1142): resources with configurations, by type.

Topics, brokers and groups are the types here. A group is listed if it has a configuration of its
own; client metrics subscriptions and loggers do not exist.
"""

from collections.abc import Mapping

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import list_config_resources as e

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL_SINCE = 1
"""Version 0 is that of ListClientMetricsResources (KIP-1000), and knows only that type."""
TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(
    ctx: Context, info: RequestInfo, request: e.ListConfigResourcesRequest
) -> e.ListConfigResourcesResponse:
    """The resources of the requested types, of all types if none is named."""
    supported = TYPES if info.header.api_version >= ALL_SINCE else (CLIENT_METRICS,)
    for kind in request.resource_types:
        if kind not in supported:
            raise KafkaError(ErrorCode.unsupported_version, f"no resources of type {kind}")
    names: Mapping[int, list[str]] = {
        BROKER: [str(each) for each in sorted(ctx.image.brokers)],
        TOPIC: sorted(ctx.image.topics),
        GROUP: sorted(ctx.image.group_configs),
    }
    wanted = request.resource_types or supported
    return e.ListConfigResourcesResponse(
        config_resources=tuple(
            e.ConfigResource(resource_name=name, resource_type=kind)
            for kind in names
            if kind in wanted
            for name in names[kind]
        )
    )


def refuse(
    request: e.ListConfigResourcesRequest, error: KafkaError
) -> e.ListConfigResourcesResponse:
    """The answer when the whole request is refused."""
    return e.ListConfigResourcesResponse(error_code=error.code, config_resources=())

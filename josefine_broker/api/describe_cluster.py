"""DescribeCluster (key 60, KIP-700): cluster id, controller, brokers. Only brokers' endpoints.

Fenced brokers are included if the client asks for them (KIP-1073).
"""

from josefine_broker.api.shared.topics import ALL_CLUSTER_OPERATIONS, reachable_brokers
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import describe_cluster as e

BROKERS, CONTROLLERS = 1, 2


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeClusterRequest
) -> e.DescribeClusterResponse:
    """The cluster in its current image, with the endpoints of the client's listener."""
    if request.endpoint_type == CONTROLLERS:
        raise KafkaError(
            ErrorCode.mismatched_endpoint_type, "only brokers are described (endpoint type 1)"
        )
    if request.endpoint_type != BROKERS:
        message = f"unknown endpoint type {request.endpoint_type}: brokers have 1, controllers 2"
        raise KafkaError(ErrorCode.unsupported_endpoint_type, message)
    operations = -(2**31)  # not requested (KIP-430)
    if request.include_cluster_authorized_operations:
        operations = ALL_CLUSTER_OPERATIONS
    return e.DescribeClusterResponse(
        cluster_id=ctx.image.cluster_id,
        controller_id=ctx.cluster.controller_id,
        brokers=tuple(
            e.DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=at.host,
                port=at.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker, at in reachable_brokers(
                ctx, info.listener, with_fenced=request.include_fenced_brokers
            )
        ),
        cluster_authorized_operations=operations,
    )


def refuse(request: e.DescribeClusterRequest, error: KafkaError) -> e.DescribeClusterResponse:
    """The answer when the whole request is refused."""
    return e.DescribeClusterResponse(
        error_code=error.code, error_message=error.message or None, cluster_id="", brokers=()
    )

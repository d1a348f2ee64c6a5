"""FindCoordinator (key 10): the broker that leads a group's partition of `__consumer_offsets`.

The topic is made at the first question, and the answer waits for it. Several keys since v4
(KIP-699). Transactions (key type 1) are not served: they are refused with the one code that every
client takes as final (librdkafka asks again for ever after any other), and the message says why.
"""

from josefine_broker.api.shared.topics import submit_offsets_topic
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.metadata.image import NO_LEADER, OFFSETS_TOPIC
from josefine_broker.engine.proposing import answer_when_settled
from josefine_broker.wire.entities import find_coordinator as e

GROUP, TRANSACTION = 0, 1


def handle(ctx: Context, info: RequestInfo, request: e.FindCoordinatorRequest) -> object:
    """The coordinator of each key; errors are per key."""
    if request.key_type == TRANSACTION:
        raise KafkaError(
            ErrorCode.transactional_id_authorization_failed,
            "transactions are not served by this broker",
        )
    if request.key_type != GROUP:
        raise KafkaError(ErrorCode.invalid_request, f"no coordinators of type {request.key_type}")
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms

    def build() -> e.FindCoordinatorResponse:
        coordinators = tuple(_find(ctx, info, key) for key in request.coordinator_keys)
        return e.FindCoordinatorResponse(coordinators=coordinators)

    try:
        proposals = submit_offsets_topic(ctx, deadline_ms)
    except KafkaError as error:
        # Not enough brokers for its replicas yet: every client asks again after this code.
        raise KafkaError(ErrorCode.coordinator_not_available, error.message) from error
    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.FindCoordinatorRequest, error: KafkaError) -> e.FindCoordinatorResponse:
    """The answer when the whole request is refused."""
    coordinators = tuple(
        _failed(key, error.code, error.message or None) for key in request.coordinator_keys
    )
    return e.FindCoordinatorResponse(coordinators=coordinators)


def _find(ctx: Context, info: RequestInfo, group_id: str) -> e.Coordinator:
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    if topic is not None:
        partition = topic.partitions[coordinator_partition(group_id, len(topic.partitions))]
        broker = ctx.image.brokers.get(partition.leader)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(info.listener)
        if endpoint is not None:
            return e.Coordinator(
                key=group_id, node_id=partition.leader, host=endpoint.host, port=endpoint.port
            )
    return _failed(group_id, ErrorCode.coordinator_not_available, None)


def _failed(key: str, code: ErrorCode, message: str | None) -> e.Coordinator:
    return e.Coordinator(
        key=key, node_id=NO_LEADER, host="", port=-1, error_code=code, error_message=message
    )

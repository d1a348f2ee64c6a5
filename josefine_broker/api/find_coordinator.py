"""FindCoordinator (key 10): the broker that leads a group's partition of `__consumer_offsets`, of
`__transaction_state` for a transactional id, or of `__share_group_state` for a share partition.

The topic is created at the first request, and the answer waits for it. Several keys since v4
(KIP-699).
"""

from collections.abc import Callable, Mapping

from josefine_broker.api.shared.topics import (
    submit_offsets_topic,
    submit_share_state_topic,
    submit_transactions_topic,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled
from josefine_broker.wire.entities import find_coordinator as e

GROUP, TRANSACTION, SHARE = 0, 1, 2
_TOPICS: Mapping[int, tuple[str, Callable[[Context, int], list[Proposal]]]] = {
    GROUP: (OFFSETS_TOPIC, submit_offsets_topic),
    TRANSACTION: (TRANSACTIONS_TOPIC, submit_transactions_topic),
    SHARE: (SHARE_STATE_TOPIC, submit_share_state_topic),
}
"""By type of a key: the topic of its coordinators, and its creation."""


def handle(ctx: Context, info: RequestInfo, request: e.FindCoordinatorRequest) -> object:
    """The coordinator of each key; errors are per key."""
    if request.key_type not in _TOPICS:
        raise KafkaError(ErrorCode.invalid_request, f"no coordinators of type {request.key_type}")
    if request.key_type == TRANSACTION and not ctx.image.serves_transactions:
        return _here(ctx, info, request)
    topic, submit = _TOPICS[request.key_type]
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms

    def build() -> e.FindCoordinatorResponse:
        coordinators = tuple(_find(ctx, info, topic, key) for key in request.coordinator_keys)
        return e.FindCoordinatorResponse(coordinators=coordinators)

    try:
        proposals = submit(ctx, deadline_ms)
    except KafkaError as error:
        # Not enough brokers for its replicas yet: every client retries after this code.
        raise KafkaError(ErrorCode.coordinator_not_available, error.message) from error
    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.FindCoordinatorRequest, error: KafkaError) -> e.FindCoordinatorResponse:
    """The answer when the whole request is refused."""
    coordinators = tuple(
        _failed(key, error.code, error.message or None) for key in request.coordinator_keys
    )
    return e.FindCoordinatorResponse(coordinators=coordinators)


def _here(
    ctx: Context, info: RequestInfo, request: e.FindCoordinatorRequest
) -> e.FindCoordinatorResponse:
    """No broker coordinates transactions yet; this broker names itself and refuses the request for
    a producer id: librdkafka repeats FindCoordinator for ever after any error here except a lack of
    rights."""
    coordinators = tuple(_told(ctx, info, ctx.broker_id, key) for key in request.coordinator_keys)
    return e.FindCoordinatorResponse(coordinators=coordinators)


def _find(ctx: Context, info: RequestInfo, topic: str, key: str) -> e.Coordinator:
    tp = partition_of(ctx, topic, key)
    partition = None if tp is None else ctx.image.partition(tp.topic, tp.partition)
    if partition is None:
        return _failed(key, ErrorCode.coordinator_not_available, None)
    return _told(ctx, info, partition.leader, key)


def _told(ctx: Context, info: RequestInfo, broker_id: int, key: str) -> e.Coordinator:
    broker = ctx.image.brokers.get(broker_id)
    endpoint = None if broker is None or broker.fenced else broker.endpoint(info.listener)
    if endpoint is None:
        return _failed(key, ErrorCode.coordinator_not_available, None)
    return e.Coordinator(key=key, node_id=broker_id, host=endpoint.host, port=endpoint.port)


def _failed(key: str, code: ErrorCode, message: str | None) -> e.Coordinator:
    return e.Coordinator(
        key=key, node_id=NO_LEADER, host="", port=-1, error_code=code, error_message=message
    )

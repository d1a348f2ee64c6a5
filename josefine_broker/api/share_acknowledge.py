"""ShareAcknowledge (key 79, KIP-932): a member answers for records without fetching others.

Rules: as in ShareFetch, of whose session it is a request, too. The last one of a session gives
others what the member has not answered for.
"""

from josefine_broker.api.shared.hints import node_endpoints
from josefine_broker.api.shared.share_sessions import (
    ACKNOWLEDGE_TIMEOUT_MS,
    Acknowledging,
    asked_of,
    by_topic,
    check_member,
    close,
    leader_hint,
    session_of,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.groups.share.sessions import FINAL_EPOCH, Part
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.wire.entities import share_acknowledge as e


def handle(ctx: Context, info: RequestInfo, request: e.ShareAcknowledgeRequest) -> object:
    """Answered when the answers of the member are stored. Raises KafkaError."""
    group_id, member_id = check_member(request.group_id, request.member_id)
    epoch, asked = request.share_session_epoch, asked_of(request.topics)
    session = session_of(ctx, group_id, member_id, epoch, may_open=False)
    waiting: list[Promise] = []

    def build() -> e.ShareAcknowledgeResponse:
        return _answer(ctx, info, group_id, acknowledging)

    def wake() -> None:
        for each in waiting:
            each.keep(build)

    def late() -> object:
        acknowledging.give_up()
        return build()

    acknowledging = Acknowledging(ctx)
    acknowledging.take(info, session, asked, is_renewing=request.is_renew_ack)
    if epoch == FINAL_EPOCH:
        close(ctx, session)
    if acknowledging.is_decided:
        return build()
    deadline_ms = ctx.clock.monotonic_ms() + ACKNOWLEDGE_TIMEOUT_MS
    waiting.append(Promise(ctx.parked, deadline_ms, late))
    acknowledging.wait(wake)
    return waiting[0]


def refuse(request: e.ShareAcknowledgeRequest, error: KafkaError) -> e.ShareAcknowledgeResponse:
    """The answer when the whole request is refused."""
    return e.ShareAcknowledgeResponse(
        error_code=error.code, error_message=error.message or None, responses=(), node_endpoints=()
    )


def _answer(
    ctx: Context, info: RequestInfo, group_id: str, acknowledging: Acknowledging
) -> e.ShareAcknowledgeResponse:
    leaders = set[int]()
    results: dict[Part, e.PartitionData] = {}
    for part, error in acknowledging.errors.items():
        code = ErrorCode.none if error is None else error.code
        leader = leader_hint(ctx, part, code)
        leaders.add(leader[0])
        results[part] = e.PartitionData(
            partition_index=part[1],
            error_code=code,
            error_message=None if error is None else error.message or None,
            current_leader=e.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        )
    leaders.discard(-1)
    return e.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=config_of(ctx, group_id).share.limits.lock_ms,
        responses=tuple(
            e.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=parts)
            for topic_id, parts in by_topic(results)
        ),
        node_endpoints=tuple(
            e.NodeEndpoint(node_id=each[0], host=each[1], port=each[2], rack=each[3])
            for each in node_endpoints(ctx, leaders, info.listener)
        ),
    )

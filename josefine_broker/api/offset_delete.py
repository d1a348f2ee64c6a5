"""OffsetDelete (key 47): deletes single committed offsets of one group (KIP-496).

For a group with members only topics that none of them reads; errors are per partition. A partition
without a committed offset is no error, a missing partition is.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import (
    append_deletion,
    check_group_id,
    coordinator_of,
)
from josefine_broker.engine.replicas.committing import answer_when_committed
from josefine_broker.wire.entities import offset_delete as e

_Codes = dict[TopicPartition, ErrorCode]


def handle(ctx: Context, info: RequestInfo, request: e.OffsetDeleteRequest) -> object:
    """Answered when the deletion is committed."""
    group_id = request.group_id
    check_group_id(group_id)
    coordinator_of(ctx, group_id)
    coordinator = ctx.clients.groups.coordinator
    code = coordinator.may_delete_offsets(group_id)
    if code is not ErrorCode.none:
        raise KafkaError(code)
    codes: _Codes = {}
    for topic in request.topics:
        is_read = coordinator.is_subscribed(group_id, topic.name)
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if ctx.image.partition(*tp) is None:
                codes[tp] = ErrorCode.unknown_topic_or_partition
            else:
                codes[tp] = ErrorCode.group_subscribed_to_topic if is_read else ErrorCode.none
    committed = coordinator.offsets.committed(group_id)
    gone = [tp for tp, each in codes.items() if each is ErrorCode.none and tp in committed]

    def settle(error: KafkaError | None) -> None:
        if error is not None:
            codes.update(dict.fromkeys(gone, error.code))

    appended = append_deletion(ctx, group_id, gone, settle=settle)
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, appended, timeout_ms, lambda: _answer(request, codes))


def refuse(request: e.OffsetDeleteRequest, error: KafkaError) -> e.OffsetDeleteResponse:
    """The answer when the whole request is refused."""
    return e.OffsetDeleteResponse(error_code=error.code)


def _answer(request: e.OffsetDeleteRequest, codes: _Codes) -> e.OffsetDeleteResponse:
    return e.OffsetDeleteResponse(
        topics=tuple(
            e.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    e.OffsetDeleteResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes[TopicPartition(topic.name, part.partition_index)],
                    )
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )

"""OffsetCommit (key 8): the offsets of a group without members, written to `__consumer_offsets`.

One batch per request: of the offsets that may be stored all are, or none; errors are per partition.
Topic ids since v10 (KIP-848). A generation belongs to a group with members, which is not served:
ILLEGAL_GENERATION, as Kafka answers for a group it does not know.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.offsets_topic import coordinator_of, store_offsets
from josefine_broker.wire.entities import offset_commit as e

_Codes = dict[tuple[int, int], ErrorCode]
"""Error by place in the request: (topic, partition)."""


def handle(ctx: Context, info: RequestInfo, request: e.OffsetCommitRequest) -> object:
    """Store the offsets that can be stored; errors are per partition."""
    if request.generation_id_or_member_epoch >= 0:
        raise KafkaError(ErrorCode.illegal_generation, "groups have no members here")
    coordinator_of(ctx, request.group_id)
    now_ms = ctx.clock.now_ms()
    codes: _Codes = {}
    offsets = []
    for at, topic in enumerate(request.topics):
        name = ctx.topic_name(topic.name, topic.topic_id)
        for nth, part in enumerate(topic.partitions):
            code = _check(ctx, name, part)
            if code is ErrorCode.none:
                assert name is not None
                offsets.append((TopicPartition(name, part.partition_index), _value(part, now_ms)))
            else:
                codes[at, nth] = code
    if not offsets:
        return _answer(request, codes, ErrorCode.none)
    return store_offsets(
        ctx,
        request.group_id,
        offsets,
        lambda error: _answer(request, codes, ErrorCode.none if error is None else error.code),
    )


def refuse(request: e.OffsetCommitRequest, error: KafkaError) -> e.OffsetCommitResponse:
    """The answer when the whole request is refused."""
    return _answer(request, {}, error.code)


def _check(ctx: Context, name: str | None, part: e.OffsetCommitRequestPartition) -> ErrorCode:
    if name is None:
        return ErrorCode.unknown_topic_id
    if ctx.image.partition(name, part.partition_index) is None:
        return ErrorCode.unknown_topic_or_partition
    if len(part.committed_metadata or "") > ctx.settings.offsets.metadata_bytes_max:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


def _value(part: e.OffsetCommitRequestPartition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset=part.committed_offset,
        leader_epoch=part.committed_leader_epoch,
        metadata=part.committed_metadata or "",
        commit_time_ms=now_ms,
    )


def _answer(
    request: e.OffsetCommitRequest, codes: _Codes, otherwise: ErrorCode
) -> e.OffsetCommitResponse:
    return e.OffsetCommitResponse(
        topics=tuple(
            e.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    e.OffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes.get((at, nth), otherwise),
                    )
                    for nth, part in enumerate(topic.partitions)
                ),
            )
            for at, topic in enumerate(request.topics)
        )
    )

"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch (KIP-101, KIP-279, KIP-320).

A client that read under an old leader uses it to find out whether its position still exists.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import offset_for_leader_epoch as e


def handle(
    ctx: Context, info: RequestInfo, request: e.OffsetForLeaderEpochRequest
) -> e.OffsetForLeaderEpochResponse:
    """The end of one epoch per named partition; errors are per partition."""
    topics = tuple(
        e.OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(_answer(ctx, topic.topic, part) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return e.OffsetForLeaderEpochResponse(topics=topics)


def refuse(
    request: e.OffsetForLeaderEpochRequest, error: KafkaError
) -> e.OffsetForLeaderEpochResponse:
    """The answer when the whole request is refused."""
    topics = tuple(
        e.OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(_failed(part, error.code) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return e.OffsetForLeaderEpochResponse(topics=topics)


def _answer(ctx: Context, topic: str, part: e.OffsetForLeaderPartition) -> e.EpochEndOffset:
    try:
        hosted = ctx.hosted_partition(topic, part.partition)
        hosted.partition.check_serves(LeaderEpoch(part.current_leader_epoch))
    except KafkaError as error:
        return _failed(part, error.code)
    # The log end, as in Kafka: a new leader's high watermark may be below what clients have read,
    # and would look to them like a truncation.
    asked = LeaderEpoch(part.leader_epoch)
    epoch, end_offset = hosted.partition.epochs.end_of(asked, hosted.log.log_end_offset)
    return e.EpochEndOffset(partition=part.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(part: e.OffsetForLeaderPartition, code: ErrorCode) -> e.EpochEndOffset:
    return e.EpochEndOffset(error_code=code, partition=part.partition)

"""DeleteRecords (key 21, KIP-107): the log start moves up; -1 stands for the high watermark."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.handlers.context import Context, RequestInfo
from josefine_broker.wire.entities import delete_records as e

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


def handle(
    ctx: Context, info: RequestInfo, request: e.DeleteRecordsRequest
) -> e.DeleteRecordsResponse:
    """Move the start of each partition named; errors are per partition."""
    topics = tuple(
        e.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(_delete(ctx, topic.name, part) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return e.DeleteRecordsResponse(topics=topics)


def refuse(request: e.DeleteRecordsRequest, error: KafkaError) -> e.DeleteRecordsResponse:
    """The answer when the whole request is refused."""
    topics = tuple(
        e.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(_failed(part, error.code) for part in topic.partitions),
        )
        for topic in request.topics
    )
    return e.DeleteRecordsResponse(topics=topics)


def _delete(
    ctx: Context, topic: str, part: e.DeleteRecordsPartition
) -> e.DeleteRecordsPartitionResult:
    try:
        hosted = ctx.hosted(topic, part.partition_index)
        hosted.partition.check_serves()
        if not hosted.settings.log.deletes:
            raise KafkaError(ErrorCode.policy_violation, "the topic's cleanup.policy is compact")
        end = hosted.partition.high_watermark
        offset = end if part.offset == HIGH_WATERMARK else part.offset
        if not 0 <= offset <= end:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{offset} is not within 0 to {end}")
        hosted.log.delete_before(offset)  # nothing happens below the log start
        hosted.partition.epochs.truncate_start(offset)
    except KafkaError as error:
        return _failed(part, error.code)
    return e.DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=hosted.log.log_start_offset
    )


def _failed(part: e.DeleteRecordsPartition, code: ErrorCode) -> e.DeleteRecordsPartitionResult:
    return e.DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=code
    )

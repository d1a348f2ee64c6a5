"""ListOffsets (key 2): where a partition begins and ends, and offsets by timestamp.

Special timestamps: -1 latest (the high watermark; the last stable offset for read_committed), -2
earliest, -3 the record with the largest timestamp (KIP-734, since v7), -4 earliest local (KIP-405,
since v8: all storage is local), -5 latest tiered (KIP-1005, since v9: there is none, so -1).
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.partition import Partition
from josefine_broker.handlers.context import Context, HostedPartition, RequestInfo
from josefine_broker.wire.entities import list_offsets as e

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5

SINCE_VERSION = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
READ_COMMITTED = 1
NOT_FOUND = (-1, -1, -1)


def handle(ctx: Context, info: RequestInfo, request: e.ListOffsetsRequest) -> e.ListOffsetsResponse:
    """One offset per partition named; errors are per partition."""
    topics = tuple(
        e.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                _answer(ctx, info, request, topic.name, part) for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return e.ListOffsetsResponse(topics=topics)


def refuse(request: e.ListOffsetsRequest, error: KafkaError) -> e.ListOffsetsResponse:
    """The answer when the whole request is refused."""
    topics = tuple(
        e.ListOffsetsTopicResponse(
            name=topic.name, partitions=tuple(_failed(part, error) for part in topic.partitions)
        )
        for topic in request.topics
    )
    return e.ListOffsetsResponse(topics=topics)


def _answer(
    ctx: Context,
    info: RequestInfo,
    request: e.ListOffsetsRequest,
    topic: str,
    part: e.ListOffsetsPartition,
) -> e.ListOffsetsPartitionResponse:
    try:
        hosted = ctx.hosted(topic, part.partition_index)
        hosted.partition.check_serves(part.current_leader_epoch)
        if part.timestamp < 0:
            since = SINCE_VERSION.get(part.timestamp)
            if since is None or info.header.api_version < since:
                raise KafkaError(ErrorCode.unsupported_version, f"timestamp {part.timestamp}")
        offset, timestamp, epoch = _find(
            hosted, part.timestamp, request.isolation_level, info.header.api_version
        )
    except KafkaError as error:
        return _failed(part, error)
    return e.ListOffsetsPartitionResponse(
        partition_index=part.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _find(
    hosted: HostedPartition, timestamp_ms: int, isolation: int, version: int
) -> tuple[int, int, int]:
    """(offset, timestamp or -1, leader epoch or -1). Raises KafkaError."""
    partition, log = hosted.partition, hosted.log
    end = partition.high_watermark
    if isolation == READ_COMMITTED:
        end = min(end, partition.last_stable_offset)
    if timestamp_ms == LATEST:
        _check_end_known(partition, version)
        return end, -1, partition.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return start, -1, partition.epochs.epoch_of(start)
    if timestamp_ms == LATEST_TIERED:
        return NOT_FOUND
    if timestamp_ms == MAX_TIMESTAMP:
        newest = log.max_timestamp()
        if newest is None or newest[0] >= end:
            _check_end_known(partition, version)
            return NOT_FOUND
        offset, found_ms = newest
        return offset, found_ms, partition.epochs.epoch_of(offset)
    found = log.find_by_timestamp(timestamp_ms)
    if found is None or found[0] >= end:
        _check_end_known(partition, version)
        return NOT_FOUND
    return found


def _check_end_known(partition: Partition, version: int) -> None:
    """A new leader's high watermark may be behind its predecessor's: offsets must not go back
    (KIP-207, since v5; older clients get the other error that they ask again after)."""
    if not partition.knows_high_watermark:
        code = ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available
        raise KafkaError(code, "the high watermark is not known yet")


def _failed(part: e.ListOffsetsPartition, error: KafkaError) -> e.ListOffsetsPartitionResponse:
    return e.ListOffsetsPartitionResponse(
        partition_index=part.partition_index, error_code=error.code
    )

"""DeleteRecords (key 21, KIP-107): moves the log start up; -1 means the high watermark.

Rules: a deletion counts when every live replica has made it too, in sync or not, so that no later
leader returns the records again. The answer has the low watermark, the smallest log start of these
replicas. If a replica is too slow the answer is REQUEST_TIMED_OUT, and it deletes as soon as it
can.
"""

from dataclasses import dataclass

from josefine_broker.api.shared.topics import check_not_internal
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.purgatory.promises import AwaitEach
from josefine_broker.wire.entities import delete_records as e

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@dataclass(slots=True, kw_only=True)
class Deletion:
    """The deletion in one partition: started here if it has `hosted`, decided if it has
    `result`."""

    ctx: Context
    tp: tuple[str, int]
    offset: int = HIGH_WATERMARK
    hosted: HostedPartition | None = None
    result: e.DeleteRecordsPartitionResult | None = None

    def decide(self) -> bool:
        """Whether every live replica has deleted the records, or the wait is over."""
        hosted, index = self.hosted, self.tp[1]
        if hosted is None:
            return True
        if self.ctx.hosted.partitions.get(self.tp) is not hosted or not hosted.partition.is_leader:
            self.result = _failed(index, ErrorCode.not_leader_or_follower)
            return True
        low_watermark = _low_watermark(self.ctx, hosted)
        if low_watermark < self.offset:
            return False
        self.result = e.DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=low_watermark
        )
        return True

    def give_up(self) -> None:
        """A replica did not delete in time."""
        self.result = _failed(self.tp[1], ErrorCode.request_timed_out)


def handle(ctx: Context, info: RequestInfo, request: e.DeleteRecordsRequest) -> object:
    """Move the start of each named partition; errors are per partition. If a partition is named
    twice, the last offset counts."""
    wanted: dict[str, dict[int, e.DeleteRecordsPartition]] = {}
    for topic in request.topics:
        named = {part.partition_index: part for part in topic.partitions}
        wanted.setdefault(topic.name, {}).update(named)
    deletions = {
        name: [_delete(ctx, name, part) for part in parts.values()]
        for name, parts in wanted.items()
    }

    def build() -> e.DeleteRecordsResponse:
        topics = tuple(
            e.DeleteRecordsTopicResult(
                name=name,
                partitions=tuple(each.result for each in parts if each.result is not None),
            )
            for name, parts in deletions.items()
        )
        return e.DeleteRecordsResponse(topics=topics)

    waiting = [each for parts in deletions.values() for each in parts if not each.decide()]
    if not waiting:
        return build()
    now_ms = ctx.clock.monotonic_ms()
    token = AwaitEach(waiting, now_ms + request.timeout_ms, build).park(ctx.parked, brokers=True)
    _tell_followers(ctx, waiting, now_ms)
    return token


def refuse(request: e.DeleteRecordsRequest, error: KafkaError) -> e.DeleteRecordsResponse:
    """The answer when the whole request is refused."""
    topics = tuple(
        e.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                _failed(part.partition_index, error.code) for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return e.DeleteRecordsResponse(topics=topics)


def _delete(ctx: Context, topic: str, part: e.DeleteRecordsPartition) -> Deletion:
    """Delete the records of this replica."""
    deletion = Deletion(ctx=ctx, tp=(topic, part.partition_index), offset=part.offset)
    try:
        check_not_internal(topic)
        hosted = ctx.hosted_partition(topic, part.partition_index)
        hosted.partition.check_serves()
        if hosted.settings.log.compacts and not hosted.settings.log.deletes:
            raise KafkaError(ErrorCode.policy_violation, "the topic's cleanup.policy is compact")
        if hosted.settings.log.archived:
            raise KafkaError(ErrorCode.policy_violation, "the topic's archive keeps every record")
        end = hosted.partition.high_watermark
        if deletion.offset == HIGH_WATERMARK:
            deletion.offset = end
        if not 0 <= deletion.offset <= end:
            raise KafkaError(
                ErrorCode.offset_out_of_range, f"{deletion.offset} is not within 0 to {end}"
            )
        hosted.log.delete_before(deletion.offset)  # does nothing below the log start
        hosted.partition.started_at(hosted.log.log_start_offset)
        ctx.parked.followers.note(deletion.tp)
        deletion.hosted = hosted
    except KafkaError as error:
        deletion.result = _failed(part.partition_index, error.code)
    return deletion


def _low_watermark(ctx: Context, hosted: HostedPartition) -> int:
    """The smallest log start of the live replicas; -1 while one of them has not reported its
    own."""
    followers = hosted.partition.followers
    low = hosted.log.log_start_offset
    for broker_id in hosted.partition.replicas:
        follower = None if followers is None else followers.get(broker_id)
        if follower is not None and ctx.image.is_live(broker_id):
            low = min(low, follower.start_offset)
    return low


def _tell_followers(ctx: Context, waiting: list[Deletion], now_ms: int) -> None:
    """Answer their waiting fetches, with our new log start."""
    replicas = {
        broker_id: None
        for each in waiting
        if each.hosted is not None
        for broker_id in each.hosted.partition.replicas
    }
    for broker_id in replicas:
        ctx.parked.wake_follower(broker_id, now_ms)


def _failed(partition_index: int, code: ErrorCode) -> e.DeleteRecordsPartitionResult:
    return e.DeleteRecordsPartitionResult(
        partition_index=partition_index, low_watermark=NO_LOW_WATERMARK, error_code=code
    )

"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch (KIP-101, KIP-279, KIP-320).

A client that read under an old leader uses it to find out whether its position still exists.

Rules: a leader knows the epochs of its own log. Of an archived topic, a client that asks for an
earlier one gets the archive's answer, or, if that cannot be had, the local start: an end that is
never below a client's position, so nothing looks lost.
"""

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.wire.entities import offset_for_leader_epoch as e

ARCHIVE_MS_MAX = 10_000
Ask = Callable[[], tuple[int, int] | None]
"""A question to the archive: (leader epoch, end offset); None: the local start is its end."""


def handle(ctx: Context, info: RequestInfo, request: e.OffsetForLeaderEpochRequest) -> object:
    """The end of one epoch per named partition; errors are per partition."""
    topics = [
        (topic.topic, [_answer(ctx, topic.topic, part) for part in topic.partitions])
        for topic in request.topics
    ]
    # The archive is asked outside of the broker's thread, for all partitions one after another.
    asked = {
        (topic_at, at): ask
        for topic_at, topic in enumerate(request.topics)
        for at, part in enumerate(topic.partitions)
        if request.replica_id < 0 and (ask := _archive_question(ctx, topic.topic, part)) is not None
    }

    def build() -> e.OffsetForLeaderEpochResponse:
        return e.OffsetForLeaderEpochResponse(
            topics=tuple(
                e.OffsetForLeaderTopicResult(topic=name, partitions=tuple(parts))
                for name, parts in topics
            )
        )

    if not asked:
        return build()
    promise = Promise(ctx.parked, ctx.clock.monotonic_ms() + ARCHIVE_MS_MAX, build)

    def done(found: list[tuple[int, int] | None] | None) -> None:
        for (topic_at, at), answer in zip(asked, found or [], strict=False):
            if answer is not None:
                parts = topics[topic_at][1]
                parts[at] = e.EpochEndOffset(
                    partition=parts[at].partition, leader_epoch=answer[0], end_offset=answer[1]
                )
        promise.keep(build)

    try:
        ctx.ports.work(
            lambda breathe: [_asked(ask, breathe) for ask in asked.values()],
            lambda: promise.is_wanted,
            done,
        )
    except KafkaError:  # too many lookups wait
        done(None)
    return promise.response if promise.done else promise


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
        hosted = _serving(ctx, topic, part)
    except KafkaError as error:
        return _failed(part, error.code)
    # The log end, as in Kafka: a new leader's high watermark may be below what clients have read,
    # and would look to them like a truncation.
    asked = LeaderEpoch(part.leader_epoch)
    epoch, end_offset = hosted.partition.epochs.end_of(asked, hosted.log.log_end_offset)
    return e.EpochEndOffset(partition=part.partition, leader_epoch=epoch, end_offset=end_offset)


def _archive_question(ctx: Context, topic: str, part: e.OffsetForLeaderPartition) -> Ask | None:
    """The question for an epoch from before the log's first one; None: the log has the answer."""
    archive = ctx.ports.archive
    try:
        hosted = _serving(ctx, topic, part)
    except KafkaError:
        return None
    starts = hosted.partition.epochs.starts
    is_before = bool(starts) and 0 <= part.leader_epoch < starts[0].epoch
    if archive is None or not is_before or not hosted.settings.log.archived:
        return None
    return archive.epoch_end(TopicPartition(topic, part.partition), hosted, part.leader_epoch)


def _serving(ctx: Context, topic: str, part: e.OffsetForLeaderPartition) -> HostedPartition:
    """The partition that is led here under the client's epoch. Raises KafkaError."""
    hosted = ctx.hosted_partition(topic, part.partition)
    hosted.partition.check_serves(LeaderEpoch(part.current_leader_epoch))
    return hosted


def _asked(ask: Ask, breathe: Callable[[], None]) -> tuple[int, int] | None:
    """Runs outside the broker's thread."""
    breathe()
    try:
        return ask()
    except KafkaError:
        return None


def _failed(part: e.OffsetForLeaderPartition, code: ErrorCode) -> e.EpochEndOffset:
    return e.EpochEndOffset(error_code=code, partition=part.partition)

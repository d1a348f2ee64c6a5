"""The follower's half of the round that acks=all waits for: the next batch of the one partition
that was asked for is here.

Rules: it does what `following.hear` and the next request do, in another order: append, next
request, and all else (`finish`) while that is under way. The next request acknowledges what is in
the log, as always. An answer with anything unusual is left to `hear`, before anything is done.
"""

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.replica_fetch import Copy, ReplicaFetcher
from josefine_broker.engine.partition.replica_role import ReplicaState
from josefine_broker.engine.replicas.following import next_header
from josefine_broker.records.batch import BatchHeader
from josefine_broker.wire.fetch import FetchRequest
from josefine_broker.wire.replica_frames import RepeatedAnswer

__all__ = ["NextBatches", "next_batches"]

_FOLLOWER = ReplicaState.FOLLOWER


class NextBatches:
    """The rounds of one partition with one leader, within one image of the metadata. Mutable."""

    __slots__ = (
        "_answer", "_copy", "_ctx", "_fetcher", "_hosted", "_image", "_left", "_tp",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        fetcher: ReplicaFetcher,
        copy: Copy,
        tp: TopicPartition,
        hosted: HostedPartition,
        answer: RepeatedAnswer,
    ) -> None:
        self._ctx = ctx
        self._fetcher = fetcher
        self._copy = copy
        self._tp = tp
        self._hosted = hosted
        self._image = ctx.image
        self._answer = answer
        self._left: tuple[BatchHeader, memoryview, int, int] | None = None
        """Header, bytes, high watermark and wall clock time of a batch that `finish` handles."""

    def take(self, number: int, frame: memoryview) -> tuple[int, int, int] | None:
        """Append the batch in the answer to request `number`; returns number, session epoch and
        offset of the next request. None: nothing was done."""
        ctx, copy, fetcher, hosted = self._ctx, self._copy, self._fetcher, self._hosted
        found = self._answer.read(frame)
        if found is None or ctx.image is not self._image or not fetcher.is_alone(copy, number):
            return None
        high_watermark, start, batch = found
        partition, log = hosted.partition, hosted.log
        if (
            partition.state is not _FOLLOWER
            or hosted.halt
            or ctx.storage.is_full
            or ctx.broker_id not in partition.isr  # its replication may be throttled
            or hosted.settings.log.flush_messages is not None  # it acknowledges what is synced
            or start > log.log_start_offset
            or copy.log_start_offset != log.log_start_offset
            or copy.last_fetched_epoch != partition.epochs.latest
            or ctx.hosted.partitions.get(self._tp) is not hosted
        ):
            return None
        header = next_header(hosted, batch)
        if header is None:
            return None
        now_ms = ctx.clock.now_ms()
        try:
            log.append(batch, header, now_ms)
        except KafkaError:  # `hear` tries it again, and handles the error
            return None
        self._left = header, batch, high_watermark, now_ms
        copy.leaders_high_watermark = high_watermark
        # Nothing waits for a sync here (`flush_messages`): its end is acknowledged.
        return fetcher.goes_on(copy, header.base_offset + header.last_offset_delta + 1)

    def finish(self) -> None:
        """What is left to do for the batch that was appended."""
        assert self._left is not None
        (header, batch, high_watermark, now_ms), self._left = self._left, None
        ctx, partition = self._ctx, self._hosted.partition
        # As `copied` does for a batch of the epoch that is being written, without a marker.
        partition.appended(header, header.base_offset, now_ms)
        counters = ctx.hosted.counters
        counters.replicated_bytes += len(batch)
        counters.replicated_batches += 1
        end_offset = header.base_offset + header.last_offset_delta + 1
        if partition.follow_high_watermark(high_watermark, end_offset):
            ctx.parked.wake(self._tp, ctx.clock.monotonic_ms())


def next_batches(
    ctx: Context, fetcher: ReplicaFetcher, number: int, request: FetchRequest
) -> NextBatches | None:
    """Of the partition that the request names. None: it is not the only one, or not copied here."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    _, topic_id, (part,) = request.topics[0]
    assert topic_id is not None, "followers ask by topic id"
    copy = fetcher.get((topic_id, part.index))
    if copy is None or not fetcher.is_alone(copy, number):
        return None
    name = ctx.image.topic_names.get(topic_id)
    hosted = None if name is None else ctx.hosted.partitions.get((name, part.index))
    if name is None or hosted is None:
        return None
    answer = RepeatedAnswer(request.session_id, topic_id.bytes, part.index)
    return NextBatches(ctx, fetcher, copy, TopicPartition(name, part.index), hosted, answer)

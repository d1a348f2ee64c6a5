"""Acknowledgement of appends (acks=all): the answer waits until every in-sync replica has the
batch, and has synced it where the topic requires that (`flush.messages=1`).

Rules: an append is answered once:
- without error when the high watermark has passed its end;
- NOT_LEADER_OR_FOLLOWER when the leadership was lost before;
- NOT_ENOUGH_REPLICAS_AFTER_APPEND when the ISR fell below `min.insync.replicas`;
- KAFKA_STORAGE_ERROR when a sync of our log failed, after which it accepts no more writes;
- REQUEST_TIMED_OUT at the deadline.
After any of these errors the batch may still become committed: the retry of an idempotent producer
is then a duplicate.

A broker that neither controller nor followers reach closes its clients' connections without an
answer: some clients keep using the broker they are connected to, and would ask it for the leader.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.partition import STRANDED
from josefine_broker.engine.purgatory.promises import AwaitEach
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked, PartitionKey

_new = tuple.__new__


class Appended(NamedTuple):
    """A batch in our log that is acknowledged when it is committed."""

    ctx: Context
    tp: PartitionKey
    hosted: HostedPartition
    end_offset: int
    settle: Callable[[KafkaError | None], None]
    """Called with the result before the answer is built."""

    @property
    def is_committed_at_once(self) -> bool:
        """Whether the batch is committed right after its append: there are no other replicas, and
        no sync is required."""
        partition = self.hosted.partition
        return partition.is_alone and partition.high_watermark >= self.end_offset

    def decide(self) -> bool:
        """Report the result if it is certain; returns whether it is."""
        partition = self.hosted.partition
        if self.ctx.hosted.partitions.get(self.tp) is not self.hosted or not partition.is_leader:
            code, message = ErrorCode.not_leader_or_follower, "this broker no longer leads"
            self.settle(KafkaError(code, message))
        elif partition.high_watermark >= self.end_offset:
            self.settle(None)
        elif self.hosted.log.failure and self.hosted.log.durable_end_offset < self.end_offset:
            self.settle(KafkaError(ErrorCode.kafka_storage_error, self.hosted.log.failure))
        elif partition.is_under_min_isr:
            self.settle(
                KafkaError(
                    ErrorCode.not_enough_replicas_after_append,
                    f"appended, but only {len(partition.isr)} replicas are in sync",
                )
            )
        else:
            return False
        return True

    def give_up(self) -> None:
        """Report that the batch was not committed by the deadline."""
        late = "not on every in-sync replica before the timeout"
        self.settle(KafkaError(ErrorCode.request_timed_out, late))


def answer_when_committed(
    ctx: Context, appended: Sequence[Appended], timeout_ms: int, build: Callable[[], object]
) -> object:
    """`build()` now if all are committed, else a token whose answer is built later."""
    waiting = [each for each in appended if not each.decide()]
    if not waiting:
        return build()
    deadline_ms = ctx.clock.monotonic_ms() + timeout_ms
    return AwaitCommit(ctx, waiting, deadline_ms, build).park(ctx.parked)


class AwaitCommit(AwaitEach):
    """A delayed produce; it closes the connection when this broker cannot know what was
    committed."""

    __slots__ = ("_ctx",)

    def __init__(
        self,
        ctx: Context,
        waiting: Sequence[Appended],
        deadline_ms: int,
        build: Callable[[], object],
    ) -> None:
        super().__init__(waiting, deadline_ms, build)
        self._ctx = ctx

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if not self._ctx.cluster.is_heard and partition in self._pending:
            hosted = self._ctx.hosted.partitions.get(partition)
            if hosted is not None and hosted.partition.is_stranded:
                self.complete(Hangup(STRANDED))
                return True
        return super().try_complete(partition, now_ms)

    def expire(self, now_ms: int) -> None:
        if not self._ctx.cluster.is_heard:
            self.complete(Hangup("not committed in time, and the controller is unreachable"))
            return
        super().expire(now_ms)


class Together(NamedTuple):
    """What became of batches that were appended together."""

    committed_end: int
    """The batches up to this offset are acknowledged."""
    error: KafkaError | None = None
    """Why the others are not."""


class AwaitTogether(AwaitCommit):
    """The delayed produce of several requests to one partition. It is answered by a `Together`, or
    closes their connections."""

    __slots__ = ("_committed_end", "_end_offset", "_error", "_hosted", "_tp")

    def __init__(
        self,
        ctx: Context,
        tp: PartitionKey,
        hosted: HostedPartition,
        end_offset: int,
        deadline_ms: int,
    ) -> None:
        """`end_offset`: of the last batch."""
        self._hosted = hosted
        self._tp = tp
        self._end_offset = end_offset
        self._committed_end = 0
        self._error: KafkaError | None = None
        # As `super().__init__`, in short: it is part of each round trip.
        Parked.__init__(self, deadline_ms)
        self._ctx = ctx
        self._build = self._outcome
        self._pending = {tp: [_new(Appended, (ctx, tp, hosted, end_offset, self._settle))]}

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        leading, ctx = self._hosted.partition, self._ctx
        # A leader that is deposed later has acknowledged these all the same.
        if leading.is_leader:
            self._committed_end = end = leading.high_watermark
            # As it mostly is, and in short: the client waits for this.
            is_hosted = ctx.hosted.partitions.get(self._tp) is self._hosted
            if end >= self._end_offset and is_hosted and ctx.cluster.is_heard:
                self.complete(_new(Together, (end, None)))
                return True
        return super().try_complete(partition, now_ms)

    def complete(self, response: object) -> None:
        # Both have methods of this object: only the collector would free it, with its requests.
        self._pending, self._build = {}, tuple
        Parked.complete(self, response)

    def _settle(self, error: KafkaError | None) -> None:
        self._error = error

    def _outcome(self) -> Together:
        return Together(self._committed_end, self._error)

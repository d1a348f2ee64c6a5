"""Answers that wait until what was appended is on every in-sync replica (acks=all).

Rules: an append is answered once, without error when the high watermark passed its end; with
NOT_LEADER_OR_FOLLOWER when the leadership went before; with NOT_ENOUGH_REPLICAS_AFTER_APPEND when
the ISR fell below `min.insync.replicas`; with REQUEST_TIMED_OUT at the deadline. In each of these
the batch may still become committed: an idempotent producer's retry is then a duplicate.

Where neither controller nor followers reach this broker its clients are hung up on, without an
answer: some keep to the one broker they are connected to, and would ask it who leads.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.parked import Hangup, Parked
from josefine_broker.core.partition import STRANDED
from josefine_broker.handlers.context import Context, HostedPartition


class Appended(NamedTuple):
    """A batch that is in our log, to be confirmed when it is committed."""

    tp: tuple[str, int]
    hosted: HostedPartition
    end_offset: int
    settle: Callable[[KafkaError | None], None]
    """Told what became of it, before the answer is built."""


def answer_when_committed(
    ctx: Context, appended: Sequence[Appended], timeout_ms: int, build: Callable[[], object]
) -> object:
    """`build()` now when all are committed, else a token that is answered by it later."""
    waiting = [each for each in appended if not _settle(ctx, each)]
    if not waiting:
        return build()
    deadline_ms = ctx.clock.monotonic_ms() + timeout_ms
    token = AwaitCommit(ctx, waiting, deadline_ms, build)
    ctx.parked.park(token, {each.tp: None for each in waiting})
    return token


def _settle(ctx: Context, each: Appended) -> bool:
    """Tell what became of an append, if it is decided; whether it is."""
    partition = each.hosted.partition
    if ctx.partitions.get(each.tp) is not each.hosted or not partition.is_leader:
        each.settle(KafkaError(ErrorCode.not_leader_or_follower, "the leadership went elsewhere"))
    elif partition.high_watermark >= each.end_offset:
        each.settle(None)
    elif len(partition.isr) < partition.min_insync_replicas:
        each.settle(
            KafkaError(
                ErrorCode.not_enough_replicas_after_append,
                f"appended, but only {len(partition.isr)} replicas are in sync",
            )
        )
    else:
        return False
    return True


class AwaitCommit(Parked):
    """Parked under the partitions whose high watermarks it waits for."""

    __slots__ = ("_build", "_ctx", "_waiting")

    def __init__(
        self,
        ctx: Context,
        waiting: list[Appended],
        deadline_ms: int,
        build: Callable[[], object],
    ) -> None:
        super().__init__(deadline_ms)
        self._ctx = ctx
        self._waiting = waiting
        self._build = build

    def try_complete(self, key: Hashable, now_ms: int) -> bool:
        ctx = self._ctx
        if not ctx.is_heard and any(
            each.tp == key and each.hosted.partition.is_stranded for each in self._waiting
        ):
            self.complete(Hangup(STRANDED))
            return True
        self._waiting = [each for each in self._waiting if each.tp != key or not _settle(ctx, each)]
        if self._waiting:
            return False
        self.complete(self._build())
        return True

    def expire(self, now_ms: int) -> None:
        if not self._ctx.is_heard:
            self.complete(Hangup("not committed in time, and the controller is out of reach"))
            return
        late = KafkaError(ErrorCode.request_timed_out, "not on every in-sync replica in time")
        for each in self._waiting:
            each.settle(late)
        self.complete(self._build())

"""Produced batches whose validation takes long, and those behind them: validated on another
thread, appended on the broker's own in the order in which they came to their partition.

Rules: while a partition has a batch here, every later one of it waits here too, whoever sent it: a
producer's pipelined batches keep their order. What is in the queue is appended also for a client
that is gone, as it would be without a queue. The bytes in the queue are bounded: past that, a
batch is validated on the event loop, which makes everybody wait.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.ports import WorkPort
from josefine_broker.engine.validation.produced_batch import Validated, loop_room, thread_room
from josefine_broker.engine.validation.stored_codec import validate_for_storage

QUEUED_BYTES_MAX = 64 * 1024 * 1024
"""Of batches as they were sent."""

Verdict = Validated | KafkaError | CorruptData
"""What became of a batch's validation."""
PartitionKey = tuple[str, int]


class _Queued:
    """One batch that waits for its validation, or for its turn."""

    __slots__ = ("bytes", "then", "verdict")

    def __init__(self, size: int, then: Callable[[Verdict], None]) -> None:
        self.bytes = size
        self.then = then
        self.verdict: Verdict | None = None


class ValidationQueue:
    """All of them, by partition. Changed on the event loop only."""

    __slots__ = ("_bytes", "_thread_room", "partitions", "room")

    def __init__(self) -> None:
        self.partitions: dict[PartitionKey, deque[_Queued]] = {}
        """Batches of these must wait here for those before them."""
        self._bytes = 0
        self.room = loop_room()
        """Where batches are decompressed that are validated on the event loop."""
        self._thread_room: memoryview | None = None  # made when a batch needs it

    def __len__(self) -> int:
        return sum(map(len, self.partitions.values()))

    def validate(
        self,
        work: WorkPort,
        tp: PartitionKey,
        settings: TopicSettings,
        batch: memoryview,
        now_ms: int,
        then: Callable[[Verdict], None],
    ) -> None:
        """Validate a batch by `work`; `then` is called on the loop, once, in the batch's turn."""
        queued = _Queued(len(batch), then)
        self.partitions.setdefault(tp, deque()).append(queued)
        self._bytes += queued.bytes
        job = partial(_judge, settings, batch, now_ms)
        if self._bytes > QUEUED_BYTES_MAX:
            self._done(tp, queued, job())
            return
        if self._thread_room is None:
            self._thread_room = thread_room()
        in_room = partial(job, self._thread_room)
        try:
            # One job at a time: they share a room.
            work(lambda _breathe: in_room(), lambda: True, partial(self._done, tp, queued))
        except KafkaError:  # too much is waiting there
            self._done(tp, queued, job())

    def _done(self, tp: PartitionKey, queued: _Queued, verdict: Verdict | None) -> None:
        if verdict is None:
            # An error of ours, which the host has logged, or a broker that stops.
            verdict = KafkaError(ErrorCode.request_timed_out, "the batch was not validated")
        queued.verdict = verdict
        waiting = self.partitions[tp]
        while waiting and (first := waiting[0]).verdict is not None:
            # It stays at the head while it is appended: what that lets in queues behind it.
            if first.then is _taken:
                return  # an outer call is at it, and takes the others too
            then, first.then = first.then, _taken
            then(first.verdict)
            waiting.popleft()
            self._bytes -= first.bytes
        if not waiting:
            del self.partitions[tp]


def _taken(verdict: Verdict) -> None:
    """In place of the callback of a batch that is being appended."""
    raise AssertionError("a validated batch was taken twice")


def _judge(
    settings: TopicSettings, batch: memoryview, now_ms: int, room: memoryview | None = None
) -> Verdict:
    try:
        validated = validate_for_storage(settings, batch, now_ms, room=room)
    except (KafkaError, CorruptData) as error:
        return error
    assert validated is not None
    return validated

"""A queue of produced batches that are slow to validate: they are validated on another thread, and
appended on the broker's own thread in the order of arrival at their partition.

Rules: while a partition has a batch in the queue, every later one for it waits here as well,
from any client, so that a producer's pipelined batches keep their order. A queued batch is appended
even if its client has disconnected, as without the queue. The bytes in the queue are limited: above
that, a batch is validated on the event loop, which slows down all clients.
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
"""Of batches as sent."""

Verdict = Validated | KafkaError | CorruptData
"""The result of a validation."""
PartitionKey = tuple[str, int]


class _Queued:
    """A batch that waits for its validation, or for its turn."""

    __slots__ = ("bytes", "then", "verdict")

    def __init__(self, size: int, then: Callable[[Verdict], None]) -> None:
        self.bytes = size
        self.then = then
        self.verdict: Verdict | None = None


class ValidationQueue:
    """All queued batches, by partition. Changed on the event loop only."""

    __slots__ = ("_bytes", "_thread_room", "partitions", "room")

    def __init__(self) -> None:
        self.partitions: dict[PartitionKey, deque[_Queued]] = {}
        """Later batches of these partitions must be queued as well."""
        self._bytes = 0
        self.room = loop_room()
        """The buffer for decompression on the event loop."""
        self._thread_room: memoryview | None = None  # allocated on first use

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
        """Validate a batch by `work`; `then` is called once on the loop, in the batch's turn."""
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
            # One job at a time, because they share a buffer.
            work(lambda _breathe: in_room(), lambda: True, partial(self._done, tp, queued))
        except KafkaError:  # too many jobs are waiting there
            self._done(tp, queued, job())

    def _done(self, tp: PartitionKey, queued: _Queued, verdict: Verdict | None) -> None:
        if verdict is None:
            # An internal error, which the host has logged, or the broker is stopping.
            verdict = KafkaError(ErrorCode.request_timed_out, "the batch was not validated")
        queued.verdict = verdict
        waiting = self.partitions[tp]
        while waiting and (first := waiting[0]).verdict is not None:
            # It stays at the head during its append: batches that this admits are queued after it.
            if first.then is _taken:
                return  # an outer call is appending it, and continues with the others
            then, first.then = first.then, _taken
            then(first.verdict)
            waiting.popleft()
            self._bytes -= first.bytes
        if not waiting:
            del self.partitions[tp]


def _taken(verdict: Verdict) -> None:
    """Replaces the callback of a batch that is being appended."""
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

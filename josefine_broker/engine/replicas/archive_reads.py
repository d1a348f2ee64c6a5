"""Reads below the local log start, from the archive reader's process.

Rules: the event loop never waits. What is not there is asked for, the fetch waits as for new
records, and is woken by the answer; the next chunk is asked for before its reader comes. An archive
that cannot be read is a retriable error, after which it is left alone for a while.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import Buffer, HostedPartition, SearchPort
from josefine_broker.engine.partition.archive_chunks import KEPT_MS, Chunk, Chunks, Place, taken
from josefine_broker.engine.ports import Gravity
from josefine_broker.records.batch import NO_LEADER_EPOCH

CHUNK_BYTES = 1 << 20
PAUSE_MS = 1_000
"""After an error."""
ASK_MS_MAX = 30_000
START_MS = 30_000
"""How long the start of an archive counts."""
TELL_AGAIN_MS = 60_000
NO_READER = (
    "a consumer reads below the local log start, and this broker has no archive reader: start "
    "`josefine archive serve` and set `log.archive_reader_port` to its port"
)
NOTHING = -1
"""The start of an archive without any record of the partition."""


class ArchiveQuestion(NamedTuple):
    """Records of these offsets, of about so many bytes."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    end: int
    bytes: int


class ArchiveAnswer(NamedTuple):
    """Record batches up to `next_offset`. `start`: the first archived offset of the partition.
    `error`: a sentence; then there is nothing else."""

    data: bytes
    next_offset: int
    start: int
    error: str = ""


class TimeQuestion(NamedTuple):
    """The first record below `end` that is not older than this time."""

    topic: str
    topic_id: UUID
    partition: int
    time: int
    end: int


class EpochQuestion(NamedTuple):
    """The first record below `end` of a leader epoch after this one, and the epoch before it."""

    topic: str
    topic_id: UUID
    partition: int
    epoch: int
    end: int


AskEpoch = Callable[[EpochQuestion], tuple[int, int] | None]
"""Its (leader epoch, offset), as `AskTime`. Raises KafkaError."""
AskTime = Callable[[TimeQuestion], tuple[int, int] | None]
"""Its (offset, timestamp), on any thread, which waits. Raises KafkaError."""


class ArchiveSearch:
    """A search in the archive, then in the log. Implements `engine.hosted.SearchPort`."""

    def __init__(self, ask: AskTime, question: TimeQuestion, local: SearchPort | None) -> None:
        self._ask = ask
        self._question = question
        self._local = local

    def run(self, breathe: Callable[[], None]) -> tuple[int, int, int] | None:
        """See SearchPort."""
        found = self._ask(self._question)
        if found is not None:
            return (*found, NO_LEADER_EPOCH)
        return None if self._local is None else self._local.run(breathe)


class Ask(Protocol):
    """The way to the archive reader."""

    def __call__(
        self,
        question: ArchiveQuestion,
        deadline_ms: int,
        on_answer: Callable[[ArchiveAnswer], None],
        /,
    ) -> None:
        """`on_answer` is called later, once, on the broker's thread."""
        ...


class MissingReader:
    """The refusal of a fetch that only an archive reader could answer, on a broker without one.
    Mutable: when each topic was reported last."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._again_ms: dict[str, int] = {}

    def __call__(self, tp: TopicPartition) -> KafkaError:
        """The error; it is logged once for each topic and minute."""
        now_ms = self._ctx.clock.monotonic_ms()
        if now_ms >= self._again_ms.get(tp.topic, now_ms):
            self._again_ms[tp.topic] = now_ms + TELL_AGAIN_MS
            self._ctx.ports.tell(
                "archive not read",
                gravity=Gravity.WARNING,
                partition=str(tp),
                reason=NO_READER,
            )
        return KafkaError(ErrorCode.kafka_storage_error, f"{tp}: {NO_READER}")


class ArchiveReads:
    """Implements `engine.ports.ArchivePort`. Mutable; on the broker's thread."""

    def __init__(
        self,
        ctx: Context,
        ask: Ask,
        ask_time: AskTime,
        ask_epoch: AskEpoch = lambda question: None,
    ) -> None:
        self._ctx = ctx
        self._ask_reader = ask
        self._ask_time = ask_time
        self._ask_epoch = ask_epoch
        self._chunks = Chunks()
        self._starts: dict[Place, int] = {}
        self._nothing_below: dict[Place, int] = {}
        """The local start for which an archive had no record at all: it may have later ones now."""
        self._start_until_ms: dict[Place, int] = {}
        """When a start is asked for again: the archive's retention moves it."""
        self._asked: set[tuple[Place, int]] = set()
        self._failed: dict[Place, str] = {}
        """Errors that no reader has heard of yet."""
        self._again_ms: dict[Place, int] = {}

    def read(
        self, tp: TopicPartition, hosted: HostedPartition, offset: int, bytes_max: int
    ) -> Sequence[Buffer] | None:
        """The records from `offset` on, which is below the local start; empty: there are none up to
        it. None: not yet. Raises KafkaError."""
        place = (hosted.topic_id, tp.partition)
        if why := self._failed.pop(place, ""):
            raise KafkaError(ErrorCode.kafka_storage_error, why)
        end = hosted.log.log_start_offset
        if self._is_below_all(place, offset):
            raise KafkaError(ErrorCode.offset_out_of_range)
        while offset < end:
            chunk = self._chunk(place, offset)
            if chunk is None:
                self._ask(tp, place, offset, end)
                return None
            if chunk.next_offset < end and self._chunk(place, chunk.next_offset) is None:
                self._ask(tp, place, chunk.next_offset, end)
            found = taken(chunk, offset, bytes_max)
            if found:
                return [found]
            offset = chunk.next_offset
        return ()

    def has_news(self, tp: TopicPartition, hosted: HostedPartition, offset: int) -> bool:
        """Whether a read would have an outcome now."""
        place = (hosted.topic_id, tp.partition)
        is_out = self._is_below_all(place, offset)
        return is_out or place in self._failed or self._chunk(place, offset) is not None

    def _chunk(self, place: Place, offset: int) -> Chunk | None:
        return self._chunks.find(place, offset, self._ctx.clock.monotonic_ms())

    def _is_below_all(self, place: Place, offset: int) -> bool:
        """Whether the archive is known to have neither this record nor an earlier one."""
        start = self._starts.get(place, self._nothing_below.get(place))
        return start is not None and offset < start

    def start(self, tp: TopicPartition, hosted: HostedPartition) -> int | None:
        """The first offset of archive and log together. None: not known yet; it is asked for."""
        place, local = (hosted.topic_id, tp.partition), hosted.log.log_start_offset
        found = self._starts.get(place)
        if found is None:
            if local == 0:
                return 0
            # Also where it had nothing: its first records may be older than the local start is now.
            self._ask(tp, place, 0, local)
            return local if self._nothing_below.get(place) == local else None
        if local and self._ctx.clock.monotonic_ms() >= self._start_until_ms[place]:
            self._ask(tp, place, 0, local)
        return min(found, local)

    def search(
        self, tp: TopicPartition, hosted: HostedPartition, timestamp_ms: int
    ) -> SearchPort | None:
        """The search for the first record that is not older, in archive and log."""
        local, end = hosted.log.timestamp_search(timestamp_ms), hosted.log.log_start_offset
        if not end:
            return local
        question = TimeQuestion(tp.topic, hosted.topic_id, tp.partition, timestamp_ms, end)
        return ArchiveSearch(self._ask_time, question, local)

    def epoch_end(
        self, tp: TopicPartition, hosted: HostedPartition, epoch: int
    ) -> Callable[[], tuple[int, int] | None]:
        """See ArchivePort."""
        end = hosted.log.log_start_offset
        question = EpochQuestion(tp.topic, hosted.topic_id, tp.partition, epoch, end)
        return partial(self._ask_epoch, question)

    def _ask(self, tp: TopicPartition, place: Place, offset: int, end: int) -> None:
        now_ms = self._ctx.clock.monotonic_ms()
        key = place, offset
        if key in self._asked or now_ms < self._again_ms.get(place, now_ms):
            return
        self._asked.add(key)
        question = ArchiveQuestion(tp.topic, place[0], tp.partition, offset, end, CHUNK_BYTES)
        answered = partial(self._answered, tp, place, offset, end)
        self._ask_reader(question, now_ms + ASK_MS_MAX, answered)

    def _answered(
        self, tp: TopicPartition, place: Place, offset: int, end: int, answer: ArchiveAnswer
    ) -> None:
        self._asked.discard((place, offset))
        why = answer.error
        if not why:
            self._started(place, answer.start, end)
            is_below = answer.start == NOTHING or offset < answer.start
            if answer.next_offset > offset:
                until_ms = self._ctx.clock.monotonic_ms() + KEPT_MS
                chunk = Chunk(offset, answer.next_offset, memoryview(answer.data), until_ms)
                self._chunks.add(place, chunk)
            elif not is_below:
                why = f"the archive ends at {offset}, before the first record that brokers have"
        if why:
            # It may be another archive when it is back.
            self._starts.pop(place, None)
            self._nothing_below.pop(place, None)
            self._failed[place] = f"{tp}: {why}"
            self._again_ms[place] = self._ctx.clock.monotonic_ms() + PAUSE_MS
            self._ctx.ports.tell(
                "archive not read", gravity=Gravity.WARNING, partition=str(tp), reason=why
            )
        self._ctx.parked.wake(tp, self._ctx.clock.monotonic_ms())

    def _started(self, place: Place, start: int, end: int) -> None:
        """Note the first archived offset, or that there is none below `end`."""
        if start == NOTHING:
            self._starts.pop(place, None)
            self._nothing_below[place] = end
        else:
            self._starts[place] = start
            self._start_until_ms[place] = self._ctx.clock.monotonic_ms() + START_MS
            self._nothing_below.pop(place, None)

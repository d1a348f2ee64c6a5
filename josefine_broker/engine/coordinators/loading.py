"""The loading of a coordinator partition by its new leader: the whole partition, in small steps, so
that other requests are served in between.

Rules: the loaded state counts once it is on every in-sync replica: what a client has seen must not
be lost with the next leader. A partition that cannot be read is read again from its start, forever:
skipping a record would forget a promise to a client.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.records.batch import BatchHeader, iter_batches
from josefine_broker.records.reader import read_records

STEP_BYTES = 64 * 1024
"""Bytes per step: a few milliseconds in which nothing else is served."""
PAUSE_MS = 1
RETRY_MS = 1_000
RECORD_BYTES_MAX = 16 * 1024 * 1024

Key = TypeVar("Key")
Value = TypeVar("Value")


class Reader(Protocol):
    """The reader of a partition for its coordinator. Mutable."""

    def begin(self) -> None:
        """Start with an empty state: the partition is read from its start."""
        ...

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        """Read the next batch. Raises CorruptData."""
        ...

    def finish(self) -> None:
        """The partition is read and committed: hand over the state."""
        ...


class LastRecords(Generic[Key, Value]):
    """The `Reader` of a partition in which the last record of each key counts.

    A record whose key is decoded to None is passed over.
    """

    def __init__(
        self,
        decode_key: Callable[[bytes], Key | None],
        decode_value: Callable[[bytes], Value],
        hand_over: Callable[[dict[Key, Value]], None],
    ) -> None:
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._hand_over = hand_over
        self._found: dict[Key, Value] = {}

    def begin(self) -> None:
        self._found = {}

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            return
        for record in read_records(batch, bytes_max=RECORD_BYTES_MAX):
            key = None if record.key is None else self._decode_key(record.key)
            if key is None:
                continue
            if record.value is None:
                self._found.pop(key, None)
            else:
                self._found[key] = self._decode_value(record.value)

    def finish(self) -> None:
        self._hand_over(self._found)


class Loading(Parked):
    """The loading of one partition. It is parked between two steps and continues at its deadline;
    after the last step it waits for the high watermark."""

    __slots__ = ("_ctx", "_end", "_hosted", "_offset", "_reader", "_tp", "trouble")

    outlives_client = True

    def __init__(
        self, ctx: Context, tp: TopicPartition, hosted: HostedPartition, reader: Reader
    ) -> None:
        super().__init__(0)
        self._ctx = ctx
        self._tp = tp
        self._hosted = hosted
        self._reader = reader
        self.trouble = ""
        """Why the last attempt to read failed; empty otherwise."""
        self._begin()

    def _begin(self) -> None:
        """From the start of the log: what an interrupted read has collected may be half a batch."""
        self._offset = self._hosted.log.log_start_offset
        self._end = self._hosted.log.log_end_offset
        self._reader.begin()

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        """The high watermark may have reached the end of what was read."""
        if not self._is_committed:
            return False
        self._reader.finish()
        return True

    def expire(self, now_ms: int) -> None:
        """The pause between two steps is over."""
        self.read_on()

    @property
    def _is_committed(self) -> bool:
        return self._hosted.partition.high_watermark >= self._end

    def read_on(self) -> None:
        """Read one step; after the last one, finish as soon as all is committed."""
        try:
            is_read = self._step()
        except (CorruptData, KafkaError) as error:
            self.trouble = str(error)
            self._begin()
            self._go_on_in(RETRY_MS)
            return
        if not is_read:
            self._go_on_in(PAUSE_MS)
        elif self._is_committed:
            self._reader.finish()
        else:
            self._go_on_in(RETRY_MS, self._tp)

    def _go_on_in(self, ms: int, *news: TopicPartition) -> None:
        """Park until then, or until there is news of these partitions."""
        self.deadline_ms = self._ctx.clock.monotonic_ms() + ms
        self._ctx.parked.park(self, partitions=news)

    def _step(self) -> bool:
        """Whether the partition is read. Raises CorruptData and KafkaError."""
        if self._offset >= self._end:
            return True
        buffers = self._hosted.log.read(self._offset, STEP_BYTES, end_offset=self._end)
        for buffer in buffers:
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                self._reader.take(header, data[pos : pos + header.size_bytes])
                self._offset = header.end_offset
        # No bytes below the end: the rest was compacted away.
        return not buffers or self._offset >= self._end


def read_anew(ctx: Context, loading: dict[tuple[str, int], Parked]) -> None:
    """To be called when the image is applied: start the loads that are not waiting yet."""
    for each in list(loading.values()):
        if each not in ctx.parked:
            assert isinstance(each, Loading)
            each.read_on()

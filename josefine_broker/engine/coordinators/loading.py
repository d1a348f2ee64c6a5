"""A coordinator's partition is read by its new leader, all of it, a step at a time, so that others
are served meanwhile.

Rules: what was read counts when it is on every in-sync replica: what a client saw must not be gone
with the next leader. What cannot be read is tried again from the beginning, for ever: to pass a
record over would forget what somebody was promised.
"""

from typing import Protocol

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.records.batch import BatchHeader, iter_batches

STEP_BYTES = 64 * 1024
"""Read at a time: a few milliseconds in which nobody else is served."""
PAUSE_MS = 1
RETRY_MS = 1_000


class Reader(Protocol):
    """Makes of a partition what its coordinator needs. Mutable."""

    def begin(self) -> None:
        """Nothing was read yet, or all of it is read anew."""
        ...

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        """The next batch. Raises CorruptData."""
        ...

    def finish(self) -> None:
        """That was all, and it is committed."""
        ...


class Loading(Parked):
    """Reads one partition: parked between two steps, it goes on at its deadline; at the end until
    its high watermark is there too."""

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
        """Why it could not be read when that was last tried."""
        self._begin()

    def _begin(self) -> None:
        self._offset = self._hosted.log.log_start_offset
        self._end = self._hosted.log.log_end_offset
        self._reader.begin()

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if not self._is_committed:
            return False
        self._reader.finish()
        return True

    def expire(self, now_ms: int) -> None:
        self.read_on()

    @property
    def _is_committed(self) -> bool:
        return self._hosted.partition.high_watermark >= self._end

    def read_on(self) -> None:
        """One step; the coordinator has it all behind the last, once it is committed."""
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
        self.deadline_ms = self._ctx.clock.monotonic_ms() + ms
        self._ctx.parked.park(self, partitions=news)

    def _step(self) -> bool:
        """Whether that was all. Raises CorruptData and KafkaError."""
        if self._offset >= self._end:
            return True
        buffers = self._hosted.log.read(self._offset, STEP_BYTES, end_offset=self._end)
        for buffer in buffers:
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                self._reader.take(header, data[pos : pos + header.size_bytes])
                self._offset = header.end_offset
        return not buffers or self._offset >= self._end


def read_anew(ctx: Context, loading: dict[tuple[str, int], Parked]) -> None:
    """All is as the image says: begin with those that wait for nothing yet."""
    for each in list(loading.values()):
        if each not in ctx.parked:
            assert isinstance(each, Loading)
            each.read_on()

"""The reader of one task: one offset range of one partition, from the socket into Arrow record
batches.

Rules: one background thread prefetches, at most two responses wait; a fetch is not larger than the
estimated rest of the range; no record outside [start, end) is returned; no progress within the poll
timeout is an error; a lost range is an error or, with failOnDataLoss=false, a logged loss.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from josefine_arrow.batches.aborted_transactions import AbortedTransaction
from josefine_arrow.batches.decoder import decoder_class
from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient, FetchedPartition
from josefine_broker.records.batch import MAGIC
from josefine_spark.base.errors import ReadError
from josefine_spark.options.connections import client_for, drop_client
from josefine_spark.options.options import (
    BelowLocalStart,
    JsonColumn,
    ReadOptions,
    UnreadableBatches,
)
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.archive_files import ArchivedClient, archive_of, batches_of
from josefine_spark.read.data_loss import Loss, Reason, data_loss_error
from josefine_spark.read.local_start import EARLIEST_LOCAL
from josefine_spark.read.one_by_one import OneByOne
from josefine_spark.read.unreadable_rows import with_mark

if TYPE_CHECKING:
    from josefine_spark.read.json_rows import JsonRows

log = logging.getLogger("josefine.spark")

AHEAD_MAX = 2
"""Fetched responses that may wait to be decoded: one hides the network latency, two its jitter."""

FIRST_BYTES_MIN = 256 * 1024
RECORD_BYTES_GUESS = 1024
"""Assumed size for the first fetch of a range, before any record of it is known."""

MISSING = {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
"""The topic does not exist: the client returns this only after a wait for new metadata."""

MAGIC_AT = 16
"""Position of the magic byte, in a record batch and in the older message formats."""

WAIT_S = 0.1
"""How often a waiting thread checks whether it was stopped."""

PASSING = {
    ErrorCode.network_exception,
    ErrorCode.request_timed_out,
    ErrorCode.leader_not_available,
    ErrorCode.not_leader_or_follower,
    ErrorCode.kafka_storage_error,
    ErrorCode.coordinator_not_available,
}
"""Transient errors, such as those of a broker's restart: retried until the poll timeout."""


class ArchivedRows(NamedTuple):
    """An answer of an archive in place of a broker's: an Arrow table with the archive's columns."""

    rows: Any


def read_range(options: ReadOptions, wanted: OffsetRange) -> Iterator[Any]:
    """Yield pyarrow RecordBatches with the records of `wanted`, in offset order."""
    tp = wanted.partition
    decoder = decoder_class()(
        tp.topic,
        tp.partition,
        include_headers=options.include_headers,
        check_crcs=options.check_crcs,
        columns=options.columns,
        rows=options.rows,
    )
    marks = options.unreadable_batches is UnreadableBatches.AS_ROW
    objects = None if options.json is None else _objects(options.json)
    # The thread fetches while this one decodes: each hides the other's time.
    ahead = _FetchAhead(options, wanted, decoder)
    one_by_one = OneByOne(decoder, wanted, options, ahead.losses)
    finished = False

    def decoded(offset: int, fetched: FetchedPartition | ArchivedRows) -> Iterable[Any]:
        if isinstance(fetched, ArchivedRows):
            return batches_of(fetched.rows, options)
        aborted = _aborted(fetched) if options.read_committed else ()
        try:
            one_by_one.check_ends(fetched.records, offset)
            return decoder.decode(fetched.records, offset, wanted.end, aborted).batches
        except (CorruptData, KafkaError) as error:
            return one_by_one.decode(fetched.records, offset, aborted, error)

    try:
        for offset, fetched in ahead:
            for batch in decoded(offset, fetched):
                marked = with_mark(batch) if marks else batch
                yield from (marked,) if objects is None else objects.beside(marked)
        _record(options, wanted, ahead.losses)
        finished = True
    finally:
        # Also on GeneratorExit: LIMIT ends a task in the middle of its range.
        ahead.stop()
        if not finished:
            drop_client(options.connection)


def _objects(asked: JsonColumn) -> JsonRows:
    from josefine_arrow.formats.json.options import JsonOptions
    from josefine_spark.read.json_rows import JsonRows
    from josefine_spark.read.json_schema import parse_schema

    how = JsonOptions(time_zone=asked.time_zone, strict=asked.strict, accept=asked.accept)
    return JsonRows(parse_schema(asked.schema), how)


def _record(options: ReadOptions, wanted: OffsetRange, losses: list[Loss]) -> None:
    """Record the losses at the end of the task, so that a failed attempt leaves no rows."""
    if losses and options.loss_table is not None:
        from josefine_spark.read.loss_table import LostRange, check_writable, record

        check_writable()
        topic, partition = wanted.partition
        ranges = [
            LostRange(topic, wanted.topic_id, partition, one.start, one.end) for one in losses
        ]
        record(options.loss_table, ranges, time.time_ns() // 1_000_000)


class _FetchAhead:
    """A background thread with a bounded queue. Iterate for (first offset, response)."""

    def __init__(self, options: ReadOptions, wanted: OffsetRange, decoder: Any) -> None:
        self._options = options
        self._wanted = wanted
        self._decoder = decoder
        self.losses: list[Loss] = []
        """The skipped ranges; complete once the iteration has ended."""
        self._stopped = threading.Event()
        self._queue: queue.Queue[Any] = queue.Queue(AHEAD_MAX)
        self._thread = threading.Thread(target=self._run, name=f"fetch {wanted}", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[tuple[int, FetchedPartition | ArchivedRows]]:
        while True:
            item = self._queue.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=WAIT_S)
        if self._thread.is_alive():
            # It waits in a long poll: closing the connection ends that.
            drop_client(self._options.connection)
            self._thread.join()

    def _run(self) -> None:
        last: Any = None
        try:
            reader = _RangeReader(
                self._options, self._wanted, self._decoder, self._stopped, self.losses
            )
            for item in reader.fetch_all():
                if not self._put(item):
                    return
        except BaseException as error:  # raised again in the task's own thread
            last = error
        self._put(last)

    def _put(self, item: Any) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=WAIT_S)
            except queue.Full:
                continue
            return True
        return False


class _RangeReader:
    """Fetches a range response by response: decides what to request next and when to give up."""

    def __init__(
        self,
        options: ReadOptions,
        wanted: OffsetRange,
        decoder: Any,
        stopped: threading.Event,
        losses: list[Loss],
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._decoder = decoder
        self._stopped = stopped
        self._losses = losses
        self._offset = wanted.start
        self._record_bytes = float(RECORD_BYTES_GUESS)
        self._progress_ms = _now_ms()

    def fetch_all(self) -> Iterator[tuple[int, FetchedPartition | ArchivedRows]]:
        self._check_topic()
        yield from self._archived()
        while self._offset < self._wanted.end and not self._stopped.is_set():
            fetched = self._fetch()
            if fetched is None:
                # A broker without an archive reader has a passing error for what it has no longer.
                yield from self._archived()
                continue
            if fetched.error_code is ErrorCode.offset_out_of_range:
                # Retention may have moved the local start since the archive was read up to it.
                before = self._offset
                yield from self._archived()
                if self._offset == before:
                    self._skip_lost()
                continue
            self._refuse_old_format(fetched.records)
            # A response may start before the offset and may end with a partial batch: progress is
            # the end of its last complete batch.
            offset, end = self._offset, self._decoder.end_offset(fetched.records)
            if end <= offset:
                if not self._wait_on(fetched):
                    return
                continue
            self._record_bytes = len(fetched.records) / (end - offset)
            self._offset = end
            self._progress_ms = _now_ms()
            yield offset, fetched

    def _archived(self) -> Iterator[tuple[int, ArchivedRows]]:
        """The rows below the local log start, from the archive's files. None where it has none:
        then the broker's answer is what counts. Raises ReadError."""
        tp = self._wanted.partition
        while not self._stopped.is_set():
            try:
                found = self._archived_rows()
            except KafkaError as error:
                if error.code not in PASSING or self._waited_too_long():
                    raise ReadError(
                        f"cannot read {tp} from offset {self._offset} in its archive: {error}"
                    ) from error
                self._stopped.wait(WAIT_S)
                continue
            if found is None:
                return
            offset, (rows, self._offset) = self._offset, found
            self._progress_ms = _now_ms()
            yield offset, ArchivedRows(rows)

    def _archive(self) -> Any | None:
        if self._options.archive is not BelowLocalStart.AUTO:
            return None
        topic, topic_id = self._wanted.partition.topic, self._wanted.topic_id
        return archive_of(self._options.connection, topic, topic_id)

    def _archived_rows(self) -> tuple[Any, int] | None:
        """(some rows, the end of their offsets); None at the local log start, at the range's end
        and where the archive has nothing. Raises KafkaError."""
        tp = self._wanted.partition
        archive = self._archive()
        if archive is None or self._offset >= self._wanted.end:
            return None
        local = self._client().list_offsets({tp: EARLIEST_LOCAL})[tp].offset
        if self._offset >= local:
            return None
        rows, end = archive.rows(tp.partition, self._offset, min(self._wanted.end, local))
        return (rows, end) if end > self._offset else None

    def _client(self) -> BlockingClient:
        return client_for(self._options.connection)

    def _check_topic(self) -> None:
        """Compare the topic id: in a new topic of the same name the offsets mean other records."""
        if self._wanted.topic_id:
            topic = self._wanted.partition.topic
            self._is_lost_with_its_topic(self._client().metadata([topic]).topic_id(topic))

    def _is_lost_with_its_topic(self, now: UUID | None) -> bool:
        if not self._wanted.topic_id or now is None or str(now) == self._wanted.topic_id:
            return False
        self._lose(self._offset, self._wanted.end, Reason.RECREATED)
        self._offset = self._wanted.end
        return True

    def _fetch(self) -> FetchedPartition | None:
        """One response; None after a transient error."""
        tp = self._wanted.partition
        size = self._bytes_wanted()
        try:
            answers = self._client().fetch(
                {tp: self._offset},
                bytes_max=size,
                partition_bytes_max=size,
                max_wait_ms=self._options.fetch_wait_ms,
                isolation_level=1 if self._options.read_committed else 0,
                rack_id=self._options.rack,
            )
        except KafkaError as error:
            if error.code in MISSING:
                self._lose(self._offset, self._wanted.end, Reason.GONE)
                self._offset = self._wanted.end
                return None
            if error.code not in PASSING or self._waited_too_long():
                raise ReadError(f"cannot read {tp} from offset {self._offset}: {error}") from error
            self._stopped.wait(WAIT_S)
            return None
        if self._is_lost_with_its_topic(self._client().known_topic_id(tp.topic)):
            return None  # the client has found the new topic and read from it
        return answers.get(tp)

    def _refuse_old_format(self, records: memoryview) -> None:
        """Raises ReadError for an old message format, whose lengths and offsets are elsewhere."""
        if len(records) > MAGIC_AT and records[MAGIC_AT] < MAGIC:
            raise ReadError(
                f"{self._wanted.partition} at offset {self._offset}: the records are in message "
                f"format {records[MAGIC_AT]} (before Kafka 0.11), which is not supported; write "
                "them again with a newer producer, or start after them"
            )

    def _bytes_wanted(self) -> int:
        left = (self._wanted.end - self._offset) * self._record_bytes * 1.1
        return int(min(max(left, FIRST_BYTES_MIN), self._options.fetch_bytes))

    def _waited_too_long(self) -> bool:
        return _now_ms() - self._progress_ms > self._options.poll_timeout_ms

    def _wait_on(self, fetched: FetchedPartition) -> bool:
        """After an empty response: True to fetch again, False to end early; raises ReadError after
        the poll timeout."""
        if not self._waited_too_long():
            return True
        tp, end = self._wanted.partition, self._wanted.end
        log_end = fetched.high_watermark
        if 0 <= log_end < end:
            self._lose(max(self._offset, log_end), end, Reason.TRUNCATED)
            return False
        raise ReadError(
            f"no record of {tp} in [{self._offset}, {end}) within "
            f"{self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs)"
        )

    def _skip_lost(self) -> None:
        """The offset is outside the log: continue at the log's start, or end the range."""
        tp = self._wanted.partition
        if self._archive() is None:
            earliest = self._client().list_offsets({tp: EARLIEST})[tp].offset
        else:
            archived = ArchivedClient(self._options.connection)
            earliest = archived.list_offsets({tp: EARLIEST})[tp].offset
            if earliest <= self._offset:
                # A hole: the archive ends before the first record that brokers have.
                earliest = self._client().list_offsets({tp: EARLIEST_LOCAL})[tp].offset
        if earliest > self._offset:
            resume = min(earliest, self._wanted.end)
            self._lose(self._offset, resume, Reason.RETENTION)
            self._offset = resume
            return
        latest = self._client().list_offsets({tp: LATEST})[tp].offset
        if latest < self._offset:
            self._lose(self._offset, self._wanted.end, Reason.TRUNCATED)
            self._offset = self._wanted.end

    def _lose(self, start: int, end: int, reason: Reason) -> None:
        loss = Loss(partition=self._wanted.partition, start=start, end=end, reason=reason)
        if self._options.fail_on_data_loss:
            raise data_loss_error([loss])
        self._losses.append(loss)
        log.warning("records are lost: %s", loss)


def _aborted(fetched: FetchedPartition) -> list[AbortedTransaction]:
    return [AbortedTransaction(one.producer_id, one.first_offset) for one in fetched.aborted]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

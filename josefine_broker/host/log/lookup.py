"""Lookup of records by timestamp, outside the thread that owns the log.

Rules: at its start a search takes from the log what it needs: the segments, their end, and their
indexes. It opens the files itself and changes nothing. So the log may be rolled, truncated or
deleted meanwhile: the search finds the old data, or fails, and the caller checks that the log is
still the same one. A batch is decoded piece by piece, and within `LOOKUP_BYTES_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, ExpandsTooFarError, KafkaError
from josefine_broker.base.ports import Files
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.index import SegmentSummary, SparseIndex, load_index
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment
from josefine_broker.records.batch import LOG_APPEND_TIME, NO_TIMESTAMP_MS, BatchHeader
from josefine_broker.records.times import record_times

STEPS_PER_BREATH = 1_000
"""Records or batches examined between two breaths: about a millisecond."""

LOOKUP_BYTES_MAX = 64 * 1024 * 1024
"""Limit of one batch's records, decompressed by the broker to find a timestamp: 64 times Kafka's
default for the largest batch, a quarter of a second of a worker's time. A larger batch is
refused."""


class FoundRecord(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Span(NamedTuple):
    """A segment at the start of the search; `entries` None: its index is in its files."""

    segment: Segment
    """Used only for what never changes, and for whether it was replaced."""
    summary: SegmentSummary
    entries: SparseIndex | None


@dataclass(slots=True)
class TimestampSearch:
    """The first record by offset, at or past `offset_min`, whose timestamp is at least
    `timestamp_ms`; None: the first one with the largest timestamp (KIP-734). Run once, on any
    thread."""

    files: Files
    spans: Sequence[Span]
    offset_min: int
    timestamp_ms: int | None
    _breathe: Callable[[], None] = lambda: None
    _steps: int = 0

    def run(self, breathe: Callable[[], None]) -> FoundRecord | None:
        """`breathe` is called periodically, lets other threads run, and may raise KafkaError.

        Raises KafkaError: message_too_large for a batch that would expand past the limit, because a
        retry cannot help (corrupt_message and kafka_storage_error invite a retry).
        """
        self._breathe = breathe
        try:
            if self.timestamp_ms is None:
                return self._newest()
            return self._first(self.spans, self.timestamp_ms)
        except ExpandsTooFarError as error:
            raise KafkaError(
                ErrorCode.message_too_large, f"timestamps not read: {error}"
            ) from error
        except CorruptData as error:
            raise KafkaError(ErrorCode.corrupt_message, str(error)) from error
        except OSError as error:
            reason = f"timestamps not read: {error}"
            raise KafkaError(ErrorCode.kafka_storage_error, reason) from error

    def _first(self, spans: Sequence[Span], timestamp_ms: int) -> FoundRecord | None:
        for span in spans:
            if span.summary.max_timestamp_ms < timestamp_ms:
                continue
            for header, batch in self._batches(span, timestamp_ms):
                if header.max_timestamp_ms < timestamp_ms or header.last_offset < self.offset_min:
                    continue
                if not header.record_count:
                    continue
                found = self._first_in(header, batch, timestamp_ms)
                if found is not None:
                    return found
        return None

    def _first_in(
        self, header: BatchHeader, batch: memoryview, timestamp_ms: int
    ) -> FoundRecord | None:
        epoch = header.leader_epoch
        # Every record has the batch's time, or the records are unreadable though the checksum is
        # right: then the batch's own bounds are still a true answer, because no earlier record is
        # that new.
        whole = FoundRecord(
            max(header.base_offset, self.offset_min), header.max_timestamp_ms, epoch
        )
        if header.timestamp_type == LOG_APPEND_TIME:
            return whole
        try:
            for offset, record_ms in self._times(batch):
                if record_ms >= timestamp_ms and offset >= self.offset_min:
                    return FoundRecord(offset, record_ms, epoch)
        except ExpandsTooFarError:
            raise
        except CorruptData:
            return whole
        return None

    def _newest(self) -> FoundRecord | None:
        best: FoundRecord | None = None
        for span in self.spans:
            if best is None or span.summary.max_timestamp_ms > best.timestamp_ms:
                found = self._newest_of(span)
                if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                    best = found
        return best

    def _newest_of(self, span: Span) -> FoundRecord | None:
        summary = span.summary
        if summary.max_timestamp_offset >= self.offset_min:
            return self._first([span], summary.max_timestamp_ms)
        # The log start is within this segment: deleted records must not count.
        newest_ms = NO_TIMESTAMP_MS
        for header, batch in self._batches(span, None):
            if not header.record_count:
                continue
            if header.base_offset >= self.offset_min:
                newest_ms = max(newest_ms, header.max_timestamp_ms)
            elif header.last_offset >= self.offset_min:
                newest_ms = max(newest_ms, self._newest_in(header, batch))
        return None if newest_ms < 0 else self._first([span], newest_ms)

    def _newest_in(self, header: BatchHeader, batch: memoryview) -> int:
        """Largest timestamp among the batch's records at or past `offset_min`."""
        if header.timestamp_type == LOG_APPEND_TIME:
            return header.max_timestamp_ms
        newest_ms = NO_TIMESTAMP_MS
        try:
            for offset, record_ms in self._times(batch):
                if offset >= self.offset_min:
                    newest_ms = max(newest_ms, record_ms)
        except ExpandsTooFarError:
            raise
        except CorruptData:
            return header.max_timestamp_ms
        return newest_ms

    def _batches(
        self, span: Span, timestamp_ms: int | None
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches from the first that may match."""
        index = span.entries
        if index is None:
            index = load_index(self.files, span.segment.stem, span.summary)
        position = 0
        if index is not None:  # a damaged index costs a scan from the segment's start
            position = index.position_of_offset(max(0, self.offset_min - span.summary.base_offset))
            if timestamp_ms is not None:
                position = max(position, index.position_of_timestamp(timestamp_ms))
        with closing(self.files.open(span.segment.stem + LOG_SUFFIX)) as file:
            if (
                span.segment.is_replaced
            ):  # checked after opening: before, the file may still have been the right one
                raise CorruptData(f"{span.segment.stem} was cleaned meanwhile")
            for _, header, batch in walk_batches(file, position, span.summary.log_bytes):
                self._step()
                yield header, batch

    def _times(self, batch: memoryview) -> Iterator[tuple[int, int]]:
        for each in record_times(batch, bytes_max=LOOKUP_BYTES_MAX):
            self._step()
            yield each

    def _step(self) -> None:
        self._steps += 1
        if self._steps % STEPS_PER_BREATH == 0:
            self._breathe()


def search(
    files: Files, segments: Sequence[Segment], log_start_offset: int, timestamp_ms: int | None
) -> TimestampSearch | None:
    """The search over a log's segments; None: no record is that new."""
    wanted_ms = 0 if timestamp_ms is None else timestamp_ms
    spans = [
        Span(each, each.summary(), each.index_in_memory)
        for each in segments
        if each.max_timestamp_ms >= wanted_ms and each.end_offset > log_start_offset
    ]
    return TimestampSearch(files, spans, log_start_offset, timestamp_ms) if spans else None

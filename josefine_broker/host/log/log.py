"""The log of one partition: segments in offset order, append-only, readable anywhere.

Rules:
- offsets only grow: over appends, rolls, restarts and the deletion of everything;
- an append is complete or did not happen: after a failed write, or a failed sync of its own, the
  log ends where it did before, for readers too;
- with `flush_messages=1` an append counts once a group sync (`group_sync.py`) covers it; without a
  group, or at a larger number, it returns after its own sync; otherwise it is in the page cache;
- slow disk work (sync and index of a full segment, timed flushes, unlinking) goes to `schedule`;
- a failed sync or a half-done truncation stops writes to the log until it is reopened and verified
  (`host/log/log_sync.py`).

One thread owns a log. A scheduled job touches sealed segments only, holds the flush lock, and
checks first that the log still has the segment it was scheduled for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from struct import Struct

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job, run_now
from josefine_broker.host.log.damage import LogDamage
from josefine_broker.host.log.damaged_start import recover_for_repair
from josefine_broker.host.log.expired import expired
from josefine_broker.host.log.log_cleaning import LogCleaning
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.log_sync import PASSING, LogSync, storage_error
from josefine_broker.host.log.lookup import TimestampSearch, search
from josefine_broker.host.log.plain_append import append_copies, append_plain
from josefine_broker.host.log.recovery import RecoveryReport
from josefine_broker.host.log.replay import replay
from josefine_broker.host.log.segment import Segment, stem_of
from josefine_broker.host.log.segments import SegmentList
from josefine_broker.host.log.verify import VerifyReport, verify_segments
from josefine_broker.records.batch import LENGTH_OVERHEAD_BYTES, BatchHeader, OnBatch, end_if_empty
from josefine_broker.records.crc import Buffer
from josefine_broker.records.plain_produce import PlainRequest

_STAMP = Struct(">qii")


class PartitionLog:
    """See the module. Created by `open`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: list[Segment],
        report: RecoveryReport,
        state: LogState,
        schedule: Callable[[Job], None],
    ) -> None:
        self.directory = directory
        self.config = config
        self.recovery_report = report
        self.state = state
        self.snapshot_source: Callable[[], bytes] | None = None
        """Returns the producers' state at a roll, before the batch that causes the roll."""
        self._files, self._schedule = files, schedule
        self._segments = SegmentList(segments)
        self._log_start_offset = report.log_start_offset
        durable_end = 0 if report.line else report.log_end_offset
        self._sync = LogSync(files, directory, state, self._segments, durable_end)
        self.damage = LogDamage(files, self._segments, self._sync)
        self.cleaning = LogCleaning(files, state, self._sync, self._segments, schedule)

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        now_ms: int,
        clean_shutdown: bool,
        *,
        on_snapshot: Callable[[bytes], None] | None = None,
        on_batch: OnBatch | None = None,
        settle: Callable[[], None] | None = None,
        schedule: Callable[[Job], None] = run_now,
        is_damaged: bool = False,
        is_verified: bool = False,
        keeps_tail: bool = False,
    ) -> PartitionLog:
        """Open or create the log in `directory`, with recovery if needed. `settle`: see LogState.
        `is_damaged`: after a refusal, open it for repair (`damaged_start.py`). `keeps_tail`: see
        `recovery.py`. `on_snapshot` then gets the newest producer snapshot, if there is one, and
        `on_batch` each later batch, with `is_verified` never a damaged one. Raises CorruptData,
        OSError."""
        files.make_directory(directory)
        state = LogState(files, directory, settle)
        found = files, directory, config, state, clean_shutdown, now_ms
        segments, report, suspects = recover_for_repair(
            *found, is_damaged=is_damaged, keeps_tail=keeps_tail
        )
        log = cls(files, directory, config, segments, report, state, schedule)
        log.damage.note_all(suspects)
        if config.flush_messages is not None and report.segments_scanned:
            # Data of a killed process may be only in the page cache: readers must see durable data.
            log._sync.sync(segments[-1], report.log_end_offset)
        log.state.remove_snapshots_past(log.log_end_offset)
        if on_batch is not None:
            where = segments, state, config if is_damaged or is_verified else None
            replay(*where, on_snapshot, on_batch, log.damage.passed_over if is_damaged else None)
        segments[-1].close()  # thousands of logs may be opened and few used at a time
        return log

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._segments[-1].end_offset

    @property
    def durable_end_offset(self) -> int:
        """The end of the records that count: the durable end where durability is required."""
        return self._sync.durable_end if self.config.flush_messages == 1 else self.log_end_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def failure(self) -> str:
        """Why this log is no longer written; empty while it works."""
        return self._sync.failure

    @property
    def unsynced(self) -> str:
        return self._sync.unsynced

    @property
    def awaits_snapshots(self) -> bool:
        """Whether a producer snapshot was made that is not stored yet."""
        return self.state.snapshots_stored != self.state.snapshots_asked

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def append(self, batch: Buffer, header: BatchHeader, now_ms: int) -> int:
        """Write one verified and stamped batch at the end; returns its base offset. Offset and
        epoch are read from the stamped bytes: `header` may be older than the stamping. Raises
        KafkaError(kafka_storage_error); then the log is unchanged."""
        sync = self._sync
        if sync.failure:
            raise storage_error(sync.failure)
        base_offset: int
        base_offset, length, leader_epoch = _STAMP.unpack_from(batch)
        active = self._segments[-1]
        assert base_offset >= active.end_offset, f"{base_offset} is below {active.end_offset}"
        assert length + LENGTH_OVERHEAD_BYTES == len(batch), "not exactly one batch"
        assert leader_epoch >= active.last_leader_epoch, f"leader epoch {leader_epoch} is old"
        config = self.config
        if active.size_bytes and active.is_full(config, base_offset, header, now_ms):
            active = self._roll(now_ms)
        # Accounted for only after the sync: readers must not reach a refused batch.
        is_synced = sync.is_due_within(config, header.record_count)
        try:
            active.file().write_at_end((batch,))
            if is_synced:
                sync.sync(active, base_offset + header.last_offset_delta + 1)
        except OSError as error:
            sync.cut_back(active, error)
            raise sync.refused("append", error, now_ms) from error
        active.appended(
            batch, base_offset, leader_epoch, header, config.index_interval_bytes, now_ms
        )
        if is_synced:
            sync.flushed()
        else:
            sync.appended(config, header.record_count, now_ms)
        return base_offset

    def append_plain(
        self, requests: list[PlainRequest], size: int, leader_epoch: LeaderEpoch, now_ms: int,
        written: Callable[[int], None] | None = None,
    ) -> tuple[int, Buffer] | None:  # fmt: skip
        """See `LogPort`."""
        where = self._segments[-1], self._sync, self.config
        return append_plain(*where, requests, size, leader_epoch, now_ms, written)

    def append_copies(self, data: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> bool:
        """See `LogPort`."""
        where = self._segments[-1], self._sync, self.config
        return append_copies(*where, data, headers, now_ms)

    def roll(self) -> None:
        """Start a new segment at the log end; does nothing when the last one is empty."""
        if self._segments[-1].size_bytes:
            self._roll()

    def seal_later(self) -> None:
        """Schedule the sync of full segments again: a full disk may have ended the last one."""
        self._schedule(self._sync.seal)

    def roll_if_older(self, age_ms: int, now_ms: int) -> None:
        """Like `roll`, if the last segment was started that long ago. Raises KafkaError."""
        if now_ms - self._segments[-1].first_append_ms >= age_ms:
            self.roll()

    def _roll(self, now_ms: int | None = None) -> Segment:
        self._sync.check()
        old = self._segments[-1]
        end_offset = old.end_offset
        try:
            new = Segment.create(self._files, self.directory, end_offset)
        except OSError as error:
            raise self._sync.refused("roll", error, now_ms) from error
        new.last_leader_epoch = old.last_leader_epoch
        self._sync.rolled(old)  # first: a sync on another thread must not miss the full segment
        self._segments.add(new)
        self._segments.keep_warm(old, self._sync.sealing)
        self._schedule(self._sync.seal)
        if self.snapshot_source is not None and not self.damage.lacks_batches:
            payload = self.snapshot_source()
            self.state.snapshots_asked += 1
            self._schedule(lambda: self._store_snapshot(new, payload))
        return new

    def _store_snapshot(self, rolled: Segment, payload: bytes) -> None:
        """Scheduled: store the producers' state at the start of `rolled`, to shorten replays; not
        when the log was cut below it: other producers' batches may get these offsets."""
        try:
            with self._sync.lock:
                if not self._sync.failure and rolled in self._segments:
                    self.state.store_kept_epochs()
                    self.state.store_snapshot(rolled.base_offset, payload)
        finally:
            self.state.snapshots_stored += 1

    def flush(self) -> None:
        """Make every appended batch durable. Raises KafkaError(kafka_storage_error)."""
        if not self._segments[-1].is_made:
            return
        try:
            self._sync.sync(self._segments[-1], self.log_end_offset)
        except OSError as error:
            raise storage_error(self._sync.failure or str(error)) from error
        self._sync.flushed()

    def flush_if_due(self, now_ms: int) -> bool:
        """Schedule a flush when `flush_ms` has passed since the first unflushed batch."""
        return self._sync.flush_if_due(self.config, now_ms, self._schedule)

    def group_syncs(self, want: Callable[[LogSync], None]) -> None:
        """From now on `want` is called for the sync of appends that count once they are durable."""
        self._sync.request = want

    def configure(self, config: LogConfig) -> None:
        """Apply a new configuration."""
        self.config = config
        self._sync.want_rest(config)

    def read(
        self,
        offset: int,
        bytes_max: int,
        *,
        end_offset: int | None = None,
        at_least_one: bool = True,
    ) -> list[memoryview]:
        """Complete batches from the one that contains `offset`, entirely below `end_offset`, of
        `bytes_max` bytes or less; a single larger one when `at_least_one`; none at the end. Raises
        KafkaError(offset_out_of_range | corrupt_message | kafka_storage_error)."""
        log_end = self._segments[-1].end_offset
        if not self._log_start_offset <= offset <= log_end:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"offset {offset} is not within {self._log_start_offset} to {log_end}",
            )
        end = log_end if end_offset is None or end_offset > log_end else end_offset
        if offset >= end:
            return []
        found: list[memoryview] = []
        for segment in self._segments[self._segments.place_of(offset) :]:
            while offset < segment.end_offset:
                data = self.damage.read(segment, offset, bytes_max, end, at_least_one, self.config)
                if data is None:
                    return found
                found.append(data)
                # Batches that the cleaner emptied are not returned alone while more batches follow:
                # some clients would ask for the same offset for ever.
                offset = end_if_empty(data)
                if offset < 0:
                    return found
                bytes_max -= len(data)
        return found

    def timestamp_search(self, timestamp_ms: int | None) -> TimestampSearch | None:
        """A search for the first record at or past `timestamp_ms`, run outside this log's thread;
        None for the newest one. Returns None if there is no such record."""
        return search(self._files, self._segments, self._log_start_offset, timestamp_ms)

    def delete_before(self, offset: int) -> None:
        """Move the log start up to `offset`, durably; segments entirely below it are removed.

        The caller has checked `offset` against the high watermark.
        """
        assert offset <= self.log_end_offset, f"{offset} is past the end {self.log_end_offset}"
        if offset <= self._log_start_offset:
            return
        try:
            self.state.store_log_start_offset(offset)
        except OSError as error:
            raise storage_error(f"{self.directory}: log start not stored: {error}") from error
        self._log_start_offset = offset
        self._remove_below_start()

    def _remove_below_start(self) -> None:
        segments = self._segments
        while len(segments) > 1 and segments[0].end_offset <= self._log_start_offset:
            removed = segments.remove_at(0)
            self.damage.forget(removed.base_offset)
            self._schedule(partial(self._unlink, removed))

    def _unlink(self, segment: Segment) -> None:
        """Scheduled. The name may be reused by then: by a restarted log, or by another topic."""
        with self._sync.lock:
            if not self._sync.failure and segment.base_offset not in self._segments.base_offsets:
                segment.delete()
            else:
                segment.close()

    def apply_retention(self, now_ms: int, end_offset_max: int) -> int:
        """Remove segments that `partition/retention.py` declares expired, none at or past
        `end_offset_max` (the high watermark); returns their number."""
        count = expired(self._segments, self.config, now_ms, self._log_start_offset, end_offset_max)
        if count == 0:
            return 0
        end_offset = self._segments[count - 1].end_offset
        if count == len(self._segments):
            self._roll()
        try:
            self.delete_before(end_offset)
        except KafkaError:
            self._remove_oldest()
            self.delete_before(end_offset)
        self._remove_below_start()
        return count

    def held_bytes(self, now_ms: int, end_offset_max: int) -> int:
        """The bytes of the segments that retention would remove with this bound."""
        count = expired(self._segments, self.config, now_ms, self._log_start_offset, end_offset_max)
        return sum(segment.size_bytes for segment in self._segments[:count])

    def _remove_oldest(self) -> None:
        """A full disk cannot even store a new log start: remove the oldest segment to free space.

        Raises KafkaError(kafka_storage_error).
        """
        try:
            self.state.settle()
            with self._sync.lock:
                self.state.synced.begin_at(self._segments[1].base_offset)
                self._drop(0)
            self._files.sync_directory(self.directory)
        except OSError as error:
            raise storage_error(f"{self.directory}: no segment could be removed") from error
        self._log_start_offset = max(self._log_start_offset, self._segments[0].base_offset)

    def truncate_to(self, end_offset: int) -> None:
        """Cut the log so that it ends at `end_offset`, or before a batch that contains it.

        At or below the log start the log is emptied and both its offsets become `end_offset`. Used
        by replicas that follow another leader. Raises KafkaError(kafka_storage_error).
        """
        if end_offset >= self.log_end_offset:
            return
        if end_offset <= self._log_start_offset:
            self.restart_at(end_offset)
            return
        first_cut = self._segments[self._segments.place_of(end_offset - 1)]
        with self._cutting("truncation failed", first_cut.base_offset):
            while self._segments[-1].base_offset >= end_offset:
                self._drop(-1)
            last = self._segments[-1]
            try:
                last.truncate_to(end_offset, self.config.index_interval_bytes)
                self.damage.forget(last.base_offset)  # all that is left of it was verified
            except CorruptData as error:
                last = self.damage.end_at(last, end_offset, error)
            last.file().sync()
            self._files.sync_directory(self.directory)
            self._forget(last)
            self._sync.was_synced(last)
            self.state.remove_snapshots_past(last.end_offset)
        self._sync.want_rest(self.config)
        if self.log_end_offset < self._log_start_offset:
            self.restart_at(end_offset)

    def restart_at(self, offset: int) -> None:
        """Empty the log; its start and end become `offset`. Raises KafkaError.

        On a full disk the next append creates the missing files.
        """
        with self._cutting("restart failed", min(offset, self._log_start_offset)):
            self._sync.began_anew(offset)
            for segment in reversed(self._segments):
                self.damage.forget(segment.base_offset)
                segment.delete()
            begin = partial(self._begin_at, offset)
            first = Segment.create_later(self._files, self.directory, begin, offset)
            self._segments.begin_anew(first)  # under the lock: a sync must not see the old segments
        self._log_start_offset = offset
        try:
            first.file()
        except OSError as error:
            if error.errno not in PASSING:
                self._sync.fail("restart failed", error)
                raise storage_error(self._sync.failure) from error

    def _begin_at(self, offset: int) -> None:
        """Prepare the first segment of a restarted log. Raises OSError."""
        self.state.store_log_start_offset(offset)
        self.state.remove_snapshots_past(-1)  # they lack the batches in between
        Segment(self._files, stem_of(self.directory, offset), offset).delete()  # a leftover file

    @contextmanager
    def _cutting(self, what: str, at: int) -> Iterator[None]:
        """Files from offset `at` are removed, and no flusher job runs. Half done, the log fails."""
        self._sync.check()
        with self._sync.lock:
            try:
                self._sync.find_handles()
                self.state.synced.lower_to(at)
                self.cleaning.cut_to(at)
                self._sync.cut_to(at)
            except OSError as error:  # nothing is cut yet: the caller may retry
                raise storage_error(f"{self.directory}: {what}: {error}") from error
            try:
                yield
            except OSError as error:
                self._sync.fail(what, error)
                raise storage_error(self._sync.failure) from error

    def _drop(self, at: int) -> None:
        """Remove a segment and its files. The flush lock is held."""
        segment = self._segments.remove_at(at)
        self.damage.forget(segment.base_offset)
        self._forget(segment)
        segment.delete()

    def _forget(self, segment: Segment) -> None:
        """Neither seal nor cool this segment."""
        self._segments.forget(segment)
        if segment in self._sync.sealing:
            self._sync.sealing.remove(segment)

    def replay(self, on_snapshot: Callable[[bytes], None] | None, on_batch: OnBatch) -> bool:
        """See `LogPort`."""
        damage, where = self.damage, (self._segments, self.state, self.config)
        damage.lacks_batches = False
        replay(*where, on_snapshot, on_batch, damage.passed_over)
        return not damage.lacks_batches

    def verify(self) -> VerifyReport:
        """Read every byte and verify all checksums."""
        return verify_segments(self._files, self._segments, self.config)

    def close(self, snapshot: bytes | None = None) -> None:
        """Sync, store indexes and the producers' `snapshot`: the next open scans nothing. Raises
        OSError; the log is closed in any case."""
        try:
            # An empty log has nothing to store: 1,000 new partitions stop as fast as one.
            if not self._sync.failure and self.log_end_offset > 0:
                self.state.settle()
                self.state.store_kept_epochs()
                if snapshot is not None and not self.damage.lacks_batches:
                    self.state.store_snapshot(self.log_end_offset, snapshot)
                for segment in [*self._sync.sealing, self._segments[-1]]:
                    segment.seal()
                self.state.synced.raise_to(self.log_end_offset)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close every file as it is: for a log that is about to be deleted."""
        with self._sync.lock:
            self._sync.end()
            self._sync.sealing.clear()
            for segment in self._segments:
                segment.close()
        self.state.abandon()

    def abandon_soon(self) -> None:
        """As `abandon`, at the end of a syncer's sync that runs; nothing waits for it. Only where
        the directory goes, too: until then the descriptors stay open."""
        self._sync.end()
        self._sync.lock.when_free(self.abandon)

"""The durability of one log, and the handling of a failed sync.

Rules: segments are synced in order, the directory before them. `flush.messages=1` syncs all appends
of a turn together, on another thread (`group_sync.py`), which needs no Python if the active file is
all that must be synced; a larger number, or a log without a group, syncs within the append;
`flush.ms` and full segments are synced on the flusher's thread.
`durable_end` moves only under the lock, together with the sync or cut that moves it. A failed sync
is remembered for good: after it the kernel may have dropped dirty pages and marked them clean, so
no later sync proves anything (fsyncgate, 2018). No waiter is notified of a sync that did not
happen.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError, StorageLimitError
from josefine_broker.base.ports import File, Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.disk.synced_mark import Entry
from josefine_broker.host.disk.syncer import Syncer
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.segment import Segment
from josefine_broker.host.log.sync_lock import SyncLock

NO_HANDLE = (errno.EMFILE, errno.ENFILE)
"""No file could be opened: not by this process, or not on this machine."""
PASSING = (errno.ENOSPC, errno.EDQUOT, *NO_HANDLE, errno.ENOMEM)
"""Reasons for a failure that may pass: nothing was lost by it."""

REFUSALS_MAX, REFUSED_MS = 3, 3_000
"""A log that refused so many appends in so long a time, and took none between, has failed."""

storage_error = partial(KafkaError, ErrorCode.kafka_storage_error)


class _Owed:
    """A scheduled sync that failed for a reason that may pass."""

    __slots__ = ("is_due", "reason")

    def __init__(self) -> None:
        self.is_due = False
        """It is to be tried again."""
        self.reason = ""
        """Of the last attempt; empty since one succeeded."""


class _FileSync(NamedTuple):
    """A running sync of the active segment's file alone."""

    file: File
    descriptor: int
    end_offset: int
    entry: Entry
    """Of the mark; written if the sync succeeds."""


class LogSync:
    """The part of one log that is not durable yet. The only mutable state shared with the
    flusher."""

    __slots__ = (
        "_directory", "_directory_dirty", "_files", "_owed", "_refusals", "_segments",
        "_state", "_unflushed", "durable_end", "failure", "is_wanted", "lock",
        "request", "sealing",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        directory: str,
        state: LogState,
        segments: Sequence[Segment],
        durable_end: int,
    ) -> None:
        """`segments` are the log's; everything before `durable_end` was found synced."""
        self._files = files
        self._directory = directory
        self._state = state
        self._segments = segments
        self._directory_dirty = True
        self._unflushed = 0, 0
        """How many messages are not durable, and when the first of them was appended."""
        self._owed = _Owed()
        self._refusals: tuple[int, int] | None = None
        """How many appends failed since the last that did not, and when the first of them did."""
        # From here on: what the flusher's thread reads or changes, too.
        self.lock = SyncLock()
        """Held while segment files are synced, cut or closed."""
        self.sealing: list[Segment] = []
        """Full segments that are not synced yet, oldest first."""
        self.failure = ""
        """Why the log is no longer written; empty while it works."""
        self.durable_end = durable_end
        """Everything before it is synced. Written under the lock, read on any thread."""
        self.request: Callable[[LogSync], None] | None = None
        """Asks for a group sync of this log; None: it has no group, and its appends sync
        themselves."""
        self.is_wanted = False
        """A sync was asked for and has not started."""

    @property
    def unsynced(self) -> str:
        """Why the last sync could not be made, if that may pass; read on any thread."""
        return self._owed.reason

    def is_grouped(self, config: LogConfig) -> bool:
        """Whether appends return before they are durable, and count once they are."""
        return config.flush_messages == 1 and self.request is not None

    def want(self) -> None:
        """Ask for a group sync, once until it starts."""
        if not self.is_wanted and self.request is not None:
            self.is_wanted = True
            self.request(self)

    def want_rest(self, config: LogConfig) -> None:
        """Ask for a sync if appends still need one and no other append may come to ask."""
        if self.is_grouped(config) and self.durable_end < self._segments[-1].end_offset:
            self.want()

    def begin_group_sync(self) -> Job:
        """The job that syncs appends made until it runs; the next append asks again."""
        self.is_wanted = False
        return partial(self.sync_later, is_noted=False)

    def begin_file_sync(self, syncer: Syncer, done: Job) -> bool:
        """The same sync by `syncer`, which calls `done` after it; False: it takes more than one
        file's sync, so only `begin_group_sync` can do it. On the log's own thread."""
        if not self.lock.take():
            return False
        sync = self._file_sync()
        if sync is None:
            self.lock.free()
            return False
        self.is_wanted = False
        ended = partial(self._end_file_sync, sync)
        number = syncer.submit(sync.descriptor, sync.entry, ended, done)
        self.lock.wait = partial(syncer.wait, number)
        return True

    def _file_sync(self) -> _FileSync | None:
        """Hold the files for it; None: something else must be done first. The lock is held."""
        active = self._segments[-1]
        is_more = self._directory_dirty or self.sealing or self.failure or not active.is_made
        if is_more or self.durable_end >= active.end_offset:
            return None
        entry = self._state.synced.begin(active.end_offset)
        if entry is None:
            return None
        try:
            file = active.file()
            return _FileSync(file, file.begin_sync(), active.end_offset, entry)
        except OSError:  # the other way meets it again, and reports it
            self._state.synced.end(entry, is_written=False)
            return None

    def _end_file_sync(self, sync: _FileSync, error: int, elapsed_ns: int, has_entry: bool) -> None:
        """The syncer is done. Raises its OSError, after which the log has failed."""
        try:
            self._state.synced.end(sync.entry, is_written=has_entry)
            sync.file.end_sync(sync.descriptor, error, elapsed_ns)
            self.durable_end = max(self.durable_end, sync.end_offset)
            self._owed.reason = ""
        except OSError as problem:
            self.fail("sync failed", problem)
            raise
        finally:
            self.lock.free()

    def note_group_sync(self) -> None:
        """Store the synced range. Separate from the sync, because it is no part of the promise:
        each system call on a thread waits for a busy event loop's lock."""
        with self.lock:
            if not self.failure:
                self._state.synced.raise_to(self.durable_end)

    def check(self) -> None:
        """Raises KafkaError(kafka_storage_error) once the log has failed."""
        if self.failure:
            raise storage_error(self.failure)

    def fail(self, what: str, error: OSError) -> None:
        """Refuse all writes until the log is reopened and verified."""
        self.failure = self.failure or f"{self._directory}: {what}: {error}"

    def end(self) -> None:
        """The log is being closed: refuse all writes and syncs."""
        self.failure = self.failure or f"{self._directory}: closed"

    def cut_back(self, active: Segment, problem: OSError) -> None:
        """Remove the remains of a failed append; if that fails too, no append may follow."""
        if not active.is_made:
            if problem.errno not in PASSING:
                self.fail("the log could not be created", problem)
            return
        is_open = False
        try:
            file = active.file()
            is_open = True
            file.truncate(active.size_bytes)
        except OSError as error:
            # A file that could not be opened was not written to either.
            if is_open or error.errno not in NO_HANDLE:
                self.fail("the remains of a failed append could not be removed", error)

    def refused(self, what: str, error: OSError, now_ms: int | None) -> KafkaError:
        """The error of an append (`what` failed) that left the log as it was. Where
        appends fail again and again, the log has failed: its broker then leads nothing, and
        another replica may. `now_ms` is None for a roll that no append asked for."""
        if now_ms is not None and error.errno not in PASSING:
            count, since_ms = self._refusals or (0, now_ms)
            self._refusals = count + 1, since_ms
            # The wall clock may jump: the time alone does not decide.
            if count + 1 >= REFUSALS_MAX and abs(now_ms - since_ms) >= REFUSED_MS:
                self.fail(f"{count + 1} appends failed, the last one", error)
        message = f"{self._directory}: {what} failed: {error}"
        if error.errno in PASSING:
            return StorageLimitError(ErrorCode.kafka_storage_error, message)
        return storage_error(message)

    def rolled(self, full: Segment) -> None:
        """A new segment follows this full one."""
        self._directory_dirty = True
        self.sealing.append(full)

    def find_handles(self) -> None:
        """Raises OSError while no file can be opened: a cut would stop half done."""
        if self._segments[-1].is_made:
            self._segments[-1].file().read_at(0, 1)
        self._files.list(self._directory)

    def cut_to(self, end_offset: int) -> None:
        """The log is about to be cut at `end_offset`: later records will not be durable. The lock
        is held."""
        self.durable_end = min(self.durable_end, end_offset)

    def began_anew(self, offset: int) -> None:
        """All segments are gone, and there is a new one at `offset`. The lock is held."""
        self._directory_dirty = True
        self.durable_end = offset
        self.sealing.clear()

    def appended(self, config: LogConfig, messages: int, now_ms: int) -> None:
        """Count messages that are in the log and not durable."""
        self._refusals = None
        if config.flush_messages == 1 and self.request is not None:
            self.want()
            return
        count, first_ms = self._unflushed
        self._unflushed = count + messages, first_ms if count else now_ms

    def flushed(self) -> None:
        """All of the log is durable. On the log's own thread, which appends to it."""
        self._refusals = None
        self._unflushed = 0, 0

    def is_due_within(self, config: LogConfig, messages: int) -> bool:
        """Whether an append of this many messages must sync before it returns."""
        if config.flush_messages is None or self.is_grouped(config):
            return False
        return self.is_due_with(config, messages)

    def is_due_with(self, config: LogConfig, messages: int) -> bool:
        """Whether `flush.messages` requires a sync of these with the messages not yet durable."""
        return config.flush_messages is not None and (
            self._unflushed[0] + messages >= config.flush_messages
        )

    def flush_if_due(self, config: LogConfig, now_ms: int, schedule: Callable[[Job], None]) -> bool:
        """Do or schedule the sync that `flush.messages` or `flush.ms` requires now; was one due?"""
        due = self._is_due(config, now_ms)
        if due and self.is_grouped(config):
            self.want()  # its waiters must be notified
        elif due:
            schedule(self.sync_later)
        return due

    def _is_due(self, config: LogConfig, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` requires a sync now. It then counts as made."""
        if self._owed.is_due:
            self._owed.is_due = False
            return True
        count, first_ms = self._unflushed
        if count == 0:
            return False
        is_late = config.flush_ms is not None and now_ms - first_ms >= config.flush_ms
        if not is_late and not self.is_due_with(config, 0):
            return False
        self._unflushed = 0, 0
        return True

    def sync(self, active: Segment, end_offset: int) -> None:
        """Make everything written so far durable, up to `end_offset`. Raises OSError, also when the
        log had failed."""
        with self.lock:
            if self.failure:
                raise OSError(errno.EIO, self.failure)
            self._sync_all(active, end_offset)

    def sync_later(self, *, is_noted: bool = True) -> None:
        """Scheduled; `is_noted`: with `note_group_sync`. If the log failed meanwhile, its next
        append reports it."""
        with self.lock:
            active = self._segments[-1]  # under the lock: a cut may remove the previous one
            if self.failure or not active.is_made:
                return
            if self.durable_end >= active.end_offset and not self._directory_dirty:
                return  # the previous sync covered these appends
            try:  # later appends count for the next sync
                self._sync_all(active, active.end_offset, is_noted=is_noted)
            except OSError as error:
                owed, reason = self._owed, f"{self._directory}: sync failed: {error}"
                owed.is_due, owed.reason = not self.failure, "" if self.failure else reason
                raise

    def _sync_all(self, active: Segment, end_offset: int, *, is_noted: bool = True) -> None:
        self._sync_directory()
        self._sync_files([*self.sealing, active])
        self.durable_end, self._owed.reason = max(self.durable_end, end_offset), ""
        if is_noted:
            self._state.synced.raise_to(end_offset)

    def was_synced(self, last: Segment) -> None:
        """The last segment was synced by other means, under the lock."""
        if not self.sealing and self._state.is_settled:
            self.durable_end = last.end_offset
            self._state.synced.raise_to(last.end_offset)

    def _sync_directory(self) -> None:
        if not self._directory_dirty:
            return
        self._directory_dirty = False  # first: a roll may set it again meanwhile
        try:
            with self._failing_for_good():
                self._state.settle()
                self._files.sync_directory(self._directory)
        except OSError:
            self._directory_dirty = True
            raise

    def _sync_files(self, segments: list[Segment]) -> None:
        for segment in segments:
            with self._failing_for_good():
                file = segment.file()
            try:
                file.sync()
            except OSError as error:
                # Even when full: the pages of a failed sync are lost. Without a handle the file was
                # not opened again, so nothing was synced.
                if error.errno not in NO_HANDLE:
                    self.fail("sync failed", error)
                raise

    @contextmanager
    def _failing_for_good(self) -> Iterator[None]:
        """Fail the log for good, except for errors that may pass."""
        try:
            yield
        except OSError as error:
            if error.errno not in PASSING:
                self.fail("sync failed", error)
            raise

    def seal(self) -> None:
        """Sync full segments, oldest first, and store their indexes. Raises OSError.

        After a full disk the next roll or `close` tries again.
        """
        with self.lock:
            while self.sealing and not self.failure:
                segment = self.sealing[0]
                with self._failing_for_good():
                    self._state.settle()
                self._sync_files([segment])
                segment.store_index()
                self.sealing.pop(0)
                self._state.synced.raise_to(segment.end_offset)

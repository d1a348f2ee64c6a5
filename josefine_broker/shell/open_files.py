"""Files that are open for as long as they are used, and how many of them have a descriptor.

Rules: of the files opened by the thread that made the set at most `open_max` have a descriptor; one
that has none gets it back at its next use, by its path, and only if that still is the same file.
Who goes is found by the clock algorithm: first the ones not used since the hand last passed.
A file with writes that were never synced is not closed: Linux tells a failed write-back once, to
the descriptors open at that time, and to later ones only while it remembers the inode. It is synced
by `schedule` first (a quarter of the set may wait for that), or here where that falls behind; when
it fails the file refuses further writes and syncs, as after any failed sync (fsyncgate, 2018).

One thread owns the set, evicts, reads and writes; so a read or write needs no lock, and costs one
look whether there is a descriptor. Other threads may `sync`; what they open is theirs to close.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Lock, get_ident

from josefine_broker.records.crc import Buffer

_IOV_MAX = 1024
"""Linux's UIO_MAXIOV: more buffers in one call is EINVAL."""

_NONE = -1
"""Instead of a descriptor: closed by the set, or failed."""

Schedule = Callable[[Callable[[], None]], None]


class RealFile:
    """One file; its size is kept here, for this process is the only writer."""

    __slots__ = (
        "_among", "_failure", "_fd", "_inode", "_is_closed", "_path", "_size", "_syncs",
        "is_dirty", "is_used",
    )  # fmt: skip

    def __init__(self, path: str, flags: int, among: OpenFiles) -> None:
        self._path = path
        self._among = among
        self.is_dirty = False
        """Written since the last sync began."""
        self.is_used = True
        """Read or written since the clock's hand last passed."""
        self._is_closed = False
        self._failure: OSError | None = None
        """Of the first sync that failed."""
        self._syncs = 0
        """Under way, on any thread; they and the descriptor are guarded by the set's lock."""
        self._fd = fd = among.open(self, path, flags | os.O_RDWR | os.O_CLOEXEC)
        stat = os.fstat(fd)
        self._size, self._inode = stat.st_size, stat.st_ino

    def write_at_end(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers; on OSError the file may hold a part of them past the old size."""
        fd = self._fd
        if fd < 0:
            fd = self._again()
        position = self._size
        if len(buffers) == 1:
            written = os.pwrite(fd, buffers[0], position)
            wanted = len(buffers[0])
        else:
            written = os.pwritev(fd, buffers[:_IOV_MAX], position)
            wanted = sum(map(len, buffers))
        if written < wanted:
            _write_rest(fd, buffers, written, position)
        self._size = position + wanted
        self.is_dirty = self.is_used = True
        return position

    def read_at(self, position: int, size: int) -> bytes:
        fd = self._fd
        if fd < 0:
            fd = self._again(for_reading=True)
        self.is_used = True
        data = os.pread(fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing and data:
            data = os.pread(fd, missing, position + size - missing)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        fd = self._fd
        if fd < 0:
            self._check_writable()
            if size == self._size:
                return  # what failed was to get a descriptor: nothing is to be cut
            fd = self._again()
        self.is_dirty = self.is_used = True
        os.ftruncate(fd, size)
        self._size = size

    def sync(self) -> None:
        """Make every byte written so far durable; on any thread. After a failure no later one
        succeeds."""
        with self._among.lock:
            self._check_writable()
            fd = self._fd
            if fd < 0:
                return  # the set took it, for there was nothing to sync
            self._syncs += 1
            self.is_dirty = False
        try:
            os.fdatasync(fd)
        except OSError as error:
            self._failure = error
            raise
        finally:
            with self._among.lock:
                self._syncs -= 1
                self._among.lock.notify_all()
                if self._is_closed and not self._syncs:
                    os.close(fd)

    def close(self) -> None:
        """A sync under way on another thread closes it in the end."""
        with self._among.lock:
            self._among.forget(self)
            fd, self._fd = self._fd, _NONE
            if fd >= 0 and not self._syncs:
                os.close(fd)
            self._is_closed = True

    def evict(self) -> bool:
        """For the set, which holds its lock: give the descriptor back, unless it is needed."""
        if self._syncs or self._fd < 0 or (self.is_dirty and self._failure is None):
            return False
        os.close(self._fd)
        self._fd = _NONE
        return True

    @property
    def is_syncing(self) -> bool:
        return self._syncs > 0

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def _again(self, *, for_reading: bool = False) -> int:
        """A descriptor for a file that has none. Raises OSError."""
        if for_reading:
            self._check_open()
        else:
            self._check_writable()
        fd = self._among.open(self, self._path, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(fd).st_ino != self._inode:
            with self._among.lock:
                self._among.forget(self)
            os.close(fd)
            raise OSError(errno.ESTALE, f"{self._path} is another file than the one written")
        self._fd = fd
        return fd

    def _check_writable(self) -> None:
        self._check_open()
        if self._failure is not None:
            reason = f"an earlier sync of {self._path} failed: {self._failure.strerror}"
            raise OSError(self._failure.errno, reason) from self._failure

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, f"{self._path} was closed")


def _write_rest(fd: int, buffers: Sequence[Buffer], skip: int, position: int) -> None:
    """Finish a write that stopped after `skip` bytes (near a full disk, or above 2 GiB)."""
    for buffer in buffers:
        if skip >= len(buffer):
            skip -= len(buffer)
            position += len(buffer)
            continue
        rest = memoryview(buffer)[skip:]
        position += skip
        skip = 0
        while rest:
            written = os.pwrite(fd, rest, position)
            position += written
            rest = rest[written:]


class OpenFiles:
    """The bounded set. See the module."""

    def __init__(self, open_max: int | None, schedule: Schedule) -> None:
        """`open_max` None: no bound."""
        self.lock = Condition(Lock())
        """Guards which file has which descriptor; held for no slow system call, told of syncs that
        are over."""
        self._schedule = schedule
        self._owner = get_ident()
        self._cleaning_max = 0 if open_max is None else open_max // 4
        self._ring_max = None if open_max is None else max(1, open_max - self._cleaning_max)
        self._ring: dict[RealFile, None] = {}
        """In the order of the clock's hand."""
        self._cleaning: dict[RealFile, None] = {}
        self._cleaned: deque[RealFile] = deque()
        """Those of `_cleaning` whose sync is over."""

    def __len__(self) -> int:
        return len(self._ring) + len(self._cleaning)

    def open(self, file: RealFile, path: str, flags: int) -> int:
        """A descriptor, with room made for it before. Raises OSError."""
        if get_ident() != self._owner or self._ring_max is None:
            return os.open(path, flags, 0o644)
        self._reap()
        for _ in range(len(self._ring) + 1 - self._ring_max):
            self._make_room()
        fd = os.open(path, flags, 0o644)
        with self.lock:
            self._ring[file] = None
        return fd

    def forget(self, file: RealFile) -> None:
        """The lock is held."""
        self._ring.pop(file, None)
        self._cleaning.pop(file, None)

    def _make_room(self) -> None:
        """One file less in the ring, or one that is to be synced first."""
        with self.lock:
            victim = self._next_victim()
            if victim is None:
                return
            waits_for_sync = victim in self._cleaning
        if waits_for_sync:
            self._schedule(lambda: self._clean(victim))
            return
        _try_sync(victim)  # nothing but unsynced files, and the scheduler is behind
        with self.lock:
            self.lock.wait_for(lambda: not victim.is_syncing)
            victim.evict()

    def _next_victim(self) -> RealFile | None:
        """The file to be synced, now or, when it is in `_cleaning`, soon; None: one was closed."""
        ring = self._ring
        for _ in range(2 * len(ring)):
            file = next(iter(ring))
            del ring[file]
            if not file.is_used:
                if file.evict():
                    return None
                if file.is_dirty and len(self._cleaning) < self._cleaning_max:
                    self._cleaning[file] = None
                    return file
            file.is_used = False
            ring[file] = None
        if not ring:
            return None
        file = next(iter(ring))
        del ring[file]
        return file

    def _clean(self, file: RealFile) -> None:
        """Scheduled."""
        _try_sync(file)
        self._cleaned.append(file)

    def _reap(self) -> None:
        """Close those that were synced meanwhile, but for the ones in use again."""
        while self._cleaned:
            file = self._cleaned.popleft()
            with self.lock:
                if file not in self._cleaning:
                    continue
                del self._cleaning[file]
                if (file.is_used and not file.has_failed) or not file.evict():
                    self._ring[file] = None


def _try_sync(file: RealFile) -> None:
    """The file remembers a failure, and tells it at the next write or sync."""
    with suppress(OSError):
        file.sync()

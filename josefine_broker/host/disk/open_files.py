"""Files that stay open while they are used, with a bound on those that have a descriptor.

Rules: of the files opened by the thread that created the set at most `open_max` have a descriptor.
A file without one is reopened by path at its next use, if the path still leads to the same file.
The clock algorithm selects the file to evict: one that was not used since the hand last passed, and
among the next few preferably one without unsynced writes. A file with unsynced writes is not synced
first: thousands of logs written in turn would make the event loop wait for as many syncs (17 s,
measured). It is reopened for its sync; since Linux 4.17 the kernel reports a write-back error that
no one has seen yet to the next open of the file, as long as it keeps the inode. After a failed sync
a file refuses every further sync, and every write once it has lost its descriptor (fsyncgate,
2018).

One thread owns the set, evicts, reads and writes; so reads and writes need no lock and cost one
check for a descriptor. Other threads may call `sync`; they close the descriptors they open. A
descriptor that is held for a thread without Python (`sync_pipes.py`) is closed after its release.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from threading import Lock, get_ident
from time import perf_counter_ns

from josefine_broker.host.latencies import Latencies
from josefine_broker.records.crc import Buffer

_IOV_MAX = 1024
"""Linux's UIO_MAXIOV: more buffers in one call is EINVAL."""

LOOKED_AT_MAX = 32
"""Files not used recently that are searched for one without unsynced writes."""

_NONE = -1
"""In place of a descriptor: the set closed it, or a sync failed."""


class RealFile:
    """One file; its size is cached here, because this process is the only writer."""

    __slots__ = (
        "_among", "_failure", "_fd", "_inode", "_is_closed", "_path", "_size", "_syncs",
        "is_dirty", "is_used",
    )  # fmt: skip

    def __init__(self, path: str, flags: int, among: OpenFiles) -> None:
        self._path = path
        self._among = among
        self.is_dirty = False
        """Written to since the last sync started."""
        self.is_used = True
        """Read or written since the clock hand last passed."""
        self._is_closed = False
        self._failure: OSError | None = None
        """The error of the first failed sync."""
        self._syncs = 0
        """Running syncs and holders of the descriptor; guarded by the set's lock."""
        among.make_room()
        self._fd = fd = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, 0o644)
        among.enter(self)
        stat = os.fstat(fd)
        self._size, self._inode = stat.st_size, stat.st_ino

    def write_at_end(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers; after an OSError a part of them may be past the old size."""
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
                return  # only reopening failed: there is nothing to cut
            fd = self._again()
        self.is_dirty = self.is_used = True
        os.ftruncate(fd, size)
        self._size = size

    def sync(self) -> None:
        """Make every byte written so far durable; on any thread, but one at a time. After a failure
        every later call fails."""
        with self._among.lock:
            self._check_writable()
            fd = self._fd
            is_ours = fd < 0
            if is_ours:
                if not self.is_dirty:
                    return
                fd = self._open_same()
            else:
                self._syncs += 1
            self.is_dirty = False
        began_ns = perf_counter_ns()
        try:
            os.fdatasync(fd)
        except OSError as error:
            self._failure = error
            raise
        finally:
            with self._among.lock:
                self._among.syncs.record(perf_counter_ns() - began_ns)
                if is_ours:
                    os.close(fd)
                else:
                    self._leave(fd)

    def hold(self) -> int:
        """See `File`. On the set's own thread."""
        fd = self._fd
        if fd < 0:
            fd = self._again()
        self.is_used = True
        with self._among.lock:
            self._syncs += 1
        return fd

    def release(self, descriptor: int) -> None:
        with self._among.lock:
            self._leave(descriptor)

    def _leave(self, fd: int) -> None:
        self._syncs -= 1
        if self._is_closed and not self._syncs:
            os.close(fd)

    def begin_sync(self) -> int:
        """See `File`. On the set's own thread."""
        self._check_writable()
        fd = self.hold()
        self.is_dirty = False
        return fd

    def end_sync(self, descriptor: int, error: int, elapsed_ns: int) -> None:
        with self._among.lock:
            self._among.syncs.record(elapsed_ns)
            self._leave(descriptor)
        if error:
            self._failure = OSError(error, os.strerror(error))
            raise self._failure

    def close(self) -> None:
        """If the descriptor is in use for a sync, the end of that sync closes it."""
        with self._among.lock:
            self._among.forget(self)
            fd, self._fd = self._fd, _NONE
            if fd >= 0 and not self._syncs:
                os.close(fd)
            self._is_closed = True

    def evict(self) -> bool:
        """For the set, which holds its lock: release the descriptor, unless it is needed."""
        if self._syncs or self._fd < 0:
            return False
        os.close(self._fd)
        self._fd = _NONE
        return True

    def _again(self, *, for_reading: bool = False) -> int:
        """Reopen a file without a descriptor. Raises OSError."""
        if for_reading:
            self._check_open()
        else:
            self._check_writable()
        self._among.make_room()
        self._fd = fd = self._open_same()
        self._among.enter(self)
        return fd

    def _open_same(self) -> int:
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(fd).st_ino != self._inode:
            os.close(fd)
            raise OSError(errno.ESTALE, f"{self._path} was replaced by another file")
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
    """The bounded set of open files. See the module."""

    def __init__(self, open_max: int | None) -> None:
        """`open_max` None: no bound."""
        self.lock = Lock()
        """Guards the descriptors and the clock hand."""
        self.syncs = Latencies()
        self._open_max = open_max
        self._owner = get_ident()
        self._ring: dict[RealFile, None] = {}
        """Files with a descriptor, in the order of the clock hand."""

    def __len__(self) -> int:
        return len(self._ring)

    def make_room(self) -> None:
        """Evict a file if the set is full."""
        if self._open_max is None or get_ident() != self._owner:
            return
        if len(self._ring) >= self._open_max:
            with self.lock:
                for _ in range(len(self._ring) + 1 - self._open_max):
                    self._evict_one()

    def enter(self, file: RealFile) -> None:
        """Add a file that has a descriptor now."""
        if get_ident() == self._owner:
            with self.lock:
                self._ring[file] = None

    def forget(self, file: RealFile) -> None:
        """Remove a file. The lock is held."""
        self._ring.pop(file, None)

    def _evict_one(self) -> None:
        ring = self._ring
        unused: list[RealFile] = []
        for _ in range(2 * len(ring)):
            file = next(iter(ring))
            if not file.is_used:
                if not file.is_dirty and file.evict():
                    del ring[file]
                    return
                unused.append(file)
                if len(unused) >= LOOKED_AT_MAX:
                    break
            file.is_used = False
            del ring[file]
            ring[file] = None
        for file in unused:
            if file.evict():  # otherwise another thread is syncing it
                ring.pop(file, None)
                return

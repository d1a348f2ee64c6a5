"""The file operations that the block file needs, and their in-memory implementation.

A crash of the in-memory files loses what was not synced, as a disk may: bytes past the last `sync`
of a file, and names since the last `sync_names`. The in-memory files can also crash before the n-th
operation, so that a test crashes between any two of them, be full from the n-th operation that
needs space, have no handle from the n-th one that needs one, and fail writes and syncs of chosen
files.
"""

import errno
from collections.abc import Callable
from typing import Protocol

__all__ = ["Crash", "File", "Files", "MemoryFiles"]

REASONS = {
    errno.ENOSPC: "No space left on device",
    errno.EDQUOT: "Disk quota exceeded",
    errno.EMFILE: "Too many open files",
    errno.ENFILE: "Too many open files in system",
}
"""The limits of a machine that the in-memory files can meet, in the words of Linux."""


class File(Protocol):
    """A file that only grows at its end. Each call raises OSError."""

    def append(self, data: bytes) -> None:
        """Write all of `data` at the end. After an error a part of it may have been written."""
        ...

    def sync(self) -> None:
        """Make every byte so far durable."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to its first `size` bytes; durable with the next `sync`."""
        ...

    def close(self) -> None:
        """Release the handle, without a sync."""
        ...


class Files(Protocol):
    """One flat directory that belongs to one node. Each call raises OSError."""

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        ...

    def read(self, name: str) -> bytes:
        """The whole content of a file that exists."""
        ...

    def open(self, name: str) -> File:
        """Open for appending; create it empty when missing."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; a file of that name is replaced."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file that exists."""
        ...

    def sync_names(self) -> None:
        """Make creations, renames and removals so far durable."""
        ...

    def close(self) -> None:
        """Release the directory; files stay open."""
        ...


class Crash(BaseException):
    """The simulated machine stopped here."""


class _MemoryFile:
    def __init__(self, files: "MemoryFiles", name: str) -> None:
        self._files = files
        self._name = name
        self.data = bytearray()
        self.synced = 0

    def append(self, data: bytes) -> None:
        self._files.operation()
        try:
            self._files.grow()
            self._files.check(self._name)
        except OSError:
            self.data += data[: len(data) // 2]
            raise
        self.data += data

    def sync(self) -> None:
        self._files.operation()
        self._files.check(self._name)
        self.synced = len(self.data)

    def truncate(self, size: int) -> None:
        self._files.operation()
        del self.data[size:]
        self.synced = min(self.synced, size)

    def close(self) -> None:
        self._files.operation()


class MemoryFiles:
    """`Files` without a disk. `crash` returns what a restarted machine would find."""

    def __init__(self) -> None:
        self._names: dict[str, _MemoryFile] = {}
        self._synced_names: dict[str, _MemoryFile] = {}
        self.operations = 0
        self.crash_at: int | None = None
        self.growths = 0
        self.full_at: int | None = None
        self.full_errno = errno.ENOSPC
        """EDQUOT: not the disk is full, but the quota."""
        self.handles = 0
        self.no_handle_at: int | None = None
        self.no_handle_errno = errno.EMFILE
        """ENFILE: the machine has none left, not this process."""
        self.fails: Callable[[str], bool] = lambda _: False
        """Does every write and sync of this file fail? The directory itself has the empty name."""

    def operation(self) -> None:
        """Count one operation; crash before the chosen one."""
        if self.operations == self.crash_at:
            raise Crash
        self.operations += 1

    def grow(self) -> None:
        """Count an operation that needs space; from the chosen one the disk is full."""
        if self.full_at is not None and self.growths >= self.full_at:
            raise OSError(self.full_errno, REASONS[self.full_errno])
        self.growths += 1

    def take_handle(self) -> None:
        """Count an operation that opens a file or the directory; from the chosen one none can."""
        if self.no_handle_at is not None and self.handles >= self.no_handle_at:
            raise OSError(self.no_handle_errno, REASONS[self.no_handle_errno])
        self.handles += 1

    def check(self, name: str) -> None:
        """Raise OSError if writing or syncing this file is set to fail."""
        if self.fails(name):
            raise OSError(errno.EIO, f"{name or 'the directory'} cannot be written")

    def names(self) -> list[str]:
        self.take_handle()
        return sorted(self._names)

    def read(self, name: str) -> bytes:
        self.take_handle()
        return bytes(self._names[name].data)

    def open(self, name: str) -> File:
        self.operation()
        self.take_handle()
        if name not in self._names:
            self.grow()
        return self._names.setdefault(name, _MemoryFile(self, name))

    def rename(self, old: str, new: str) -> None:
        self.operation()
        self._names[new] = self._names.pop(old)

    def remove(self, name: str) -> None:
        self.operation()
        del self._names[name]

    def sync_names(self) -> None:
        self.operation()
        self.take_handle()
        self.check("")
        self._synced_names = dict(self._names)

    def close(self) -> None:
        """Nothing to release."""

    def crash(
        self, kept: Callable[[str, int], int] | None = None, *, names_kept: bool = False
    ) -> "MemoryFiles":
        """The files after a power loss.

        `kept(name, unsynced_bytes)` returns how many unsynced bytes of a file survive (none by
        default); with `names_kept` unsynced creations, renames and removals survive.
        """
        after = MemoryFiles()
        for name, file in (self._names if names_kept else self._synced_names).items():
            unsynced = len(file.data) - file.synced
            size = file.synced + (kept(name, unsynced) if kept else 0)
            copy = _MemoryFile(after, name)
            copy.data = file.data[:size]
            copy.synced = size
            after._names[name] = copy
        after._synced_names = dict(after._names)
        return after

"""`Files` on a disk, one directory per block file. The only module of raft that touches a disk."""

import fcntl
import os
from pathlib import Path

from raft.files import File

__all__ = ["DiskFiles"]


class _DiskFile:
    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags, 0o644)

    def append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def sync(self) -> None:
        # fdatasync writes the new size too; macOS has only fsync.
        getattr(os, "fdatasync", os.fsync)(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        os.close(self._fd)


class DiskFiles:
    """A directory on a disk, locked against a second process. Raises OSError."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._lock_fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock_fd)
            raise BlockingIOError(error.errno, f"{directory} is used by another process") from error

    def names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def open(self, name: str) -> File:
        return _DiskFile(self._directory / name)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._directory / old, self._directory / new)

    def remove(self, name: str) -> None:
        os.unlink(self._directory / name)

    def sync_names(self) -> None:
        fd = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        os.close(self._lock_fd)

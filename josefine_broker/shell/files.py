"""Real files below one root directory: the `Files` port, and small checksummed files upon it.

Rules: an append is one `pwrite` of the caller's buffer (`pwritev` for several), never a copy; a
short write goes on where it stopped; a `rename` is durable when it returns, unless it need not be.
The simulated twin with power loss is `tests/simulation/memory_files.py`.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.records.crc import Buffer, crc32c

_IOV_MAX = 1024
"""Linux's UIO_MAXIOV: more buffers in one call is EINVAL."""

_CHECKED_MAGIC = b"JOSEFILE"
_CHECKED_HEAD = Struct("<8sHHII")
"""magic, kind, version, payload size, CRC32C of the payload."""


class RealFile:
    """One open file; its size is kept here, for this process is the only writer."""

    __slots__ = ("_fd", "_size")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size

    def write_at_end(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers; on OSError the file may hold a part of them past the old size."""
        position = self._size
        if len(buffers) == 1:
            written = os.pwrite(self._fd, buffers[0], position)
            wanted = len(buffers[0])
        else:
            written = os.pwritev(self._fd, buffers[:_IOV_MAX], position)
            wanted = sum(map(len, buffers))
        if written < wanted:
            self._write_rest(buffers, written, position)
        self._size = position + wanted
        return position

    def _write_rest(self, buffers: Sequence[Buffer], skip: int, position: int) -> None:
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
                written = os.pwrite(self._fd, rest, position)
                position += written
                rest = rest[written:]

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing and data:
            data = os.pread(self._fd, missing, position + size - missing)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class RealFiles:
    """File operations below `root`, which is created when missing."""

    def __init__(self, root: Path) -> None:
        self._root = Path(root)
        self._root.mkdir(parents=True, exist_ok=True)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open for reading and writing; `create` makes a missing file. Raises OSError."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(self._path(path), flags, 0o644))

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(directory)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_directory(self, directory: str) -> None:
        """No error when it is there; durable once its parent is synced."""
        path = self._path(directory)
        try:
            os.mkdir(path)
        except (FileExistsError, FileNotFoundError):
            os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str, *, durable: bool = True) -> None:
        os.replace(self._path(old), self._path(new))
        if durable:
            _sync_directory(os.path.dirname(self._path(new)))

    def remove(self, path: str) -> None:
        """No error when it is not there."""
        try:
            os.unlink(self._path(path))
        except FileNotFoundError:
            return

    def remove_tree(self, directory: str) -> None:
        shutil.rmtree(self._path(directory), ignore_errors=True)

    def sync_directory(self, directory: str) -> None:
        _sync_directory(self._path(directory))


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_checked(files: Files, path: str, kind: int, version: int, payload: bytes) -> None:
    """Replace a small file atomically and durably, with its kind, version and checksum."""
    temporary = f"{path}.tmp"
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        head = _CHECKED_HEAD.pack(_CHECKED_MAGIC, kind, version, len(payload), crc32c(payload))
        file.write_at_end((head, payload))
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)


def read_checked(files: Files, path: str, kind: int, version: int) -> bytes | None:
    """The payload that `write_checked` wrote; None when there is no file.

    Raises CorruptData when it is damaged, of another kind, or newer than this code knows.
    """
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    if len(data) < _CHECKED_HEAD.size:
        raise CorruptData(f"{path}: {len(data)} bytes are no checked file")
    magic, found_kind, found_version, size, crc = _CHECKED_HEAD.unpack_from(data)
    payload = data[_CHECKED_HEAD.size :]
    if magic != _CHECKED_MAGIC or found_kind != kind or size != len(payload):
        raise CorruptData(f"{path}: magic {magic!r}, kind {found_kind}, {size} bytes")
    if found_version != version:
        raise CorruptData(f"{path}: format version {found_version}, this code knows {version}")
    if crc32c(payload) != crc:
        raise CorruptData(f"{path}: its checksum does not match")
    return payload

"""Real files below one root directory: the `Files` port, and small checksummed files.

Rules: an append is one `pwrite` of the caller's buffer (`pwritev` for several), never a copy; a
short write continues where it stopped; a `rename` is durable when it returns, unless
`durable=False`; all files share a bounded set of descriptors (`open_files.py`). The simulated
counterpart with power loss is `tests/simulation/memory_files.py`.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.host.disk.open_files import OpenFiles, RealFile
from josefine_broker.records.crc import crc32c

_CHECKED_MAGIC = b"JOSEFILE"
_CHECKED_HEAD = Struct("<8sHHII")
"""magic, kind, version, payload size, CRC32C of the payload."""


class RealFiles:
    """File operations below `root`, which is created when missing."""

    def __init__(
        self,
        root: Path,
        *,
        open_max: int | None = None,
    ) -> None:
        """`open_max`: see OpenFiles."""
        self.open_files = OpenFiles(open_max)
        self._root = Path(root)
        self._root.mkdir(parents=True, exist_ok=True)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open for reading and writing; `create` makes a missing file. Raises OSError."""
        return RealFile(self._path(path), os.O_CREAT if create else 0, self.open_files)

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(directory)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_directory(self, directory: str) -> None:
        """An existing directory is no error; durable once its parent is synced."""
        path = self._path(directory)
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str, *, durable: bool = True) -> None:
        """Raises OSError. Without a file handle nothing is renamed: the caller may try again."""
        if not durable:
            os.replace(self._path(old), self._path(new))
            return
        fd = os.open(os.path.dirname(self._path(new)), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.replace(self._path(old), self._path(new))
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, path: str) -> None:
        """A missing file is no error."""
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
    """Replace a small file atomically and durably, with its kind, version and checksum.

    Raises OSError; then nothing of the new file is left, because a full disk has no room for it.
    """
    temporary = f"{path}.tmp"
    files.remove(temporary)
    try:
        file = files.open(temporary, create=True)
        try:
            head = _CHECKED_HEAD.pack(_CHECKED_MAGIC, kind, version, len(payload), crc32c(payload))
            file.write_at_end((head, payload))
            file.sync()
        finally:
            file.close()
        files.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            files.remove(temporary)
        raise


def read_checked(files: Files, path: str, kind: int, version: int) -> bytes | None:
    """The payload that `write_checked` wrote; None when the file is missing.

    Raises CorruptData when it is damaged, of another kind, or of a newer version.
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
        raise CorruptData(f"{path}: {len(data)} bytes, too short for a checked file")
    magic, found_kind, found_version, size, crc = _CHECKED_HEAD.unpack_from(data)
    payload = data[_CHECKED_HEAD.size :]
    if magic != _CHECKED_MAGIC or found_kind != kind or size != len(payload):
        raise CorruptData(f"{path}: magic {magic!r}, kind {found_kind}, {size} bytes")
    if found_version != version:
        raise CorruptData(f"{path}: format version {found_version}; this code reads {version}")
    if crc32c(payload) != crc:
        raise CorruptData(f"{path}: its checksum does not match")
    return payload

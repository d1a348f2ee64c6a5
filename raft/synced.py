"""The synced position of a block file, in a separate file: `synced.mark`.

The marks in a segment record the same, but they are right after the data they describe: one bad
sector destroys both, and lost acknowledged data would look like a write interrupted by a power
loss. A missing newest segment has no other evidence at all.

Rules: an entry is appended after each sync and not synced itself, so it costs no fsync. It survives
a killed process and usually a power loss. An older entry is still true, because synced data is
never cut. The last complete entry counts. An unreadable mark counts as none.
"""

import struct
import zlib
from typing import NamedTuple

from raft.errors import CorruptStore
from raft.files import File, Files

__all__ = ["NOTHING_KNOWN", "SYNCED_FILE", "WAY_OUT", "Synced", "SyncedMark"]

SYNCED_FILE = "synced.mark"
WAY_OUT = "Restore the file, or remove this node's data and let it join again"
ENTRIES_MAX = 200
"""Then the file is rewritten: it stays within one disk block."""

_ENTRY = struct.Struct(">QQI")  # segment number, position, checksum
_FIELDS = struct.Struct(">QQ")
_VERSION = zlib.crc32(b"synced 1")
"""Part of the checksum: an entry of another format is invalid."""


class Synced(NamedTuple):
    """Everything before this position of this segment is synced, and all earlier segments."""

    number: int
    position: int


NOTHING_KNOWN = Synced(0, 0)


class SyncedMark:
    """The mark file of one block file. Mutable: the open file."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: File | None = None
        self._entries = 0

    def read(self) -> Synced:
        """The last valid entry. Raises OSError."""
        if SYNCED_FILE not in self._files.names():
            return NOTHING_KNOWN
        data = self._files.read(SYNCED_FILE)
        for end in range(len(data) // _ENTRY.size * _ENTRY.size, 0, -_ENTRY.size):
            *fields, checksum = _ENTRY.unpack_from(data, end - _ENTRY.size)
            synced = Synced(*fields)
            if checksum == _checksum(synced):
                return synced
        return NOTHING_KNOWN

    def check(self, found: Synced) -> None:
        """Raises CorruptStore when less is found than was synced."""
        known = self.read()
        if found < known:
            raise CorruptStore(
                f"segment {known.number:x} was synced up to byte {known.position} ({SYNCED_FILE}), "
                f"but the data found ends at byte {found.position} of segment {found.number:x}: "
                f"the rest is damaged or missing. {WAY_OUT}"
            )

    def write(self, synced: Synced) -> None:
        """Record that everything before this position is synced. Raises OSError."""
        if self._entries == ENTRIES_MAX:
            self.close()
        file, self._file = self._file, None  # after a failed write, rewrite the file
        if file is None:
            file = self._files.open(SYNCED_FILE + ".tmp")
            file.truncate(0)
            self._entries = 0
        file.append(_ENTRY.pack(*synced, _checksum(synced)))
        if self._entries == 0:
            self._files.rename(SYNCED_FILE + ".tmp", SYNCED_FILE)
        self._entries += 1
        self._file = file

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _checksum(synced: Synced) -> int:
    return zlib.crc32(_FIELDS.pack(*synced), _VERSION)

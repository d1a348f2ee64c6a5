"""How far a block file is known to be synced, in a file of its own: `synced.mark`.

The marks in a segment say the same, but lie right behind what they speak of: one bad sector takes
both, and what was promised would look like a write that a loss of power interrupted. That the
newest segment is missing has no other witness at all.

Rules: an entry is appended behind each sync and not synced itself, so it costs no fsync: it
outlives a killed process, mostly a loss of power too, and an older one is as true, for what was
synced is never cut. The last whole entry counts. A mark that cannot be read is as good as none.
"""

import struct
import zlib
from typing import NamedTuple

from raft.errors import CorruptStore
from raft.files import File, Files

__all__ = ["SYNCED_FILE", "WAY_OUT", "Synced", "SyncedMark"]

SYNCED_FILE = "synced.mark"
WAY_OUT = "Restore the file, or remove this node's data and let it join anew"
ENTRIES_MAX = 200
"""Then the file is begun anew: it fits into one block of the disk."""

_ENTRY = struct.Struct(">QQI")  # segment number, position, checksum
_FIELDS = struct.Struct(">QQ")
_VERSION = zlib.crc32(b"synced 1")
"""Goes into the checksum: an entry of another format is none."""


class Synced(NamedTuple):
    """All before this position of this segment, and all segments before it."""

    number: int
    position: int


NOTHING_KNOWN = Synced(0, 0)


class SyncedMark:
    """The mark of one block file. Mutable: the open file."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: File | None = None
        self._entries = 0

    def read(self) -> Synced:
        """What the file says. Raises OSError."""
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
        """Raises CorruptStore where less is found than was synced."""
        known = self.read()
        if found < known:
            raise CorruptStore(
                f"segment {known.number:x} was synced up to byte {known.position}, as {SYNCED_FILE}"
                f" says; what is found ends at byte {found.position} of segment {found.number:x}: "
                f"the rest is damaged, or missing. {WAY_OUT}"
            )

    def write(self, synced: Synced) -> None:
        """All before it was synced just now. Raises OSError."""
        if self._entries == ENTRIES_MAX:
            self.close()
        file, self._file = self._file, None  # half of an entry may be there: begin the file anew
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

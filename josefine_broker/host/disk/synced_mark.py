"""How far a log is known to be synced: a few bytes in its directory, `synced.checkpoint`.

What lies within it was confirmed as durable, so no crash can have taken it: where it is damaged or
missing, the disk or a person did it, and recovery must not cut there as it cuts an unsynced tail.

Rules: an entry is appended behind each sync, and not synced itself, so it costs no fsync: it
outlives a killed process, mostly a loss of power too, and an older one is as true. The last whole
entry counts. Before the log is cut below it, or loses its first segment, the mark gives way first,
durably. A mark that cannot be read, or written, is as good as none: it protects, and promises
nothing by itself.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from josefine_broker.base.ports import Files
from josefine_broker.records.crc import crc32c

SYNCED_MARK_FILE = "synced.checkpoint"

_ENTRY = Struct("<qqI")
"""Start offset, end offset, checksum."""
_VERSION = b"synced 1"
"""Goes into the checksum: an entry of another format is none."""
ENTRIES_MAX = 200
"""Then the file is begun anew: it fits into one block of the disk."""


class SyncedRange(NamedTuple):
    """Offsets that were synced and not removed since, from the log start on if that is later."""

    start: int
    end: int


NOTHING_KNOWN = SyncedRange(0, 0)


class SyncedMark:
    """The mark of one log. Its owner holds the log's sync lock."""

    __slots__ = ("_entries", "_files", "_path", "_stored")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{SYNCED_MARK_FILE}"
        self._stored: SyncedRange | None = None
        self._entries = ENTRIES_MAX

    def read(self) -> SyncedRange:
        """What the file says. Raises OSError other than of a file that is not there."""
        self._stored = self._read()
        return self._stored

    def _read(self) -> SyncedRange:
        try:
            file = self._files.open(self._path)
        except FileNotFoundError:
            self._entries = 0
            return NOTHING_KNOWN
        try:
            data = file.read_at(0, file.size())
        finally:
            file.close()
        count, rest = divmod(len(data), _ENTRY.size)
        self._entries = ENTRIES_MAX if rest else count
        for at in range(count - 1, -1, -1):
            start, end, checksum = _ENTRY.unpack_from(data, at * _ENTRY.size)
            if checksum == _checksum(start, end):
                return SyncedRange(start, end)
        return NOTHING_KNOWN

    def raise_to(self, end_offset: int) -> None:
        """All before it was synced just now. A mark that cannot be written stays where it was."""
        known = self._stored or self.read()
        if end_offset <= known.end:
            return
        try:
            self._append(SyncedRange(known.start, end_offset))
        except OSError:
            self._entries = ENTRIES_MAX  # half of an entry may be there: begin the file anew

    def lower_to(self, end_offset: int) -> None:
        """The log is going to be cut, there or behind it. Durable. Raises OSError."""
        known = self._stored or self.read()
        if end_offset < known.end:
            self._append(SyncedRange(min(known.start, end_offset), end_offset), durable=True)

    def begin_at(self, start_offset: int) -> None:
        """What lies before it is going to be removed, and no log start can be stored: the disk is
        full. The block that the mark is in is its own; where even that is not, there is none any
        more, durably. Raises OSError."""
        known = self._stored or self.read()
        if start_offset <= known.start:
            return
        try:
            self._append(SyncedRange(start_offset, max(start_offset, known.end)), durable=True)
        except OSError:
            self._files.remove(self._path)
            self._files.sync_directory(self._path.rpartition("/")[0])
            self._stored, self._entries = SyncedRange(start_offset, start_offset), 0

    def _append(self, entry: SyncedRange, *, durable: bool = False) -> None:
        begins_anew = self._entries >= ENTRIES_MAX
        path = f"{self._path}.tmp" if begins_anew else self._path
        if begins_anew:
            self._files.remove(path)
        file = self._files.open(path, create=True)
        try:
            file.write_at_end((_encode(entry),))
            if durable:
                file.sync()
        finally:
            file.close()
        if begins_anew:
            self._files.rename(path, self._path, durable=durable)
            self._entries = 0
        elif durable:  # an earlier rename may not be, and the file before it said more
            self._files.sync_directory(self._path.rpartition("/")[0])
        self._entries += 1
        self._stored = entry


def _encode(entry: SyncedRange) -> bytes:
    return _ENTRY.pack(*entry, _checksum(*entry))


def _checksum(start: int, end: int) -> int:
    return crc32c(b"%d %d" % (start, end), crc32c(_VERSION))

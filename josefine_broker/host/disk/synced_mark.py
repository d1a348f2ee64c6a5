"""The synced range of a log: a few bytes in its directory, `synced.checkpoint`.

Data within the range was confirmed as durable, so no crash can have lost it. If it is damaged or
missing, the disk or a person is the cause, and recovery must not cut there as it cuts an unsynced
tail.

Rules: an entry is appended after each sync and not synced itself, so it costs no fsync. It survives
a killed process and usually a power loss, and an older entry is still true. The last complete entry
counts. Before the log is cut below the mark, or loses its first segment, the mark is lowered,
durably. An unreadable or unwritable mark counts as none: it only protects, and promises nothing
itself.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from josefine_broker.base.ports import File, Files
from josefine_broker.records.crc import crc32c

SYNCED_MARK_FILE = "synced.checkpoint"

_ENTRY = Struct("<qqI")
"""Start offset, end offset, checksum."""
_VERSION = b"synced 1"
"""Part of the checksum: an entry of another format is invalid."""
ENTRIES_MAX = 200
"""Then the file is rewritten: it stays within one disk block."""


class SyncedRange(NamedTuple):
    """Offsets that were synced and not removed since; the log start may be later than `start`."""

    start: int
    end: int


NOTHING_KNOWN = SyncedRange(0, 0)


class Entry(NamedTuple):
    """An entry for the thread that syncs the log to write, right after the sync."""

    descriptor: int
    """Of the mark's file, held open; -1: there is nothing to write."""
    position: int
    data: bytes
    found: SyncedRange


NO_ENTRY = Entry(-1, 0, b"", NOTHING_KNOWN)


class SyncedMark:
    """The mark of one log. Its owner holds the log's sync lock."""

    __slots__ = ("_entries", "_file", "_files", "_path", "_stored", "is_held")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{SYNCED_MARK_FILE}"
        self._stored: SyncedRange | None = None
        self._file: File | None = None
        """Stays open between entries that others write."""
        self._entries = ENTRIES_MAX
        self.is_held = False
        """There is a hole in the log: no later sync counts until it is filled."""

    def read(self) -> SyncedRange:
        """The last valid entry. Raises OSError, except for a missing file."""
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
        """Everything before `end_offset` was synced. A failed write leaves the mark as it was."""
        known = self._stored or self.read()
        if end_offset <= known.end or self.is_held:
            return
        try:
            self._append(SyncedRange(known.start, end_offset))
        except OSError:
            self._entries = ENTRIES_MAX  # a part of an entry may be in the file: rewrite it

    def begin(self, end_offset: int) -> Entry | None:
        """Like `raise_to`, with an entry for somebody else to write; `end` follows. None: only
        `raise_to` can do it."""
        known = self._stored
        if known is None or self._entries >= ENTRIES_MAX:
            return None
        if end_offset <= known.end or self.is_held:
            return NO_ENTRY
        try:
            if self._file is None:
                self._file = self._files.open(self._path, create=True)
            descriptor = self._file.hold()
        except OSError:
            self.close()
            return None
        found = SyncedRange(known.start, end_offset)
        return Entry(descriptor, self._entries * _ENTRY.size, _encode(found), found)

    def end(self, entry: Entry, *, is_written: bool) -> None:
        """The entry was written, or the sync failed, or only the write did."""
        if entry.descriptor < 0:
            return
        assert self._file is not None
        self._file.release(entry.descriptor)
        if is_written:
            self._entries += 1
            self._stored = entry.found
        else:
            self._entries = ENTRIES_MAX

    def close(self) -> None:
        """Release the file; the next entry opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def lower_to(self, end_offset: int) -> None:
        """Lower the mark, durably, before the log is cut at or after it. Raises OSError."""
        known = self._stored or self.read()
        if end_offset < known.end:
            self._append(SyncedRange(min(known.start, end_offset), end_offset), durable=True)

    def begin_at(self, start_offset: int) -> None:
        """Offsets before `start_offset` are about to be removed while the disk is too full to store
        a log start. The mark's file already owns a disk block; if even that cannot be written, the
        mark is removed, durably. Raises OSError."""
        known = self._stored or self.read()
        if start_offset <= known.start:
            return
        try:
            self._append(SyncedRange(start_offset, max(start_offset, known.end)), durable=True)
        except OSError:
            self.close()
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
            self.close()
            self._files.rename(path, self._path, durable=durable)
            self._entries = 0
        elif durable:  # an earlier rename may not be durable, and the old file has a higher mark
            self._files.sync_directory(self._path.rpartition("/")[0])
        self._entries += 1
        self._stored = entry


def _encode(entry: SyncedRange) -> bytes:
    return _ENTRY.pack(*entry, _checksum(*entry))


def _checksum(start: int, end: int) -> int:
    return crc32c(b"%d %d" % (start, end), crc32c(_VERSION))

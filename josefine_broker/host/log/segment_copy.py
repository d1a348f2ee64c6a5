"""The copy of a damaged segment in the making: a segment in memory, and its file, which no other
code knows yet."""

from __future__ import annotations

from contextlib import suppress

from josefine_broker.base.ports import File, Files
from josefine_broker.host.log.cleaned_sums import SumsWriter
from josefine_broker.host.log.index import SegmentSummary
from josefine_broker.host.log.segment import Segment
from josefine_broker.host.log.segment_swap import REPAIRED_SUFFIX
from josefine_broker.records.batch import parse_header
from josefine_broker.records.crc import Buffer

WRITE_BYTES = 1024 * 1024
"""Bytes written at once."""


class SegmentCopy:
    """See the module. Mutable."""

    def __init__(self, files: Files, old: Segment, index_interval_bytes: int) -> None:
        self._files = files
        self._path = old.stem + REPAIRED_SUFFIX
        self._interval_bytes = index_interval_bytes
        self._file: File | None = None
        self._parts: list[Buffer] = []
        self._parts_bytes = 0
        self.sums = SumsWriter()
        self.was_filled = False
        self.is_installed = False
        self.segment = Segment(files, old.stem, old.base_offset)

    def restart(self) -> None:
        self.segment = Segment(self._files, self.segment.stem, self.segment.base_offset)
        self._parts, self._parts_bytes, self.was_filled = [], 0, False
        self.sums = SumsWriter()
        if self._file is not None:
            self._file.truncate(0)

    def add(self, batch: Buffer) -> None:
        """Raises OSError."""
        header = parse_header(batch)
        self.segment.account(
            batch, header.base_offset, header.leader_epoch, header, self._interval_bytes
        )
        self._parts.append(bytes(batch))
        self._parts_bytes += len(batch)
        if self._parts_bytes >= WRITE_BYTES:
            self._write()

    def open(self) -> None:
        """Raises OSError."""
        if self._file is None:
            self._files.remove(self._path)
            self._file = self._files.open(self._path, create=True)

    def _write(self) -> None:
        assert self._file is not None
        if self._parts:
            self._file.write_at_end(self._parts)
            self.sums.add(self._parts)
        self._parts, self._parts_bytes = [], 0

    def finish(self, old: SegmentSummary) -> None:
        """Raises OSError."""
        self._write()
        assert self._file is not None
        self._file.sync()
        self.segment.first_append_ms = old.first_append_ms
        self.segment.last_append_ms = old.last_append_ms

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if not self.is_installed:
            with suppress(OSError):  # a start removes it too
                self._files.remove(self._path)

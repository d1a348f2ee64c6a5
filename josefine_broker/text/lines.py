"""The splitter of bytes into lines, however they arrive, in bounded memory.

A line ends with LF; a CR before it is removed. A line longer than the limit is dropped as it
arrives, and reported once, at its end: the lines after it are served.
"""

COMPACT_BYTES = 65_536
"""Read lines are cut off the buffer in steps of this, not one by one."""


class LineBuffer:
    """Mutable: received bytes not taken yet. Holds at most a line and the bytes of one read."""

    __slots__ = ("_data", "_dropped", "_scanned", "_start", "line_bytes_max")

    def __init__(self, line_bytes_max: int) -> None:
        self.line_bytes_max = line_bytes_max
        self._data = bytearray()
        self._start = 0
        """Start of the next line."""
        self._scanned = 0
        """There is no LF between the start and this position."""
        self._dropped = 0
        """Bytes of the next line that were dropped already."""

    def __len__(self) -> int:
        return len(self._data) - self._start

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._data += data
        if self._data.find(b"\n", self._scanned) < 0:
            self._scanned = len(self._data)
            if self._dropped + len(self) > self.line_bytes_max:
                self._dropped += len(self)
                self._data.clear()
                self._start = self._scanned = 0

    def take(self) -> bytes | None:
        """The next line without its end; None: there is none yet. Raises OverflowError for one that
        was too long; it is dropped then."""
        end = self._data.find(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self._data)
            if self._dropped + len(self) > self.line_bytes_max:
                self.feed(b"")
            return None
        size = self._dropped + end - self._start
        line = bytes(self._data[self._start : end]) if size <= self.line_bytes_max else None
        self._start = self._scanned = end + 1
        self._dropped = 0
        if self._start >= COMPACT_BYTES or self._start == len(self._data):
            del self._data[: self._start]
            self._start = self._scanned = 0
        if line is None:
            raise OverflowError(f"a line of {size} bytes")
        return line.removesuffix(b"\r")

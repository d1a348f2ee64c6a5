"""Bytes of a connection to frames, without I/O; the server's and the client's.

Rules: a frame is handed out as a writable view of memory that is never received into again, so
its owner may stamp it in place and keep it as long as it likes. Bytes are received straight into
place; only a frame that does not fit behind its predecessors has its first bytes moved. Memory
grows with the bytes that arrive, not with the length that a peer claims. After a FrameError the
stream has no meaning: close the connection.
"""

from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.limits import FRAME_BYTES_MAX

CHUNK_BYTES = 128 * 1024
"""Small frames share a chunk; also the least room offered to a receive."""

GROWTH_MAX = 4
"""A large frame's buffer is at most this many times the bytes that have arrived of it."""

_LENGTH = Struct(">i")
_PREFIX = _LENGTH.size


class FrameError(CorruptData):
    """A length prefix that no frame can have."""


class FrameBuffer:
    """Receive buffer of one connection, in the shape of asyncio's BufferedProtocol."""

    __slots__ = ("_chunk", "_end", "_frame_bytes_max", "_start", "_view")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunk = bytearray()
        self._view = memoryview(self._chunk)
        self._start = 0  # of the first byte not handed out
        self._end = 0  # of the bytes received

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Where to receive; never empty. The hint is ignored, as asyncio allows."""
        if self._end == len(self._chunk):
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, received: int) -> list[memoryview]:
        """Take note of received bytes; the frames that they completed, without length prefix.

        Raises FrameError for a length that is negative or above the limit.
        """
        self._end += received
        view, start, end = self._view, self._start, self._end
        frames = []
        while end - start >= _PREFIX:
            length = _LENGTH.unpack_from(view, start)[0]
            if not 0 <= length <= self._frame_bytes_max:
                raise FrameError(f"frame of {length} bytes; the limit is {self._frame_bytes_max}")
            frame_end = start + _PREFIX + length
            if frame_end > end:
                break
            frames.append(view[start + _PREFIX : frame_end])
            start = frame_end
        self._start = start
        return frames

    @property
    def pending_bytes(self) -> int:
        """Bytes of an incomplete frame: not zero at the end of a stream means it was cut."""
        return self._end - self._start

    def _make_room(self) -> None:
        """Move to a new chunk, with what is pending of an incomplete frame."""
        pending = self._end - self._start
        size = CHUNK_BYTES
        if pending >= _PREFIX:
            wanted = _PREFIX + _LENGTH.unpack_from(self._view, self._start)[0]
            size = max(size, min(wanted, pending * GROWTH_MAX))
        chunk = bytearray(size)
        chunk[:pending] = self._view[self._start : self._end]
        self._chunk = chunk
        self._view = memoryview(chunk)
        self._start, self._end = 0, pending

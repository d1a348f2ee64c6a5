"""The splitter of a connection's bytes into frames, without I/O; for server and client.

Rules: a frame is handed out as a writable view of memory that is not received into again while any
view of it exists, so its owner may stamp it in place and keep it as long as it likes. Bytes are
received straight into place; only a frame that does not fit after its predecessors has its first
bytes moved. Memory grows with the bytes that arrive, not with the length that a peer claims. After
a FrameError the stream is undefined: close the connection.

A connection starts with a small chunk, and receives into it again and again while all frames in
it have been handled: one that only heartbeats keeps it.

Large chunks are reused (`ChunkPool`): fresh ones cost their zeroing and a page fault per 4 KiB,
which for 1 MB frames was most of the CPU time between socket and file.
"""

from collections import deque
from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.limits import FRAME_BYTES_MAX
from josefine_broker.base.security import TLS_RECORD

CHUNK_BYTES = 128 * 1024
"""Chunk size of a connection with small frames; many frames share a chunk."""

FIRST_CHUNK_BYTES = 16 * 1024
"""Chunk size of a connection until frames in it are in use when it is full, or one does not fit.
With CHUNK_BYTES at once, 5,000 idle connections took 600 MB."""

CHUNK_BYTES_MAX = 4 * 1024 * 1024
"""Chunk size of a connection that has sent large frames: four of them, up to this."""

ROOM_BYTES_MIN = 8 * 1024
"""A smaller rest of a chunk is not offered: the receive would be split into pieces."""

LARGE_BYTES = CHUNK_BYTES // 4
"""Larger frames make a connection's chunk larger than CHUNK_BYTES."""

GROWTH_MAX = 4
"""A frame's chunk is at most this many times its received bytes."""

POOL_BYTES_MAX = 64 * 1024 * 1024
"""Chunks kept for reuse by all connections that share a pool."""

TLS_HINT = " (the other side speaks TLS, this one does not)"

_LENGTH = Struct(">i")
_PREFIX = _LENGTH.size


class FrameError(CorruptData):
    """An impossible length prefix."""


class ChunkPool:
    """Retired chunks, reused once no view of them is left. Thread-safe."""

    __slots__ = ("_bytes_max", "_retired")

    def __init__(self, bytes_max: int = POOL_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._retired: deque[bytearray] = deque()

    def take(self, size: int) -> bytearray:
        """A chunk of `size` bytes without any view; its content is arbitrary."""
        retired = self._retired
        for _ in range(len(retired)):
            try:
                chunk = retired.popleft()
            except IndexError:
                break  # another thread took it
            if len(chunk) == size and _is_unseen(chunk):
                return chunk
            retired.append(chunk)
        return bytearray(size)

    def give(self, chunk: bytearray) -> None:
        """Retire a chunk; frames in it may still be in use. Above the limit the oldest are
        dropped."""
        retired = self._retired
        retired.append(chunk)
        while sum(map(len, tuple(retired))) > self._bytes_max:
            retired.popleft()


def _is_unseen(chunk: bytearray) -> bool:
    """Whether no memoryview of it is left: only then may a bytearray change its size."""
    try:
        chunk.pop()
    except BufferError:
        return False
    chunk.append(0)
    return True


class FrameBuffer:
    """Receive buffer of one connection, with the interface of asyncio's BufferedProtocol."""

    __slots__ = ("_chunk", "_end", "_frame_bytes_max", "_largest", "_pool", "_start", "_view")

    def __init__(
        self, frame_bytes_max: int = FRAME_BYTES_MAX, pool: ChunkPool | None = None
    ) -> None:
        """Connections of one server share a pool; without one, this connection has its own."""
        self._frame_bytes_max = frame_bytes_max
        self._pool = ChunkPool() if pool is None else pool
        self._chunk = bytearray()
        self._view = memoryview(self._chunk)
        self._start = 0  # of the first byte not handed out
        self._end = 0  # of the bytes received
        self._largest = 0  # whole frame of this chunk and the one before

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """The memory to receive into; never empty. The hint is ignored, as asyncio allows."""
        pending, room = self._end - self._start, len(self._chunk) - self._end
        if pending >= _PREFIX:
            frame_end = self._start + _PREFIX + _LENGTH.unpack_from(self._view, self._start)[0]
            if frame_end > len(self._chunk):
                if room < ROOM_BYTES_MIN or frame_end - self._start <= _usual_size(self._largest):
                    self._make_room()
            elif frame_end - self._end > CHUNK_BYTES:
                # The next large frame should start in a chunk with room for all of it.
                return self._view[self._end : frame_end]
        elif room < ROOM_BYTES_MIN or (pending == 0 and room <= self._largest):
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, received: int) -> list[memoryview]:
        """Account for received bytes; returns the completed frames, without length prefix.

        Raises FrameError for a length that is negative or above the limit.
        """
        self._end = end = self._end + received
        view, start = self._view, self._start
        frames = []
        while end - start >= _PREFIX:
            length = _LENGTH.unpack_from(view, start)[0]
            if not 0 <= length <= self._frame_bytes_max:
                hint = TLS_HINT if TLS_RECORD.match(view[start:end]) else ""
                raise FrameError(
                    f"frame of {length} bytes; the limit is {self._frame_bytes_max}{hint}"
                )
            frame_end = start + _PREFIX + length
            if frame_end > end:
                break
            frames.append(view[start + _PREFIX : frame_end])
            start = frame_end
            if length > self._largest:
                self._largest = length
        self._start = start
        return frames

    def allow(self, frame_bytes_max: int) -> None:
        """Change the limit from the next frame on."""
        self._frame_bytes_max = frame_bytes_max

    @property
    def large_bytes(self) -> int:
        """Memory that the started large frame may take until it is complete; 0: there is none."""
        if self._end - self._start < _PREFIX:
            return 0
        length: int = _LENGTH.unpack_from(self._view, self._start)[0]
        if length <= LARGE_BYTES:
            return 0
        return max(_PREFIX + length, len(self._chunk), _usual_size(self._largest))

    def shrink(self) -> None:
        """Release memory that only large frames need, if the pending bytes fit into less."""
        pending = self._end - self._start
        if len(self._chunk) <= CHUNK_BYTES or pending > CHUNK_BYTES - ROOM_BYTES_MIN:
            return
        self._largest = 0
        self._pool.give(self._move(self._pool.take(CHUNK_BYTES) if pending else bytearray()))

    def _make_room(self) -> None:
        """Move to another chunk, with the bytes of an incomplete frame."""
        pending = self._end - self._start
        if pending == 0 and self._largest < FIRST_CHUNK_BYTES - ROOM_BYTES_MIN:
            if not self._chunk:
                self._move(bytearray(FIRST_CHUNK_BYTES))
                return
            if len(self._chunk) == FIRST_CHUNK_BYTES and self._is_all_handled():
                self._start = self._end = 0
                return
        size = _usual_size(self._largest)
        if pending >= _PREFIX:
            wanted = _PREFIX + _LENGTH.unpack_from(self._view, self._start)[0]
            size = max(size, min(wanted, pending * GROWTH_MAX))
        left = self._move(self._pool.take(size))
        if len(left) == _usual_size(self._largest):
            self._pool.give(left)
        self._largest //= 2  # a connection that has gone back to small frames shrinks

    def _is_all_handled(self) -> bool:
        """Whether nobody uses a frame of the chunk. Our own view is let go for the look."""
        self._view = memoryview(b"")
        handled = _is_unseen(self._chunk)
        self._view = memoryview(self._chunk)
        return handled

    def _move(self, chunk: bytearray) -> bytearray:
        """Continue in this chunk; returns the previous one."""
        pending, left = self._end - self._start, self._chunk
        chunk[:pending] = self._view[self._start : self._end]
        # Our own view is one of those that keep a retired chunk from being reused.
        self._view = memoryview(chunk)
        self._chunk = chunk
        self._start, self._end = 0, pending
        return left


def _usual_size(frame_bytes: int) -> int:
    """Chunk size for frames of this size: a power of two, so that chunks are interchangeable."""
    rounded = 1 << frame_bytes.bit_length()
    return max(CHUNK_BYTES, min(4 * rounded, CHUNK_BYTES_MAX), rounded)

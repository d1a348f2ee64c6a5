"""Frame splitting: any way of cutting the stream gives the same frames, in memory of their own."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire.frames import (
    CHUNK_BYTES,
    CHUNK_BYTES_MAX,
    FIRST_CHUNK_BYTES,
    GROWTH_MAX,
    ChunkPool,
    FrameBuffer,
    FrameError,
)


def framed(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def receive(buffer: FrameBuffer, data: bytes, step: int) -> list[memoryview]:
    """Feed `data` in pieces of at most `step` bytes, as a socket would."""
    frames: list[memoryview] = []
    rest = memoryview(data)
    while rest:
        room = buffer.get_buffer(-1)
        size = min(step, len(room), len(rest))
        room[:size] = rest[:size]
        frames += buffer.buffer_updated(size)
        rest = rest[size:]
    return frames


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 400))
def test_frames_are_the_same_however_the_stream_is_cut(payloads: list[bytes], step: int) -> None:
    """Checklist row 26. Whole, byte by byte and anything between."""
    stream = framed(payloads)

    assert [bytes(frame) for frame in receive(FrameBuffer(), stream, step)] == payloads
    assert [bytes(frame) for frame in receive(FrameBuffer(), stream, 1)] == payloads


@pytest.mark.parametrize("size", [CHUNK_BYTES - 4, CHUNK_BYTES, CHUNK_BYTES * 3 + 5, 5_000_000])
@pytest.mark.parametrize("step", [1000, 65_536, 10_000_000])
def test_frames_larger_than_a_chunk_arrive_whole(size: int, step: int) -> None:
    payloads = [b"small", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"next"]

    assert [bytes(f) for f in receive(FrameBuffer(), framed(payloads), step)] == payloads


def test_a_frame_is_writable_and_never_received_into_again() -> None:
    buffer = FrameBuffer()
    first = receive(buffer, framed([b"first"]), 100)[0]
    first[:] = b"FIRST"

    later = [receive(buffer, framed([b"%06d" % n * 1000]), 5000)[0] for n in range(200)]

    assert bytes(first) == b"FIRST"
    assert [bytes(frame[:6]) for frame in later] == [b"%06d" % n for n in range(200)]


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_bad_length_is_a_frame_error(length: int) -> None:
    """Checklist row 26. Before anything of that size is allocated."""
    buffer = FrameBuffer(frame_bytes_max=1000)

    with pytest.raises(FrameError) as raised:
        receive(buffer, struct.pack(">i", length), 4)

    assert isinstance(raised.value, CorruptData)


def test_frames_before_a_bad_length_are_lost_with_the_connection() -> None:
    with pytest.raises(FrameError):
        receive(FrameBuffer(), framed([b"good"]) + b"\xff\xff\xff\xff", 100)


def test_memory_follows_the_bytes_that_arrive_not_the_claimed_length() -> None:
    """A hundred connections that each announce 100 MB and send nothing must cost nothing."""
    buffer = FrameBuffer()
    receive(buffer, struct.pack(">i", 100_000_000) + b"x" * 10, 100)

    room = buffer.get_buffer(-1)

    assert len(room) <= CHUNK_BYTES
    receive(buffer, b"x" * (CHUNK_BYTES * 2), 10_000)
    assert len(buffer.get_buffer(-1)) <= CHUNK_BYTES * 2 * GROWTH_MAX


def test_connection_whose_small_frames_are_handled_keeps_its_first_small_chunk() -> None:
    """5,000 connections that only heartbeat held 600 MB in chunks of 128 KiB."""
    buffer = FrameBuffer()

    for _ in range(1_000):
        receive(buffer, framed([b"x" * 100]), 1_000_000)

    assert len(buffer._chunk) == FIRST_CHUNK_BYTES


def test_first_chunk_is_left_while_a_frame_in_it_is_in_use() -> None:
    buffer = FrameBuffer()
    held = receive(buffer, framed([b"a" * 100]), 1_000_000)

    receive(buffer, framed([b"b" * 100] * 1_000), 1_000_000)

    assert bytes(held[0]) == b"a" * 100
    assert len(buffer._chunk) == CHUNK_BYTES


def test_the_buffer_offered_is_never_empty() -> None:
    """asyncio treats an empty buffer as an error of the protocol."""
    buffer = FrameBuffer()

    for _ in range(5):
        room = buffer.get_buffer(-1)
        assert len(room) > 0
        room[:] = bytes(len(room))
        buffer.buffer_updated(len(room))


def test_a_frame_that_is_kept_is_never_overwritten_by_chunks_used_again() -> None:
    """Half of the frames are kept, half let go: only the memory of the latter may come back."""
    pool = ChunkPool()
    buffer = FrameBuffer(pool=pool)
    kept = {}

    for number in range(60):
        frame = receive(buffer, framed([b"%04d" % number * 250_000]), 300_000)[0]
        if number % 2:
            kept[number] = frame
        del frame

    for number, frame in kept.items():
        assert bytes(frame) == b"%04d" % number * 250_000


def test_large_chunks_are_used_again_once_no_frame_of_them_is_left() -> None:
    buffer = FrameBuffer()
    chunks = set()

    for _ in range(100):
        receive(buffer, framed([b"x" * 1_000_000]), 1_000_000)
        chunks.add(id(buffer._chunk))

    assert len(chunks) <= 4


def test_a_pool_gives_out_no_chunk_that_somebody_sees() -> None:
    pool = ChunkPool()
    seen, unseen = pool.take(CHUNK_BYTES_MAX), pool.take(CHUNK_BYTES_MAX)
    view = memoryview(seen)[5:10]
    pool.give(seen)
    pool.give(unseen)

    assert pool.take(CHUNK_BYTES_MAX) is unseen
    assert pool.take(CHUNK_BYTES_MAX) is not seen
    view.release()
    assert pool.take(CHUNK_BYTES_MAX) is seen
    assert len(seen) == CHUNK_BYTES_MAX


def test_a_pool_keeps_no_more_than_its_bound() -> None:
    pool = ChunkPool(bytes_max=1000)
    first, second = bytearray(600), bytearray(600)
    pool.give(first)
    pool.give(second)

    assert pool.take(600) is second
    assert pool.take(600) is not first


def test_a_connection_that_goes_back_to_small_frames_gives_its_large_chunk_away() -> None:
    buffer = FrameBuffer()
    receive(buffer, framed([b"x" * 1_000_000] * 8), 1_000_000)

    for _ in range(12):
        receive(buffer, framed([b"y" * 1000] * (len(buffer.get_buffer()) // 1000)), 1_000_000)

    assert len(buffer._chunk) == CHUNK_BYTES


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 700_000), min_size=1, max_size=12),
    st.sampled_from([1500, 65_536, 300_000, 10_000_000]),
)
def test_large_and_small_frames_mixed_arrive_whole(sizes: list[int], step: int) -> None:
    payloads = [bytes((number,)) * size for number, size in enumerate(sizes)]

    assert [bytes(frame) for frame in receive(FrameBuffer(), framed(payloads), step)] == payloads


def test_a_large_frame_is_received_to_its_end_and_no_further() -> None:
    """So the next one begins where it fits: frames of 8 MB were copied half a time on average."""
    buffer = FrameBuffer()
    receive(buffer, framed([b"x" * 8_000_000]), 1_000_000)
    receive(buffer, struct.pack(">i", 8_000_000) + b"x" * 1000, 10_000)

    assert len(buffer.get_buffer()) == 8_000_000 - 1000

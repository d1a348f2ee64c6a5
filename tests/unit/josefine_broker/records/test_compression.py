"""Compression: round trips, framings, and a bound on what comes out."""

import cramjam
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.compression import compress, decompress, decompress_into
from josefine_broker.records.reader import read_records

CODECS = (1, 2, 3, 4)


@settings(deadline=None)
@given(codec=st.integers(0, 4), data=st.binary(max_size=100_000), repeat=st.integers(1, 20))
def test_round_trip(codec: int, data: bytes, repeat: int) -> None:
    data *= repeat

    assert bytes(decompress(codec, compress(codec, memoryview(data)))) == data


@settings(deadline=None)
@given(
    codec=st.integers(0, 4),
    data=st.binary(max_size=5_000),
    repeat=st.integers(1, 30),
    spare=st.integers(-200, 50),
)
@example(codec=2, data=bytes(5_000), repeat=30, spare=-1)  # several blocks of snappy
def test_decompressing_into_a_place_fills_it_or_says_that_it_is_too_small(
    codec: int, data: bytes, repeat: int, spare: int
) -> None:
    data *= repeat
    room = memoryview(bytearray(max(0, len(data) + spare)))

    size = decompress_into(codec, compress(codec, memoryview(data)), room)

    assert size == (len(data) if len(room) >= len(data) else None)
    assert size is None or bytes(room[:size]) == data


@pytest.mark.parametrize("codec", CODECS)
def test_highly_compressible_data_grows_past_the_first_guess(codec: int) -> None:
    data = bytes(5_000_000)

    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_bomb_is_refused_at_the_bound(codec: int) -> None:
    bomb = compress(codec, bytes(1_000_001))

    with pytest.raises(CorruptData, match="exceed 1000000"):
        decompress(codec, bomb, bytes_max=1_000_000)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_or_damaged_data_is_corrupt(codec: int) -> None:
    data = bytes(compress(codec, bytes(range(256)) * 200))

    for damaged in (b"", data[: len(data) // 2], data[:-1], b"\xff" * 40):
        with pytest.raises(CorruptData):
            assert bytes(decompress(codec, damaged)) == bytes(range(256)) * 200 or _fail()
        room = memoryview(bytearray(60_000))
        with pytest.raises(CorruptData):
            assert (
                room[: decompress_into(codec, damaged, room)] == bytes(range(256)) * 200 or _fail()
            )


def _fail() -> bool:
    raise CorruptData("decoded to something else")


def test_snappy_is_read_raw_and_framed() -> None:
    """librdkafka writes raw blocks, Java clients the xerial framing."""
    data = bytes(range(256)) * 500
    raw = bytes(cramjam.snappy.compress_raw(data))
    framed = compress(2, data)

    assert framed[:8] == b"\x82SNAPPY\x00"
    assert bytes(decompress(2, raw)) == bytes(decompress(2, framed)) == data
    for one in (raw, framed):
        room = memoryview(bytearray(len(data)))
        assert decompress_into(2, one, room) == len(data)
        assert bytes(room) == data


def test_unknown_codec_is_named() -> None:
    for read in (decompress, lambda codec, data: decompress_into(codec, data, memoryview(b""))):
        with pytest.raises(KafkaError) as caught:
            read(5, b"")

        assert caught.value.code is ErrorCode.unsupported_compression_type


@settings(max_examples=200, deadline=None)
@given(at=st.integers(61, 400), byte=st.integers(0, 255), codec=st.integers(0, 4))
def test_damaged_records_are_corrupt_data_and_nothing_else(at: int, byte: int, codec: int) -> None:
    """The reader may be handed batches whose checksum nobody looked at."""
    batch = build_batch([Record(b"k", b"v" * n, (("h", b"x"),), n) for n in range(20)],
                        compression=codec)  # fmt: skip
    batch[at % (len(batch) - 61) + 61] = byte

    try:
        records = list(read_records(batch))
    except CorruptData:
        return
    assert len(records) == 20


def test_lz4_frames_have_independent_blocks_as_kafkas_java_code_demands() -> None:
    """Its reader throws "Dependent block stream is unsupported"; bit 5 of the flags says which."""
    frame = bytes(compress(3, b"some records " * 10_000))

    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0x20

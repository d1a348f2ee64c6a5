"""The compressions of a record batch: none, gzip, snappy, lz4, zstd (attributes bits 0-2).

Decompression is bounded: a few bytes must not become gigabytes of memory. Snappy is written in the
xerial framing that Java clients write, and read both framed and raw (librdkafka writes it raw).
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from types import ModuleType

import cramjam

from josefine_broker.base.errors import CorruptData, ErrorCode, ExpandsTooFarError, KafkaError
from josefine_broker.base.limits import DECOMPRESSED_BYTES_MAX
from josefine_broker.records.codecs import GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL, Compression
from josefine_broker.records.crc import Buffer

__all__ = ["Compression", "compress", "decompress", "decompress_in_pieces", "decompress_into"]


_STREAMS: dict[int, ModuleType] = {
    Compression.GZIP: cramjam.gzip,
    Compression.LZ4: cramjam.lz4,
    Compression.ZSTD: cramjam.zstd,
}
_LEVELS: dict[int, int] = {
    Compression.GZIP: GZIP_LEVEL,
    Compression.LZ4: LZ4_LEVEL,
    Compression.ZSTD: ZSTD_LEVEL,
}
_CODEC_LEVELS = {(Compression.GZIP, GZIP_LEVEL): 6, (Compression.LZ4, LZ4_LEVEL): 1}
"""Two of Kafka's levels in the codec's own numbers: -1 is zlib's default, and 9 is lz4's fast mode,
which Kafka used before it had levels."""

_XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = Struct(">i")
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""zlib's parameter for gzip's header and trailer."""
_PIECE_BYTES = 64 * 1024
_FIRST_GUESS_BYTES_MIN = 64 * 1024
_OUTPUT_FULL = "failed to write whole buffer"
"""Rust's message when a decoder's output slice is too short: the only error that warrants a larger
one."""


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` compressed for the wire; codec 0 returns it unchanged. `level`: Kafka's number, for
    codecs with levels; None is Kafka's default."""
    if codec == Compression.NONE:
        return data
    if codec == Compression.SNAPPY:
        return _compress_xerial(memoryview(data))
    stream = _stream(codec)
    wanted = _LEVELS[codec] if level is None else level
    level = _CODEC_LEVELS.get((Compression(codec), wanted), wanted)
    if codec == Compression.LZ4:
        return _compress_lz4(data, level)
    return bytes(stream.compress(data, level=level))


def decompress(codec: int, data: Buffer, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """The decompressed bytes. Raises CorruptData, also beyond `bytes_max` of output."""
    if codec == Compression.NONE:
        return data
    try:
        if codec == Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), bytes_max)
        return _decompress_stream(_stream(codec), data, bytes_max)
    except cramjam.DecompressionError as error:
        raise CorruptData(f"{Compression(codec).name.lower()} data: {error}") from error


def decompress_into(codec: int, data: Buffer, room: memoryview) -> int | None:
    """Decompress to the start of `room`, without an intermediate buffer; returns the size.

    None if the room is too small; its content is then undefined. Raises CorruptData.
    """
    try:
        if codec == Compression.NONE:
            return _copy_into(data, room)
        if codec == Compression.SNAPPY:
            return _decompress_snappy_into(memoryview(data), room)
        size: int = _stream(codec).decompress_into(data, room)
        return size
    except cramjam.DecompressionError as error:
        if str(error) == _OUTPUT_FULL:
            return None
        raise CorruptData(f"{Compression(codec).name.lower()} data: {error}") from error


def _copy_into(data: Buffer, room: memoryview) -> int | None:
    size = len(data)
    if size > len(room):
        return None
    room[:size] = data
    return size


def decompress_in_pieces(codec: int, data: Buffer, *, bytes_max: int) -> Iterator[Buffer]:
    """The same bytes in pieces, for readers that need few of them: gzip in 64 KiB, snappy in Java's
    framing in blocks. The other codecs are decoded at once: their decoder cannot stop half way, and
    `bytes_max` bounds its output.

    Raises CorruptData, and ExpandsTooFarError above `bytes_max` of output, both only at the piece
    that causes it.
    """
    if codec == Compression.GZIP:
        yield from _gzip_pieces(data, bytes_max)
    elif codec == Compression.SNAPPY:
        try:
            yield from _snappy_pieces(memoryview(data), bytes_max)
        except cramjam.DecompressionError as error:
            raise CorruptData(f"snappy data: {error}") from error
    else:
        yield decompress(codec, data, bytes_max=bytes_max)


def _gzip_pieces(data: Buffer, bytes_max: int) -> Iterator[Buffer]:
    """The pieces of every member: gzip files may be concatenated."""
    rest, room = bytes(data), bytes_max
    while rest:
        decoder = zlib.decompressobj(_GZIP_WINDOW)
        while not decoder.eof:
            try:
                piece = decoder.decompress(rest, min(_PIECE_BYTES, room + 1))
            except zlib.error as error:
                raise CorruptData(f"gzip data: {error}") from error
            rest = decoder.unconsumed_tail
            if not piece and not rest and not decoder.eof:
                raise CorruptData("gzip data: it is cut")
            room -= len(piece)
            if room < 0:
                raise _expands_past(bytes_max)
            yield piece
        rest = decoder.unused_data


def _expands_past(bytes_max: int) -> ExpandsTooFarError:
    return ExpandsTooFarError(f"compressed records exceed {bytes_max} bytes")


def _stream(codec: int) -> ModuleType:
    stream = _STREAMS.get(codec)
    if stream is None:
        raise KafkaError(ErrorCode.unsupported_compression_type, f"compression codec {codec}")
    return stream


def _decompress_stream(stream: ModuleType, data: Buffer, bytes_max: int) -> Buffer:
    """Decode into an output of guessed size, enlarged fourfold while the decoder finds it too
    short.

    The formats do not reliably carry the size, and decoding without an output limit is unbounded.
    """
    guess = min(bytes_max, max(_FIRST_GUESS_BYTES_MIN, 4 * len(data)))
    while True:
        output = bytearray(guess)
        try:
            size = stream.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise
            if guess == bytes_max:
                raise _expands_past(bytes_max) from error
            del output
            guess = min(bytes_max, 4 * guess)
        else:
            return memoryview(output)[:size]


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """A frame of independent blocks: Kafka's Java code refuses dependent ones, the default."""
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(data if isinstance(data, bytes) else bytes(data))
    return bytes(frame.finish())


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += [_INT32.pack(len(block)), block]
    return b"".join(parts)


def _decompress_snappy(data: memoryview, bytes_max: int) -> Buffer:
    parts = list(_snappy_pieces(data, bytes_max))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_pieces(data: memoryview, bytes_max: int) -> Iterator[Buffer]:
    room = bytes_max
    for block, size in _snappy_blocks(data):
        if size > room:
            raise _expands_past(bytes_max)
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
        yield output
        room -= size


def _decompress_snappy_into(data: memoryview, room: memoryview) -> int | None:
    end = 0
    for block, size in _snappy_blocks(data):
        if size > len(room) - end:
            return None
        cramjam.snappy.decompress_raw_into(block, room[end : end + size])
        end += size
    return end


def _snappy_blocks(data: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Each block with its stated size; the whole data if there is no framing."""
    if data[:8] != _XERIAL_HEADER[:8]:
        yield data, cramjam.snappy.decompress_raw_len(data)
        return
    pos = len(_XERIAL_HEADER)
    while pos < len(data):
        if len(data) - pos < _INT32.size:
            raise CorruptData("snappy data: a block length is cut")
        (size,) = _INT32.unpack_from(data, pos)
        pos += _INT32.size
        if not 0 <= size <= len(data) - pos:
            raise CorruptData(f"snappy data: a block of {size} bytes, {len(data) - pos} are there")
        block = data[pos : pos + size]
        yield block, cramjam.snappy.decompress_raw_len(block)
        pos += size

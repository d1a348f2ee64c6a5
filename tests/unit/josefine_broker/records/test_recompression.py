"""A batch with another codec holds the same records, and says the same of them."""

from itertools import product

import pytest

from josefine_broker.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    BatchHeader,
    parse_header,
    verify,
)
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.codecs import GZIP_LEVELS, LZ4_LEVELS, ZSTD_LEVELS, Compression
from josefine_broker.records.compression import compress, decompress
from josefine_broker.records.reader import read_records
from josefine_broker.records.recompression import in_codec, recompressed

RECORDS = [
    Record(b"k%d" % n, b"value " * n, (("h", b"1"), ("none", None)), 1_700_000_000_000 + n)
    for n in (3, 0, 7, 50)
] + [Record(None, None, (), 1_700_000_000_001)]
FIELDS = {
    "producer_id": 9, "producer_epoch": 2, "base_sequence": 5, "base_offset": 40, "leader_epoch": 3,
}  # fmt: skip
KINDS = (
    {},
    {"transactional": True},
    {"transactional": True, "control": True},
    {"log_append_time": True},
)


@pytest.mark.parametrize(("was", "codec"), list(product(range(5), Compression)))
@pytest.mark.parametrize("kind", KINDS)
def test_batch_with_another_codec_differs_in_nothing_but_how_it_is_packed(
    was: int, codec: Compression, kind: dict[str, bool]
) -> None:
    batch = build_batch(RECORDS, compression=was, **FIELDS, **kind)
    header = parse_header(batch)
    records = decompress(was, batch[HEADER_BYTES:])

    found = recompressed(header, records, codec)

    assert in_codec(memoryview(batch), header, codec, bytes_max=len(records)) == found
    new = parse_header(found)
    verify(found, 0, new)
    assert (new.compression, new.size_bytes) == (codec, len(found))
    assert _unpacked(new) == _unpacked(header)
    assert list(read_records(found)) == list(read_records(batch))


def _unpacked(header: BatchHeader) -> BatchHeader:
    attributes = header.attributes & ~COMPRESSION_MASK
    return header._replace(batch_length=0, crc=0, attributes=attributes)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, GZIP_LEVELS),
        (Compression.LZ4, LZ4_LEVELS),
        (Compression.ZSTD, (ZSTD_LEVELS[0], -5, -1, 0, 1, 3, 12, ZSTD_LEVELS[-1])),
    ],
)
def test_data_of_every_level_is_read_and_higher_levels_pack_tighter(
    codec: Compression, levels: tuple[int, ...]
) -> None:
    data = b"".join(b"%d,%d;" % (n * 7919 % 1013, n % 13) for n in range(3_000))
    sizes = {level: len(compress(codec, data, level)) for level in levels}

    for level in levels:
        assert bytes(decompress(codec, compress(codec, data, level))) == data
    ordered = sorted(level for level in levels if (codec, level) != (Compression.LZ4, 9))
    assert sizes[ordered[-1]] < sizes[ordered[1]]


def test_levels_that_nobody_chose_are_kafkas_defaults() -> None:
    """gzip's is zlib's own; lz4's is the fast mode, not the ninth of the slow ones (KIP-390)."""
    data = b"".join(b"%d,%d;" % (n * 7919 % 1013, n % 13) for n in range(3_000))
    defaults = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}

    for codec, level in defaults.items():
        assert compress(codec, data) == compress(codec, data, level)
    assert compress(Compression.GZIP, data) == compress(Compression.GZIP, data, 6)
    assert len(compress(Compression.LZ4, data)) > len(compress(Compression.LZ4, data, 8))

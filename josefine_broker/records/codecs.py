"""The compression codecs of record batches: their numbers, and Kafka's levels of those that have
levels (KIP-390). The compression itself is in `compression.py`."""

from enum import IntEnum


class Compression(IntEnum):
    """Codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


GZIP_LEVELS = (-1, *range(1, 10))
LZ4_LEVELS = range(1, 18)
ZSTD_LEVELS = range(-(2**17), 23)
GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = -1, 9, 3
"""Kafka's defaults."""

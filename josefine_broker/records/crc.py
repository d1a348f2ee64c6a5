"""CRC32C of a buffer, without copying it.

The `crc32c` package takes any buffer; `google_crc32c` takes `bytes` only, so every writable slice
of a frame would be copied first. Measured on 2 cores: 27 GB/s and 0.12 µs per call against
8-11 GB/s plus the copy.
"""

from crc32c import crc32c as _crc32c

__all__ = ["Buffer", "crc32c"]

Buffer = bytes | bytearray | memoryview
"""Bytes that may belong to other code: read them, never keep them."""


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC32C (Castagnoli) of `data`, continued from `value`: an unsigned 32-bit integer."""
    return _crc32c(data, value)

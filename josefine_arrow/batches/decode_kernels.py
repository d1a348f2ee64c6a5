"""The numba kernels that decode record batches into Arrow buffers.

Rules: integers and arrays in, integers and arrays out; every read is checked against the end of
its record, because numba checks no bounds: malformed bytes give an error, never a read outside of
the input. The caller sizes the outputs so that no input, malformed or not, can overrun them. The
GIL is released, so that the next fetch is received while this one is decoded.

Import this module through `decoder.py`, which sets the cache folder first.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

HEADER_BYTES = 61
"""Of a record batch of magic 2, up to its first record (KIP-98; `DefaultRecordBatch` in Kafka)."""
LENGTH_OVERHEAD_BYTES = 12
"""Base offset and length: the length field counts only what follows it."""
MAGIC = 2
"""The only version that is decoded here."""

# Columns of the batch table that `scan` fills, one row per record batch.
POS, SIZE, BASE_OFFSET, LAST_DELTA, BASE_MS, MAX_MS = range(6)
ATTRIBUTES, COUNT, CRC, PRODUCER, EPOCH = range(6, 11)
TABLE_COLUMNS = 11
"""All are int64, whatever the width of the field: one array holds them."""

# Columns of the section table that `decode` reads, one row per batch with wanted records.
START, END, FIRST_OFFSET, FIRST_MS, FIXED_MS, IS_FIXED, RECORDS, LEADER_EPOCH = range(8)
SECTION_COLUMNS = 8
"""FIXED_MS is every record's time where IS_FIXED is not 0 (log append time)."""


@intrinsic
def copy_bytes(typing_context, target, target_pos, source, source_pos, size):
    """memcpy between two byte arrays: for short values numba's slice assignment spends more time
    on checks than on the copy."""

    def generate(context, builder, signature, arguments):
        to, to_pos, frm, frm_pos, length = arguments
        to_data = context.make_array(signature.args[0])(context, builder, to).data
        from_data = context.make_array(signature.args[2])(context, builder, frm).data
        cgutils.raw_memcpy(
            builder,
            builder.gep(to_data, [to_pos]),
            builder.gep(from_data, [frm_pos]),
            length,
            ir.Constant(length.type, 1),
        )
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@njit(cache=True, nogil=True, inline="always")
def _int32(src, pos):
    """Four big-endian bytes with their sign."""
    n = (
        (np.int64(src[pos]) << 24)
        | (np.int64(src[pos + 1]) << 16)
        | (np.int64(src[pos + 2]) << 8)
        | np.int64(src[pos + 3])
    )
    return n - ((n & 0x80000000) << 1)


@njit(cache=True, nogil=True, inline="always")
def _int64(src, pos):
    """Eight big-endian bytes with their sign: only the upper half keeps its sign bits."""
    return (_int32(src, pos) << 32) | (_int32(src, pos + 4) & 0xFFFFFFFF)


@njit(cache=True, nogil=True)
def scan(src, table):
    """Fill `table` with one row per complete batch; returns (rows, their bytes, fault position).

    Stops at a partial last batch and when `table` is full; a fault position of -1 means no fault.
    """
    pos, size, row = 0, src.size, 0
    while size - pos >= HEADER_BYTES and row < table.shape[0]:
        length = _int32(src, pos + 8)
        # A length below the header's would make the next position go backward, or stay.
        if src[pos + 16] != MAGIC or length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
            return row, pos, pos
        batch_bytes = length + LENGTH_OVERHEAD_BYTES
        if batch_bytes > size - pos:
            break
        # The positions are those of the batch header: base offset at 0, length 8, leader epoch 12,
        # magic 16, checksum 17, attributes 21, last offset delta 23, timestamps 27 and 35, producer
        # id 43, its epoch 51, base sequence 53, record count 57.
        table[row, POS] = pos
        table[row, SIZE] = batch_bytes
        table[row, BASE_OFFSET] = _int64(src, pos)
        table[row, EPOCH] = _int32(src, pos + 12)
        # Unsigned, as the checksum that the caller compares it with.
        table[row, CRC] = _int32(src, pos + 17) & 0xFFFFFFFF
        table[row, ATTRIBUTES] = (np.int64(src[pos + 21]) << 8) | np.int64(src[pos + 22])
        # Of the batch as it was written: compaction keeps it, so it gives the batch's end offset.
        table[row, LAST_DELTA] = _int32(src, pos + 23)
        table[row, BASE_MS] = _int64(src, pos + 27)
        table[row, MAX_MS] = _int64(src, pos + 35)
        table[row, PRODUCER] = _int64(src, pos + 43)
        # What the header claims: the caller bounds it by the batch's bytes before it sizes
        # anything.
        table[row, COUNT] = _int32(src, pos + 57)
        row += 1
        pos += batch_bytes
    return row, pos, -1


@njit(cache=True, nogil=True)
def end_offset(src):
    """The largest end offset of a complete batch, -1 when there is none."""
    # Not `scan`: a reader that skips the records needs no table.
    pos, size, last = 0, src.size, np.int64(-1)
    while size - pos >= HEADER_BYTES:
        length = _int32(src, pos + 8)
        if length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
            break
        if length + LENGTH_OVERHEAD_BYTES > size - pos:
            break
        # From the header alone: a batch that compaction left empty moves the position, too.
        last = max(last, _int64(src, pos) + _int32(src, pos + 23) + 1)
        pos += length + LENGTH_OVERHEAD_BYTES
    return last


@njit(cache=True, nogil=True, inline="always")
def _varint(src, pos, end):
    """Read a zig-zag varint before `end`: (value, next position), position -1 when malformed."""
    # Most varints of a record have one byte: they take no loop.
    if pos >= end:
        return np.int64(0), np.int64(-1)
    byte = np.int64(src[pos])
    pos += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), pos
    # Unsigned from here on: the tenth byte shifts into the sign bit, which overflows an int64.
    n = np.uint64(byte & 0x7F)
    shift = np.uint64(7)
    while shift < np.uint64(70):  # 64 bits take ten bytes at most
        if pos >= end:
            return np.int64(0), np.int64(-1)
        byte = np.int64(src[pos])
        pos += 1
        n |= np.uint64(byte & 0x7F) << shift
        if byte < 128:
            # Zig-zag: the lowest bit is the sign, so that small negative numbers are short, too.
            return np.int64(n >> np.uint64(1)) ^ -np.int64(n & np.uint64(1)), pos
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(cache=True, nogil=True, inline="always")
def _take(src, pos, end, data, data_pos, wanted):
    """Copy a length-prefixed value to `data`: (position, data position, 1 or 0 for null).

    The position is -1 when malformed. A value that is not `wanted` is skipped.
    """
    size, pos = _varint(src, pos, end)
    # -1 is null. The size is compared with what is left, not added to `pos`: that could overflow.
    if pos < 0 or size < -1 or size > end - pos:
        return np.int64(-1), data_pos, 0
    if size < 0:
        return pos, data_pos, 0
    if not wanted:
        return pos + size, data_pos, 1
    copy_bytes(data, data_pos, src, pos, size)
    return pos + size, data_pos + size, 1


# Notes on `decode`, in its order:
# - Arrow's offsets have one entry more than there are values.
# - A record is its size, attributes (one unused byte), time delta, offset delta, key, value and
#   headers. `pos + 1` steps over the attributes: `size` is at least 1.
# - With log append time the records keep their producer's deltas, which no longer count.
# - A fetch returns whole batches: the first and last may reach beyond the wanted offsets.
# - Validity is a byte for each value, not a bit: the caller packs them, if there is a null at all.
# - Headers are only located: their number, which sizes the outputs, is known at the end.
# - A row counts when all of it is read: a malformed record leaves nothing in the result.
# - The next record starts at `end`, not after the last field read: headers may be skipped.
@njit(cache=True, nogil=True)
def decode(
    src,
    sections,
    window,
    keys,
    values,
    offsets,
    millis,
    section_ends,
    header_spans,
    with_keys,
    with_values,
):
    """Decode the records of `sections` in `window` (start offset, end offset, first timestamp).

    Returns (rows, null keys, null values, faulty section or -1). `keys` and `values` are (ends,
    data, valid). `section_ends` receives the row count at the end of each section, and
    `header_spans` the position of each row's headers; if it has no rows, headers are skipped, as
    are keys and values without `with_keys` and `with_values`.
    """
    start_offset, end_offset, from_ms = window
    key_ends, key_data, key_valid = keys
    value_ends, value_data, value_valid = values
    row, null_keys, null_values = 0, 0, 0
    key_pos, value_pos = np.int64(0), np.int64(0)
    key_ends[0] = value_ends[0] = 0
    with_headers = header_spans.shape[0] > 0
    for s in range(sections.shape[0]):
        pos, section_end = sections[s, START], sections[s, END]
        base_offset, base_ms = sections[s, FIRST_OFFSET], sections[s, FIRST_MS]
        fixed_ms, is_fixed = sections[s, FIXED_MS], sections[s, IS_FIXED]
        for _ in range(sections[s, RECORDS]):
            size, pos = _varint(src, pos, section_end)
            if pos < 0 or size < 1 or size > section_end - pos:
                return row, null_keys, null_values, s
            end = pos + size  # bounds all further reads of this record
            delta_ms, pos = _varint(src, pos + 1, end)
            if pos < 0:
                return row, null_keys, null_values, s
            delta, pos = _varint(src, pos, end)
            if pos < 0:
                return row, null_keys, null_values, s
            offset = base_offset + delta
            timestamp_ms = fixed_ms if is_fixed else base_ms + delta_ms
            if offset < start_offset or offset >= end_offset or timestamp_ms < from_ms:
                pos = end
                continue
            pos, key_pos, valid = _take(src, pos, end, key_data, key_pos, with_keys)
            if pos < 0:
                return row, null_keys, null_values, s
            key_valid[row] = valid
            null_keys += 1 - valid
            pos, value_pos, valid = _take(src, pos, end, value_data, value_pos, with_values)
            if pos < 0:
                return row, null_keys, null_values, s
            value_valid[row] = valid
            null_values += 1 - valid
            if with_headers:
                header_spans[row, 0] = pos
                header_spans[row, 1] = end
            offsets[row] = offset
            millis[row] = timestamp_ms
            row += 1
            key_ends[row] = key_pos
            value_ends[row] = value_pos
            pos = end
        if pos != section_end:  # more bytes than the header's count of records
            return row, null_keys, null_values, s
        section_ends[s] = row
    return row, null_keys, null_values, -1


@njit(cache=True, nogil=True)
def count_headers(src, spans, rows, list_ends):
    """Fill `list_ends` with the running count of headers; returns (headers, faulty row or -1)."""
    total = np.int64(0)
    list_ends[0] = 0
    for row in range(rows):
        pos, end = spans[row, 0], spans[row, 1]
        count, pos = _varint(src, pos, end)
        # A header takes at least two bytes. A larger count is wrong, and would size the outputs.
        if pos < 0 or count < 0 or count > (end - pos) // 2:
            return total, row
        # `decode_headers` continues after the count.
        spans[row, 0] = pos
        total += count
        list_ends[row + 1] = total
    return total, -1


@njit(cache=True, nogil=True)
def decode_headers(
    src, spans, rows, list_ends, name_ends, name_data, value_ends, value_data, value_valid
):
    """Decode names and values of the counted headers; returns (null values, faulty row or -1)."""
    # Both run through all rows: a list column's items are contiguous.
    name_pos, value_pos = np.int64(0), np.int64(0)
    null_values = 0
    name_ends[0] = 0
    value_ends[0] = 0
    for row in range(rows):
        pos, end = spans[row, 0], spans[row, 1]
        for header in range(list_ends[row], list_ends[row + 1]):
            size, pos = _varint(src, pos, end)
            # A header's name is never null.
            if pos < 0 or size < 0 or size > end - pos:
                return null_values, row
            copy_bytes(name_data, name_pos, src, pos, size)
            name_pos += size
            pos += size
            pos, value_pos, valid = _take(src, pos, end, value_data, value_pos, True)
            if pos < 0:
                return null_values, row
            value_valid[header] = valid
            null_values += 1 - valid
            name_ends[header + 1] = name_pos
            value_ends[header + 1] = value_pos
        # Bytes after the last header: the count was wrong, or the record's size.
        if pos != end:
            return null_values, row
    return null_values, -1

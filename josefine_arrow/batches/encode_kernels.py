"""The numba kernels that encode Arrow buffers into the records of a batch.

The reverse of `decode_kernels.py`, under the same rules. Import through `encoder.py`.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import numpy as np
from numba import njit

from josefine_arrow.batches.decode_kernels import copy_bytes

RECORD_OVERHEAD_BYTES_MAX = 36
"""Varints and attributes of a record, in addition to the bytes of its key, value and headers."""
HEADER_OVERHEAD_BYTES_MAX = 10
"""Of one header: two varints of up to five bytes, for its name and its value."""


@njit(cache=True, nogil=True)
def murmur2(data, start, end):
    """Kafka's hash of a key (org.apache.kafka.common.utils.Utils.murmur2), as 31 bits."""
    # Each step is cast back to 32 bits: numba would otherwise widen it, and other partitions than
    # those of Kafka's own clients would result.
    # The constants are MurmurHash2's; the seed is the one of Kafka's Java client.
    m = np.uint32(0x5BD1E995)
    length = end - start
    h = np.uint32(0x9747B28C) ^ np.uint32(length)
    pos = start
    # Little endian, byte by byte: the data may start at any address.
    for _ in range(length // 4):
        k = (
            np.uint32(data[pos])
            | (np.uint32(data[pos + 1]) << np.uint32(8))
            | (np.uint32(data[pos + 2]) << np.uint32(16))
            | (np.uint32(data[pos + 3]) << np.uint32(24))
        )
        k = np.uint32(k * m)
        k = np.uint32(k ^ (k >> np.uint32(24)))
        k = np.uint32(k * m)
        h = np.uint32(np.uint32(h * m) ^ k)
        pos += 4
    left = end - pos
    # The rest falls through in the original: three bytes include two, two include one.
    if left == 3:
        h = np.uint32(h ^ (np.uint32(data[pos + 2]) << np.uint32(16)))
    if left >= 2:
        h = np.uint32(h ^ (np.uint32(data[pos + 1]) << np.uint32(8)))
    if left >= 1:
        h = np.uint32(h ^ np.uint32(data[pos]))
        h = np.uint32(h * m)
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * m)
    h = np.uint32(h ^ (h >> np.uint32(15)))
    # Kafka's `toPositive` clears the sign bit; an absolute value would give other partitions.
    return np.int64(h & np.uint32(0x7FFFFFFF))


@njit(cache=True, nogil=True)
def hash_partitions(rows, keys, key_ends, key_valid, count, sticky, run, partitions):
    """The partition of each of `rows`: by key, else in turn, `run` rows without a key at a time."""
    # Rows without a key fill one partition for `run` rows, then the next: batches stay large, as
    # with the sticky partitioner of KIP-480, and no state is needed but `sticky`.
    keyless = 0
    for i in range(rows.size):
        row = rows[i]
        # An empty key is a key; only null is none.
        if key_valid[row]:
            partitions[row] = murmur2(keys, key_ends[row], key_ends[row + 1]) % count
        else:
            partitions[row] = (sticky + keyless // run) % count
            keyless += 1


@njit(cache=True, nogil=True, inline="always")
def _size(n):
    """Size of a zig-zag varint of a non-negative number, in bytes."""
    size = 1
    # Zig-zag of a non-negative number is its double.
    n = n << 1
    while n > 127:
        n >>= 7
        size += 1
    return size


@njit(cache=True, nogil=True, inline="always")
def _put(out, pos, n):
    """Write a zig-zag varint of `n` >= -1; returns the next position."""
    # -1 stands for null, and is the only negative number written: its zig-zag is 1.
    z = np.int64(1) if n < 0 else n << 1
    while z > 127:
        out[pos] = (z & 0x7F) | 0x80
        pos += 1
        z >>= 7
    out[pos] = z
    return pos + 1


@njit(cache=True, nogil=True, inline="always")
def _put_bytes(out, pos, data, start, end, valid):
    """Write a value with its length prefix, or null; returns the next position."""
    if not valid:
        return _put(out, pos, np.int64(-1))
    pos = _put(out, pos, end - start)
    copy_bytes(out, pos, data, start, end - start)
    return pos + end - start


@njit(cache=True, nogil=True, inline="always")
def _field_size(ends, valid, index):
    """Size of a key, value or header value with its length prefix, in bytes."""
    if not valid[index]:
        # The prefix -1 alone.
        return np.int64(1)
    size = np.int64(ends[index + 1]) - np.int64(ends[index])
    return _size(size) + size


@njit(cache=True, nogil=True, inline="always")
def _put_field(out, pos, data, ends, valid, index):
    """`_put_bytes` for an item of an Arrow column."""
    start, end = np.int64(ends[index]), np.int64(ends[index + 1])
    return _put_bytes(out, pos, data, start, end, valid[index])


@njit(cache=True, nogil=True)
def headers_size(begin, end, name_ends, value_ends, value_valid):
    """Size of the headers [begin, end) with their count, in bytes."""
    size = np.int64(_size(end - begin))
    for h in range(begin, end):
        name_size = np.int64(name_ends[h + 1]) - np.int64(name_ends[h])
        size += _size(name_size) + name_size + _field_size(value_ends, value_valid, h)
    return size


@njit(cache=True, nogil=True)
def put_headers(out, pos, begin, end, names, name_ends, values, value_ends, value_valid):
    """Write the headers [begin, end); returns the next position."""
    pos = _put(out, pos, end - begin)
    for h in range(begin, end):
        start, stop = np.int64(name_ends[h]), np.int64(name_ends[h + 1])
        # A header's name cannot be null.
        pos = _put_bytes(out, pos, names, start, stop, True)
        pos = _put_field(out, pos, values, value_ends, value_valid, h)
    return pos


@njit(cache=True, nogil=True)
def encode(
    rows,
    first,
    keys,
    key_ends,
    key_valid,
    values,
    value_ends,
    value_valid,
    list_ends,
    names,
    name_ends,
    header_values,
    header_ends,
    header_valid,
    out,
    bytes_max,
    offset_delta,
    position,
):
    """Append records of rows[first:] to `out` at `position` up to `bytes_max`.

    The first record of an empty batch is written whatever its size, if `out` has room for it.
    `list_ends` is empty when there are no headers. Returns (rows written, next position).
    """
    # A record starts with its own length, so each is measured before it is written; the size also
    # proves that it fits into `out`, because numba checks no bounds.
    with_headers = list_ends.size > 0
    pos = np.int64(position)
    # Counts the records of this call; `offset_delta` those that the batch has already.
    taken = 0
    for i in range(first, rows.size):
        row = rows[i]
        # The broker adds the base offset: a batch counts from 0.
        delta = np.int64(offset_delta + taken)
        begin, end = np.int64(0), np.int64(0)
        if with_headers:
            begin, end = np.int64(list_ends[row]), np.int64(list_ends[row + 1])
        # Attributes and time delta are one byte each: both are 0, as all records of a batch have
        # its time.
        size = 2 + _size(delta)
        size += _field_size(key_ends, key_valid, row) + _field_size(value_ends, value_valid, row)
        size += headers_size(begin, end, name_ends, header_ends, header_valid)
        whole = size + _size(size)
        # Two limits: `out` must hold it, and the batch must stay below the topic's limit, unless
        # this is its first record, which the broker then accepts or refuses.
        if pos + whole > out.size or (pos + whole > bytes_max and delta > 0):
            break
        # Sizes were computed above: nothing written before has to be moved or patched.
        pos = _put(out, pos, size)
        # Attributes, then the time delta.
        out[pos] = 0
        out[pos + 1] = 0
        pos = _put(out, pos + 2, delta)
        pos = _put_field(out, pos, keys, key_ends, key_valid, row)
        pos = _put_field(out, pos, values, value_ends, value_valid, row)
        pos = put_headers(
            out, pos, begin, end, names, name_ends, header_values, header_ends, header_valid
        )
        taken += 1
    return taken, pos


@njit(cache=True, nogil=True, inline="always")
def _zigzag(n):
    """A number of either sign, as varints have it."""
    # 0, -1, 1, -2 become 0, 1, 2, 3: small numbers of either sign stay short.
    return (n << 1) ^ (n >> 63)


@njit(cache=True, nogil=True, inline="always")
def _plain_size(z):
    """Size of a varint of a number that is zig-zag already."""
    # Seven bits in each byte; the eighth says that another one follows.
    # A time's difference may need all ten bytes of 64 bits.
    size = 1
    while z > 127:
        z >>= 7
        size += 1
    return size


@njit(cache=True, nogil=True, inline="always")
def _put_plain(out, pos, z):
    """Write a varint of a number that is zig-zag already; returns the next position."""
    while z > 127:
        out[pos] = (z & 0x7F) | 0x80
        pos += 1
        z >>= 7
    out[pos] = z
    return pos + 1


@njit(cache=True, nogil=True)
def encode_stored(
    first,
    last,
    offsets,
    times,
    keys,
    key_ends,
    key_valid,
    values,
    value_ends,
    value_valid,
    list_ends,
    names,
    name_ends,
    header_values,
    header_ends,
    header_valid,
    out,
    position,
):
    """Write records with the offsets and times that they have, those of rows [first, last), into
    `out` at `position`; both are relative to those of row `first`. Returns (rows written, next
    position): fewer rows if `out` has no room for the next one."""
    # As in `encode`: the size comes first, and proves that the record fits.
    pos = np.int64(position)
    # The headers of a row begin where those of the row before it end.
    begin = np.int64(list_ends[first])
    for row in range(first, last):
        next_row = row + 1
        end = np.int64(list_ends[next_row])
        # Offsets rise, with gaps where records were aborted or erased; times may go back, so their
        # difference may be negative.
        delta = np.int64(offsets[row] - offsets[first])
        time = _zigzag(np.int64(times[row] - times[first]))
        size = 1 + _plain_size(time) + _size(delta)
        size += _field_size(key_ends, key_valid, row) + _field_size(value_ends, value_valid, row)
        size += headers_size(begin, end, name_ends, header_ends, header_valid)
        # The caller computes the space of all rows from above; this is the last check of it, for
        # what is written beyond the end of `out` is somebody else's memory.
        if pos + size + _size(size) > out.size:
            return row - first, pos
        pos = _put(out, pos, size)
        # The attributes of a record: none are defined.
        out[pos] = 0
        # Then the time and the offset, in this order.
        pos = _put_plain(out, pos + 1, time)
        pos = _put(out, pos, delta)
        pos = _put_field(out, pos, keys, key_ends, key_valid, row)
        pos = _put_field(out, pos, values, value_ends, value_valid, row)
        pos = put_headers(
            out, pos, begin, end, names, name_ends, header_values, header_ends, header_valid
        )
        # The next row's headers follow.
        begin = end
    return last - first, pos

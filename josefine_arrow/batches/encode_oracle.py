"""The encoder's kernels in plain Python, record by record: the oracle of `encode_kernels.py`, and
the fallback without numba. Same names, arguments and results."""

from typing import Any

from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.records.builder import varint

RECORD_OVERHEAD_BYTES_MAX = 36
HEADER_OVERHEAD_BYTES_MAX = 10
_NULL = varint(-1)


def hash_partitions(
    rows: Any,
    keys: Any,
    key_ends: Any,
    key_valid: Any,
    count: int,
    sticky: int,
    run: int,
    partitions: Any,
) -> None:
    """The partition of each of `rows`: by key, else in turn, `run` rows without a key at a time."""
    keyless = 0
    for row in rows.tolist():
        if key_valid[row]:
            partitions[row] = partition_for_key(_bytes(keys, key_ends, row), count)
        else:
            partitions[row] = (sticky + keyless // run) % count
            keyless += 1


def encode(
    rows: Any,
    first: int,
    keys: Any,
    key_ends: Any,
    key_valid: Any,
    values: Any,
    value_ends: Any,
    value_valid: Any,
    list_ends: Any,
    names: Any,
    name_ends: Any,
    header_values: Any,
    header_ends: Any,
    header_valid: Any,
    out: Any,
    bytes_max: int,
    offset_delta: int,
    position: int,
) -> tuple[int, int]:
    """Append records of rows[first:] to `out` at `position` up to `bytes_max`, as
    `encode_kernels.encode` does. Returns (rows written, next position)."""
    # The record is built whole and then measured: simple enough to be the kernel's oracle.
    room = memoryview(out)
    taken = 0
    for row in rows[first:].tolist():
        delta = offset_delta + taken
        headers = list_ends, names, name_ends, header_values, header_ends, header_valid
        columns = keys, key_ends, key_valid, values, value_ends, value_valid
        record = _record(row, 0, delta, columns, headers)
        end = position + len(record)
        if end > out.size or (end > bytes_max and delta > 0):
            break
        room[position:end] = record
        position = end
        taken += 1
    return taken, position


def encode_stored(
    first: int, last: int, offsets: Any, times: Any, *columns: Any
) -> tuple[int, int]:
    """Write records with the offsets and times that they have, as `encode_kernels.encode_stored`
    does. `columns`: the rest of its arguments. Returns (rows written, next position)."""
    *arrays, out, position = columns
    room = memoryview(out)
    for row in range(first, last):
        time, delta = int(times[row] - times[first]), int(offsets[row] - offsets[first])
        record = _record(row, time, delta, arrays[:6], arrays[6:])
        end = position + len(record)
        if end > out.size:
            return row - first, position
        room[position:end] = record
        position = end
    return last - first, position


def _record(row: int, time: int, delta: int, columns: Any, headers: Any) -> bytes:
    keys, key_ends, key_valid, values, value_ends, value_valid = columns
    list_ends, names, name_ends, header_values, header_ends, header_valid = headers
    parts = [b"\0", varint(time), varint(delta)]
    _put_field(parts, keys, key_ends, key_valid, row)
    _put_field(parts, values, value_ends, value_valid, row)
    begin, end = list_ends[row : row + 2].tolist() if list_ends.size else (0, 0)
    parts.append(varint(end - begin))
    for header in range(begin, end):
        name = _bytes(names, name_ends, header)
        parts += (varint(len(name)), name)
        _put_field(parts, header_values, header_ends, header_valid, header)
    return b"".join((varint(sum(map(len, parts))), *parts))


def _put_field(parts: list[bytes], data: Any, ends: Any, valid: Any, index: int) -> None:
    """Append a key, value or header value with its length prefix."""
    if not valid[index]:
        parts.append(_NULL)
        return
    content = _bytes(data, ends, index)
    parts += (varint(len(content)), content)


def _bytes(data: Any, ends: Any, index: int) -> bytes:
    taken: bytes = data[ends[index] : ends[index + 1]].tobytes()
    return taken

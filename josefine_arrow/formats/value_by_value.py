"""Columns of bytes decoded one by one, all of them or only the rows that no kernel decodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BYTES_MAX = (1 << 31) - 1
"""Arrow's binary arrays have ends of 32 bits."""

Read = Callable[[bytes], tuple[Any, str | None]]
"""Bytes to (value, None) or (None, the reason)."""


def with_remaining(plain: Any, values: Any, read: Read, kind: pa.DataType) -> tuple[Any, Any]:
    """(one decoded value per binary value, the reasons): those in `plain`, and what `read` makes of
    each value that is null there; all of them if `plain` is None. A null stays null."""
    if plain is None:
        return one_by_one(values, read, kind)
    rows, taken = len(values), plain.is_valid()
    left = pc.and_not(values.is_valid(), taken) if values.null_count else pc.invert(taken)
    rest = np.flatnonzero(flags(left))
    if not len(rest):
        return plain, pa.nulls(rows, pa.string())
    found, reasons = one_by_one(values.take(pa.array(rest)), read, kind)
    # Row by row, from the plain ones or from those that follow them.
    where = np.arange(rows)
    where[rest] = rows + np.arange(len(rest))
    where = pa.array(where)
    reasons = pa.concat_arrays([pa.nulls(rows, pa.string()), reasons])
    return pa.concat_arrays([plain, found]).take(where), reasons.take(where)


def one_by_one(values: Any, read: Read, kind: pa.DataType) -> tuple[Any, Any]:
    """(what `read` makes of each binary value, the reasons); null stays null."""
    pairs = [(None, None) if data is None else read(data) for data in values.to_pylist()]
    found = pa.array([value for value, _ in pairs], kind)
    return found, pa.array([why for _, why in pairs], pa.string())


def in_slices(
    values: Any, rows_max: int, decode: Callable[[Any], tuple[Any, Any]], kind: pa.DataType
) -> tuple[Any, Any]:
    """(values, reasons) of a column, decoded in slices of at most so many rows."""
    parts = [decode(values.slice(at, rows_max)) for at in range(0, len(values), rows_max or 1)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return pa.nulls(0, kind), pa.nulls(0, pa.string())
    objects, reasons = zip(*parts, strict=True)
    return pa.concat_arrays(objects), pa.concat_arrays(reasons)


def flags(column: Any) -> Any:
    """A boolean column without nulls. Not by `to_numpy`, which imports pandas."""
    return bits(column.buffers()[1], column.offset, len(column)).astype(bool)


def bits(buffer: Any, first: int, count: int) -> Any:
    """A bitmap of Arrow's, as a byte per row."""
    found = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return found[first : first + count]

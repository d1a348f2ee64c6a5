"""Dates that delta-rs cannot write: it ends a merge or compaction that has one, at each attempt."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

FIRST_DAY, LAST_DAY = -96_465_292, 95_026_236
"""Days since 1970: the bounds of its type for a date, in the years -262143 and 262142."""
TOO_FAR = "a date that no table can have, in a year beyond 262142"


def has_dates(kind: pa.DataType) -> bool:
    """Whether a type is or has a date."""
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return pa.types.is_date32(kind) or any(map(has_dates, inside))


def too_far(rows: Any) -> Any:
    """The rows of a struct column with a date that cannot be written, as flags; None: no row."""
    if not _is_too_far(rows):
        return None
    return pa.array([_is_too_far(rows.slice(at, 1)) for at in range(len(rows))])


def _is_too_far(column: Any) -> bool:
    kind = column.type
    if pa.types.is_date32(kind):
        found = pc.min_max(column.cast(pa.int32()))
        first, last = found["min"].as_py(), found["max"].as_py()
        return first is not None and (first < FIRST_DAY or last > LAST_DAY)
    if not has_dates(kind):
        return False
    if pa.types.is_struct(kind):
        return any(map(_is_too_far, column.flatten()))
    # A map is a list of pairs.
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    return _is_too_far(column.flatten())

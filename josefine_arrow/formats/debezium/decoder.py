"""Decoder of Debezium's envelopes into rows: a column of values to the row of each change, whether
it deletes that row, and the reason for each bad envelope.

The row of an operation is `after`, or for a delete `before`. The rules are those of `envelope`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.formats.debezium.envelope import DELETE, OPERATIONS, no_row
from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.value_by_value import flags

DecodeColumn = Callable[[Any], tuple[Any, Any]]
"""A column of bytes to (values, reasons)."""
NAMES = ("before", "after", "op")
"""The parts of an envelope that make a row."""


class Changes(NamedTuple):
    """One entry per value. `rows`: null for a bad envelope and for a null value; `reasons`: why an
    envelope is bad, null for a null value; `deleted` and `ops`: null where there is no row."""

    rows: Any
    reasons: Any
    deleted: Any
    ops: Any


def json_envelopes(row: pa.StructType, options: JsonOptions | None = None) -> DecodeColumn:
    """The decoder of JSON envelopes around rows of this type, also of those that a converter with
    `schemas.enable=true` puts into `payload`."""
    envelope = pa.struct([("before", row), ("after", row), ("op", pa.string())])
    decoder = JsonDecoder(pa.struct([pa.field("payload", envelope), *envelope]), options)

    def decode(values: Any) -> tuple[Any, Any]:
        found, reasons = decoder.decode(values)
        payload, *alone = found.flatten()
        plain = pa.StructArray.from_arrays(alone, fields=list(payload.type))
        if payload.null_count == len(payload):
            return plain, reasons
        return _either(payload.is_valid(), payload, plain), reasons

    return decode


def parts_of(envelopes: Any) -> Any:
    """The columns of `NAMES` alone, of envelopes with any columns."""
    at = [envelopes.type.get_field_index(name) for name in NAMES]
    columns = envelopes.flatten()
    return pa.StructArray.from_arrays([columns[each] for each in at], names=list(NAMES))


def changes_of(values: Any, envelopes: Any, reasons: Any) -> Changes:
    """The changes in decoded envelopes. `values`: the bytes that were decoded."""
    before, after, op = envelopes.flatten()
    deleted = pc.fill_null(pc.equal(op, DELETE), False)
    rows = _either(deleted, before, after)
    known = pc.is_in(op, value_set=pa.array(OPERATIONS, pa.string()))
    good = pc.and_(known, rows.is_valid())
    read = pc.and_(values.is_valid(), reasons.is_null())
    wrong = np.flatnonzero(flags(pc.and_not(read, good)))
    if len(wrong):
        reasons = _with_reasons(reasons, wrong, op, before, after)
    nothing = pa.scalar(None, pa.bool_())
    return Changes(
        rows=_either(good, rows, pa.nulls(len(rows), rows.type)),
        reasons=reasons,
        deleted=pc.if_else(good, deleted, nothing),
        ops=pc.if_else(good, op, pa.scalar(None, pa.string())),
    )


def _with_reasons(reasons: Any, wrong: Any, op: Any, before: Any, after: Any) -> Any:
    found = reasons.to_pylist()
    for at in wrong:
        has = (before[at].is_valid, after[at].is_valid)
        found[at] = no_row(op[at].as_py(), has_before=has[0], has_after=has[1])
    return pa.array(found, pa.string())


def _either(which: Any, one: Any, other: Any) -> Any:
    """Row by row `one` where `which` is true, else `other`; both are of one nested type."""
    rows = len(one)
    at = np.arange(rows)
    chosen = flags(which)
    if chosen.all():
        return one
    if not chosen.any():
        return other
    at[~chosen] += rows
    return pa.concat_arrays([one, other]).take(pa.array(at))

"""What is written as JSON is read back equal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.value_reader import ObjectReader
from josefine_arrow.formats.json.writer import json_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.float32(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    (pa.decimal128(38, 6), st.decimals(-(10**20), 10**20, places=6)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), TIMES),
    (pa.timestamp("us", tz="UTC"), TIMES.map(lambda at: at.replace(tzinfo=UTC))),
    (pa.binary(), st.binary(max_size=8)),
]


@st.composite
def columns(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """(a type, its values)."""
    shape = draw(st.sampled_from(["scalar"] * 3 + ["list", "map", "struct"] * (depth > 0)))
    if shape == "scalar":
        return draw(st.sampled_from(SCALARS))
    if shape == "struct":
        fields = {
            name: draw(columns(depth - 1)) for name in draw(st.sets(TEXT, min_size=1, max_size=3))
        }
        kind = pa.struct([(name, each) for name, (each, _) in fields.items()])
        return kind, st.fixed_dictionaries({name: st.none() | v for name, (_, v) in fields.items()})
    inner, values = draw(columns(depth - 1))
    if shape == "list":
        return pa.list_(inner), st.lists(st.none() | values, max_size=3)
    entries = st.dictionaries(TEXT, st.none() | values, max_size=3)
    return pa.map_(pa.string(), inner), entries.map(lambda found: list(found.items()))


@given(data=st.data())
def test_a_value_that_is_written_is_read_back(data: st.DataObject) -> None:
    inner, values = data.draw(columns())
    kind = pa.struct([("x", inner)])
    (row,) = pa.array([{"x": data.draw(st.none() | values)}], kind).to_pylist()

    found, why = ObjectReader(kind, JsonOptions()).read(json_text(row, kind).encode())

    assert why is None
    assert pa.array([found], kind).to_pylist() == [row]


def test_digits_are_kept_and_no_number_is_null() -> None:
    kind = pa.struct([("d", pa.decimal128(10, 2)), ("x", pa.float64()), ("f", pa.float32())])
    row = {"d": Decimal("1.10"), "x": math.nan, "f": float(np.float32(0.1))}

    assert json_text(row, kind) == '{"d":1.10,"x":null,"f":0.1}'
    assert json_text('{"b" : 1.0}', pa.json_()) == '{"b" : 1.0}'

"""A line of CSV is its fields, exactly, or has its reason."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.csv.line_reader import LineReader
from josefine_arrow.formats.json.options import JsonOptions

FIELDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


@given(fields=FIELDS, separator=st.sampled_from(",;\t|"), quoting=st.sampled_from([0, 1]))
def test_the_fields_of_a_written_line_come_back(
    fields: list[str], separator: str, quoting: int
) -> None:
    kind = pa.struct([(f"c{at}", pa.string()) for at in range(len(fields))])
    out = io.StringIO()
    csv.writer(out, delimiter=separator, quoting=quoting).writerow(fields)  # type: ignore[arg-type]

    found, why = LineReader(kind, JsonOptions(), separator).read(out.getvalue().encode())

    assert (found, why) == ({f"c{at}": text for at, text in enumerate(fields)}, None)


KIND = pa.struct(
    [("id", pa.int32()), ("ok", pa.bool_()), ("x", pa.float64()), ("d", pa.decimal128(6, 2))]
)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("+007,TRUE,.5,1.10", {"id": 7, "ok": True, "x": 0.5, "d": Decimal("1.10")}),
        ("-1,false,1e3,5.\r\n", {"id": -1, "ok": False, "x": 1000.0, "d": Decimal("5")}),
        ("\ufeff1,,,", {"id": 1}),
        (",,,", {}),
        ("1,,", "not a line of 4 fields"),
        ("1,,,,", "not a line of 4 fields"),
        ("1,,,\n\n", "not a line of 4 fields"),
        ("", "not a line of 4 fields"),
        ('1,,,"1', "a quote is not closed"),
        ('1,,,"1"2', "a quote is not closed"),
        ("1.0,yes,NaN,1.234", "id INT, ok BOOLEAN, x DOUBLE, d DECIMAL(6,2) would be rounded"),
        (" 1,,1e400,10000", "id INT, x DOUBLE is out of range, d DECIMAL(6,2)"),
        ("--1,,,", "id INT"),
    ],
)
def test_each_field_is_what_it_says_or_a_reason(line: str, becomes: object) -> None:
    found, why = LineReader(KIND, JsonOptions()).read(line.encode())

    if isinstance(becomes, dict):
        assert (found, why) == (becomes, None)
    else:
        assert found is None
        assert why in (becomes, f"does not fit the schema: {becomes}", "not a line of 4 fields")


def test_bytes_that_are_no_text_are_said() -> None:
    read = LineReader(KIND, JsonOptions()).read

    assert read(b"\xff") == (None, "not UTF-8 text")
    assert read("1,,,".encode("utf-16")) == (
        None,
        "UTF-16 text: it begins with that byte order mark, expected UTF-8",
    )

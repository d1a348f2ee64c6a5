"""The texts of an answer's rows: every digit, every zone, and NULL apart from all texts."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from josefine_cli.sql.rows import Result, csv_lines, shown


def result(text: str, limit: int = 0) -> Result:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return Result(connection.sql(text), limit)


@pytest.mark.parametrize(
    ("value", "text", "said"),
    [
        ("NULL", None, "null"),
        ("12345678901234567890.10::DECIMAL(38,2)", "12345678901234567890.10",
         "12345678901234567890.10"),
        ("sum(9223372036854775807) OVER ()", "9223372036854775807", "9223372036854775807"),
        ("0.1::DOUBLE", "0.1", "0.1"),
        ("1e300", "1e+300", "1e+300"),
        ("'nan'::DOUBLE", "nan", "null"),
        ("true", "true", "true"),
        ("timestamptz '2024-06-01 00:00:00.5+02'", "2024-05-31 22:00:00.5+00",
         '"2024-05-31T22:00:00.5Z"'),
        ("timestamp '2024-06-01 00:00:00'", "2024-06-01 00:00:00", '"2024-06-01 00:00:00"'),
        ("date '20000-01-01'", "20000-01-01", '"20000-01-01"'),
        ("interval '1 month'", "1 month", '"1 month"'),
        ("'a\"b'", 'a"b', '"a\\"b"'),
        ("[1.50::DECIMAL(5,2), NULL]", "[1.50, NULL]", "[1.50,null]"),
        ("{'a': timestamptz '2024-01-01 00:00:00Z'}", "{'a': '2024-01-01 00:00:00+00'}",
         '{"a":"2024-01-01T00:00:00Z"}'),
        ("map {'k': 1}", "{k=1}", '{"k":1}'),
    ],
)  # fmt: skip
def test_values_have_all_their_digits(value: str, text: str | None, said: str) -> None:
    assert [*result(f"select {value} as x").texts()] == [(text,)]
    assert [*result(f"select {value} as x").objects()] == [f'{{"x":{said}}}']


def test_bytes_are_text_or_base64() -> None:
    lines = [*result(r"select 'a'::blob as x, '\xFF'::blob as y, NULL::blob as z").objects()]

    assert lines == ['{"x":"a","y_base64":"/w==","z":null}']


def test_columns_of_one_name_are_told_apart() -> None:
    found = result("select a.id, b.id, a.id as id_2 from (select 1 id) a, (select 2 id) b")

    line = json.loads(next(found.objects()))

    assert sorted(line.values()) == [1, 1, 2], "a name that is there twice hides no value"


def test_csv_is_read_back_with_null_apart_from_empty() -> None:
    rows = [("a,b", 'c"d'), ("", None), ("line\nbreak", "NULL"), (None, None)]
    table = pa.table({"x": [row[0] for row in rows], "y, z": [row[1] for row in rows]})
    connection = duckdb.connect()
    connection.register("rows_here", table)

    text = "\r\n".join(
        csv_lines((found := Result(connection.sql("from rows_here"), 0)).columns, found.texts())
    )

    read = [*csv.reader(io.StringIO(text, newline=""))]
    assert read[0] == ["x", "y, z"]
    assert [tuple(row) for row in read[1:]] == [(a or "", b or "") for a, b in rows]
    assert '""' in text.splitlines()[2]
    assert text.endswith("\r\n,")


def test_a_cell_shows_null_and_control_characters() -> None:
    assert [shown(each) for each in (None, "NULL", "", "a\x1b[31m", "é")] == [
        "NULL", "'NULL'", "", r"a\x1b[31m", "é",
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "rows", "is_cut"), [(0, 7, False), (7, 7, False), (6, 6, True)])
def test_rows_after_the_limit_are_cut_with_a_note(limit: int, rows: int, is_cut: bool) -> None:
    found = result("select i from range(7) t(i) order by i desc", limit)

    assert [row[0] for row in found.texts()] == [str(at) for at in range(6, 6 - rows, -1)]
    assert found.is_cut == is_cut


def test_a_decimal_in_json_is_exact() -> None:
    line = next(result("select 0.10::DECIMAL(38,20) as x").objects())

    assert json.loads(line, parse_float=Decimal)["x"] == Decimal("0.1")
    assert line == '{"x":0.10000000000000000000}'

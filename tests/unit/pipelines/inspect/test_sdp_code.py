"""Python text of a declarative pipeline: valid for any name, SQL or path of a file."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.base.errors import Place
from pipelines.inspect.sdp_code import (
    append_flow,
    path_sink,
    source_view,
    sql_view,
    table,
    table_view,
)
from pipelines.model.pipeline import Decode, Format, OnError, Placed
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

TEXTS = st.text(max_size=20)
SOURCE = read(GOOD)[0].sources["raw"]


def strings(code: str) -> list[str]:
    return [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)
            and isinstance(node.value, str)]  # fmt: skip


def decoded(**how: object) -> str:
    place = Place(file="f", line=1, column=1)
    schema = Placed(text=how.pop("schema", "id INT"), place=place, path="p")
    value = Decode(schema=schema, **{"format": Format.JSON, "on_error": OnError.FAIL, **how})
    return source_view("raw", replace(SOURCE, decode=value), ["id > 0"])


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=2))
def test_any_text_of_a_file_is_a_literal_of_the_code(path, name, columns):
    assert path in strings(path_sink(name, path))
    assert path in strings(table_view("t", path, None)) or not path
    assert name in strings(table("f", name, "v", columns))
    assert name in strings(append_flow("f", name, "v"))


@given(TEXTS)
def test_a_select_is_in_the_code_character_by_character(sql):
    code = sql_view("clean", {"raw": ("read_raw", True)}, sql, [])

    (found,) = [each for each in strings(code) if each.startswith("WITH ")]
    assert found == (
        "WITH raw AS (SELECT * FROM STREAM(read_raw)) SELECT * FROM (\n"
        f"{sql.strip().rstrip(';')}\n)"
    )


def test_a_table_among_the_inputs_is_not_a_stream():
    code = sql_view("c", {"a": ("v", True), "t": ("read_t", False)}, "select 1", ["x > 0"])

    assert "a AS (SELECT * FROM STREAM(v)), t AS (SELECT * FROM read_t)" in "".join(strings(code))
    assert "x > 0" in strings(code)


@pytest.mark.parametrize(
    ("on_error", "mode", "says"),
    [
        (OnError.FAIL, "FAILFAST", "value is not null"),
        (OnError.DEAD_LETTER, "PERMISSIVE", "not (value._corrupt_record is not null)"),
        (OnError.NULL, "PERMISSIVE", "value._corrupt_record is not null"),
    ],
)
def test_a_bad_record_fails_the_query_or_is_dropped_or_null(on_error, mode, says):
    code = decoded(on_error=on_error)

    assert mode in strings(code)
    assert says in strings(code)
    assert ("value is not null" in strings(code)) is (on_error is not OnError.NULL)


def test_a_tombstone_that_is_a_row_is_kept():
    assert "value is not null" not in strings(decoded(tombstones=True))


def test_the_column_of_bad_records_has_a_name_that_the_schema_lacks():
    code = decoded(on_error=OnError.DEAD_LETTER, schema="_corrupt_record INT, _Corrupt_Record_ INT")

    assert "not (value._corrupt_record__ is not null)" in strings(code)


def test_fields_of_csv_are_split_by_the_separator_of_the_file():
    assert ";" in strings(decoded(format=Format.CSV, separator=";"))

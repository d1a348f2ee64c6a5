"""Python text of a declarative pipeline: valid for any name, SQL or path of a file."""

from __future__ import annotations

import ast
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from josefine_spark.read.json_schema import parse_schema
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
    conf = how.pop("conf", {})
    place = Place(file="f", line=1, column=1)
    schema = Placed(text=how.pop("schema", "id INT"), place=place, path="p")
    value = Decode(schema=schema, **{"format": Format.JSON, "on_error": OnError.FAIL, **how})
    return source_view("raw", replace(SOURCE, decode=value), ["id > 0"], conf)


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


def test_a_bad_record_fails_the_query_or_is_dropped_or_null():
    failing, dropped, null = (decoded(on_error=each) for each in (
        OnError.FAIL, OnError.DEAD_LETTER, OnError.NULL))  # fmt: skip
    good = "value is not null and json_reason is null"

    assert any(f"case when {good} then true else raise_error(" in each for each in strings(failing))
    assert good in strings(dropped)
    assert not any("json_reason is null" in each for each in strings(null))


def test_a_tombstone_that_is_a_row_is_kept():
    kept = decoded(tombstones=True, on_error=OnError.DEAD_LETTER)

    assert "json_reason is null" in strings(kept)


def test_a_text_that_is_null_makes_no_row_unless_tombstones_do():
    assert "value is not null" in strings(decoded(format=Format.STRING))
    assert "value is not null" not in strings(decoded(format=Format.STRING, tombstones=True))


def test_json_is_decoded_by_the_connector_as_the_file_has_it():
    code = decoded(
        schema="id INT, at TIMESTAMP, days ARRAY<DATE>, m MAP<STRING, DECIMAL(9,2)>, `n-t` "
        "STRUCT<t: TIMESTAMP_NTZ NOT NULL>",
        strict=True,
        accept=("grouped_digits", "rounded_decimals"),
    )
    (listed,) = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Dict)
                 if any(key is not None for key in each.keys)]  # fmt: skip
    options = {
        key.value: value.value
        for key, value in zip(listed.keys, listed.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
    }

    parsed = parse_schema(options["jsonSchema"])
    assert parsed.simpleString() == (
        "struct<id:int,at:timestamp,days:array<date>,m:map<string,decimal(9,2)>,"
        "n-t:struct<t:timestamp_ntz>>"
    )
    assert (options["jsonStrict"], options["jsonAccept"]) == (
        "true", "grouped_digits,rounded_decimals",
    )  # fmt: skip
    assert "from_json" not in code


def test_the_zone_of_times_is_the_files_or_the_sessions():
    zone = "spark.sql.session.timeZone"

    assert f'"jsonTimeZone": spark.conf.get("{zone}")' in decoded()
    assert '"jsonTimeZone": "Europe/Berlin"' in decoded(conf={zone: "Europe/Berlin"})

"""Type names of DDL schemas: slips are told, everything that Spark may take is left alone."""

from __future__ import annotations

import pytest

from josefine_arrow.schema.ddl import names_twice, unknown_types


@pytest.mark.parametrize(
    ("schema", "unknown"),
    [
        ("id BIGIN", ["BIGIN"]),
        ("id: bigin, k sting NOT NULL", ["bigin", "sting"]),
        ("a DECIML(10, 2), b INT", ["DECIML"]),
        ("a ARRAY<MAP<STRIN, STRUCT<x: INTT, y DATE>>>, b TXT", ["STRIN", "INTT", "TXT"]),
        ("a LIST<INT>, b TXT", ["LIST"]),
    ],
)
def test_words_that_are_no_types_are_found(schema, unknown):
    assert unknown_types(schema) == unknown


@pytest.mark.parametrize(
    "schema",
    [
        "id BIGINT, amount DOUBLE",
        "id: int, k: string",
        "a decimal(10, 2) NOT NULL, b varchar(3) COMMENT 'a, bigin > b', `od d` timestamp_ntz",
        "a STRUCT<x: INT COMMENT 'x', y: ARRAY<STRUCT<>>>, m MAP<STRING, DECIMAL(3,1)>",
        "a INTERVAL DAY TO SECOND, b STRING COLLATE UTF8_LCASE, v VARIANT",
        "STRUCT<a: INT>",
        "INT",
        "",
        "a",
        "a INT -- comment",
        "order.ddl",
    ],
)
def test_what_spark_may_take_is_left_alone(schema):
    assert unknown_types(schema) == []


@pytest.mark.parametrize(
    ("schema", "twice"),
    [
        ("id INT, k STRING, ID BIGINT", [("id", "ID")]),
        ("a INT, a INT, `A` INT", [("a", "a"), ("a", "A")]),
        ("a STRUCT<x: INT, X: INT>, x INT", []),
        ("a INT, b MAP<STRING, STRUCT<a: INT>>, c DECIMAL(3, 1) COMMENT 'a, a'", []),
        ("a INT, a", [("a", "a")]),
    ],
)
def test_outermost_columns_whose_names_spark_takes_for_one_are_found(schema, twice):
    assert names_twice(schema) == twice

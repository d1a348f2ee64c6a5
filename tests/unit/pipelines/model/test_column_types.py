"""Which values a column stores without loss, and what its type can grow to. Against Delta itself:
tests/spark/pipelines/contracts/test_stored_types.py."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest

from pipelines.model.column_types import DIGITS_MAX, holds, sql, wider

EXTREMES = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "decimal(1,0)": (-9, 9),
    "decimal(2,0)": (-99, 99),
    "decimal(3,0)": (-999, 999),
    "decimal(9,0)": (-(10**9) + 1, 10**9 - 1),
    "decimal(18,0)": (-(10**18) + 1, 10**18 - 1),
    "decimal(19,0)": (-(10**19) + 1, 10**19 - 1),
    "decimal(5,2)": (Decimal("-999.99"), Decimal("999.99")),
    "decimal(38,10)": (-Decimal("9" * 28 + "." + "9" * 10), Decimal("9" * 28 + "." + "9" * 10)),
}
PLACES = {kind: int(kind[:-1].split(",")[1]) for kind in EXTREMES if "," in kind}


@pytest.mark.parametrize("have", EXTREMES)
@pytest.mark.parametrize("want", EXTREMES)
def test_a_number_type_holds_another_whose_extremes_and_places_it_has(have, want):
    low, high = min(EXTREMES[have]), max(EXTREMES[have])
    fits = all(low <= value <= high for value in EXTREMES[want])

    assert holds(have, want) is (fits and PLACES.get(want, 0) <= PLACES.get(have, 0))


@pytest.mark.parametrize(
    ("have", "want"),
    [
        ("double", "float"), ("double", "int"), ("float", "smallint"), ("timestamp_ntz", "date"),
        ("string", "string collate UNICODE"), ("binary", "void"), ("variant", "variant"),
    ],
)  # fmt: skip
def test_types_that_hold_another(have, want):
    assert holds(have, want)


@pytest.mark.parametrize(
    ("have", "want"),
    [
        ("double", "bigint"), ("float", "int"), ("float", "double"), ("timestamp", "date"),
        ("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp"), ("date", "timestamp"),
        ("double", "decimal(3,1)"), ("string", "int"), ("binary", "string"), ("string", "binary"),
        ("boolean", "int"), ("void", "int"),
    ],
)  # fmt: skip
def test_types_that_would_lose_or_change_a_value(have, want):
    assert not holds(have, want)


KINDS = (*EXTREMES, "float", "double", "date", "timestamp", "timestamp_ntz", "string")


def test_what_a_type_grows_to_holds_both():
    for have, want in itertools.product(KINDS, KINDS):
        to = wider(have, want) if not holds(have, want) else None
        if to is not None:
            assert holds(to, have), (have, want, to)
            assert holds(to, want), (have, want, to)
            assert not to.startswith("decimal") or int(to[8:].split(",")[0]) <= DIGITS_MAX


def test_a_type_is_written_as_sql_writes_it():
    kind = {
        "type": "struct",
        "fields": [
            {"name": "a b", "type": "integer"},
            {"name": "x`", "type": {"type": "array", "elementType": "long"}},
            {"name": "é", "type": {"type": "map", "keyType": "string", "valueType": "byte"}},
        ],
    }

    assert sql(kind) == "struct<`a b`:int,`x```:array<bigint>,`é`:map<string,tinyint>>"
    assert sql(kind, quotes=False) == "struct<a b:int,x`:array<bigint>,é:map<string,tinyint>>"

"""Column types: whether every value of one type can be stored in a column of another. Pure.

A type is that of Spark's `StructType.jsonValue`: a text such as `integer`, or a mapping for a
struct, an array or a map. The text of SQL (`int`) means the same.

A value is stored without loss if casting it back gives the same value, in every session. So a
TIMESTAMP and a TIMESTAMP_NTZ do not hold each other, nor a TIMESTAMP a DATE: the result depends on
the session's time zone. A decimal is not held by a DOUBLE, which has no exact 0.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Type = str | Mapping[str, Any]

_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The decimal digits that the largest value of a type needs."""
_FILLED = {"tinyint": 2, "smallint": 4, "int": 9, "bigint": 18}
"""The decimal digits of which every number fits into a type."""
_ROOM = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""The digits before the point that Delta wants of the decimal that a type is changed to. Source:
Delta's protocol, "Type Widening"."""
_EXACT = {"float": ("tinyint", "smallint"), "double": ("tinyint", "smallint", "int", "float")}
"""Floating-point type → the types whose values it has exactly."""
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
DIGITS_MAX = 38
VOID = "void"


def sql(kind: Type, *, quotes: bool = True) -> str:
    """A type as SQL writes it. `quotes`: names that are not plain are in backticks."""
    if isinstance(kind, str):
        return _SQL.get(kind, kind)
    match kind["type"]:
        case "struct":
            names = (_name(f["name"], quotes=quotes) for f in kind["fields"])
            kinds = (sql(f["type"], quotes=quotes) for f in kind["fields"])
            fields = ",".join(f"{name}:{each}" for name, each in zip(names, kinds, strict=True))
            return f"struct<{fields}>"
        case "array":
            return f"array<{sql(kind['elementType'], quotes=quotes)}>"
        case "map":
            key, value = (sql(kind[of], quotes=quotes) for of in ("keyType", "valueType"))
            return f"map<{key},{value}>"
    return sql(kind["type"], quotes=quotes)


def _name(name: str, *, quotes: bool) -> str:
    return "`" + name.replace("`", "``") + "`" if quotes and not _PLAIN.fullmatch(name) else name


def shape(kind: Type) -> str:
    """`struct`, `array`, `map`; otherwise the type as in SQL."""
    return str(kind["type"]) if isinstance(kind, Mapping) else sql(kind)


def parts(kind: Type) -> dict[str, Type]:
    """The types within a type, by the names that SQL gives them in a path."""
    assert isinstance(kind, Mapping)
    match kind["type"]:
        case "struct":
            return {field["name"]: field["type"] for field in kind["fields"]}
        case "array":
            return {"element": kind["elementType"]}
    return {"key": kind["keyType"], "value": kind["valueType"]}


def holds(have: Type, want: Type) -> bool:
    """Whether a column of type `have` stores every value of the simple type `want` without loss."""
    column, value = sql(have), sql(want)
    if column == value or value == VOID:
        return True
    if column in _EXACT:
        return value in _EXACT[column]
    if column == "timestamp_ntz":
        return value == "date"
    room, need = _decimal(column), _decimal(value)
    if room is None or need is None:
        return _is_text(column) and _is_text(value)
    if column in _DIGITS and value not in _DIGITS:
        room = (_FILLED[column], 0)
    return room[0] >= need[0] and room[1] >= need[1]


def wider(have: Type, want: Type) -> str | None:
    """The type that a column of the simple type `have` can change to in place, by Delta's type
    widening, so that it stores every value of `want`; None if there is none."""
    column, value = sql(have), sql(want)
    for kind in ("smallint", "int", "bigint", "double", "timestamp_ntz"):
        if _can_become(column, kind) and holds(kind, value):
            return kind
    one, other = _decimal(column), _decimal(value)
    if one is None or other is None:
        return None
    whole, places = max(_ROOM.get(column, one[0]), other[0]), max(one[1], other[1])
    return f"decimal({whole + places},{places})" if whole + places <= DIGITS_MAX else None


def _can_become(column: str, kind: str) -> bool:
    """Source: Delta's protocol, "Type Widening": the changes that writers may make."""
    if kind == "double":
        return column in _EXACT["double"]
    if kind == "timestamp_ntz":
        return column == "date"
    return column in _DIGITS and _DIGITS[column] < _DIGITS[kind]


def _decimal(kind: str) -> tuple[int, int] | None:
    """(digits before the point, digits after it) of a number without exponent."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _is_text(kind: str) -> bool:
    return kind == "string" or kind.startswith("string collate ")

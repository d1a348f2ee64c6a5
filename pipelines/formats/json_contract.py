"""What a JSON value must be beyond what Spark's reader checks: it is stored as it was sent.

Spark's reader accepts and changes some values. Always refused, at every depth:

- a DATE that is not `YYYY-MM-DD`: Spark reads 20240105 as days, and drops what follows a date;
- a TIMESTAMP without a date: Spark adds the day on which the batch runs, so a replay differs;
- a TIMESTAMP with more than six decimal places of a second: Spark drops the others;
- a DOUBLE or FLOAT out of range: Spark stores Infinity.

Refused with `strict: true`:

- more decimal places than the DECIMAL has: Spark would round them;
- a comma in the text of a DECIMAL that is not between thousands: Spark drops it, 2,5 becomes 25;
- a number for a TIMESTAMP: Spark takes it as seconds since 1970;
- a key that differs from a column only in letter case: Spark ignores it, and the column is null.

The value is parsed a second time, as a variant; without `strict` only for schemas with such types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, DecimalType, StructType

_NUMBER = "^(DECIMAL|DOUBLE|FLOAT|BIGINT|INT|SMALLINT|TINYINT)"
"""Spark's names of a variant's number types."""

_THOUSANDS = r"^-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?([eE][-+]?[0-9]+)?$"

_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
"""ISO 8601, and RFC 3339's full-date. Spark itself refuses the 30th of February."""

_TIME = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6}0*)?)?)?"
    r" ?(Z|[+-][0-9]{2}(:?[0-9]{2}){0,2}|[A-Za-z][A-Za-z0-9_/+-]*)?)?\z"
)
"""A date, then perhaps a time and a zone. Whether the zone exists, Spark decides."""

Reasons = list["Column"]
"""The complaints about one value: each is null, or states how Spark would change it."""


def reasons(text: Column, schema: StructType, *, strict: bool) -> Reasons:
    """Why a JSON object is refused; none if `text` is not valid JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    return _of_struct(F.try_parse_json(text), schema, "", strict)


def _of_value(variant: Column, kind: DataType, path: str, strict: bool) -> Reasons:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import (
        ArrayType,
        DateType,
        DecimalType,
        DoubleType,
        FloatType,
        MapType,
        StructType,
        TimestampNTZType,
        TimestampType,
    )

    match kind:
        case DateType():
            wrong = is_no_date(_text_of(variant))
            return [F.when(wrong, F.lit(f"{path} DATE is not YYYY-MM-DD"))]
        case TimestampType() | TimestampNTZType():
            sql = kind.simpleString().upper()
            told = f"{path} {sql} is no date with a time of at most six decimal places"
            found = [F.when(is_no_time(_text_of(variant)), F.lit(told))]
            if strict and isinstance(kind, TimestampType):
                is_number = F.schema_of_variant(variant).rlike(_NUMBER)
                found.append(F.when(is_number, F.lit(f"{path} TIMESTAMP is a number")))
            return found
        case DoubleType() | FloatType():
            sql = kind.simpleString().upper()
            number = F.try_variant_get(variant, "$", kind.simpleString())
            return [F.when(is_infinite(number), F.lit(f"{path} {sql} is out of range"))]
        case DecimalType() if strict:
            sql = kind.simpleString().upper()
            text = F.try_variant_get(variant, "$", "string")
            return [
                F.when(_has_a_comma(text), F.lit(f"{path} {sql} would lose its comma")),
                F.when(_is_rounded(text, kind), F.lit(f"{path} {sql} would be rounded")),
            ]
        case StructType():
            return _of_struct(variant, kind, f"{path}.", strict)
        case ArrayType():
            inner = F.try_variant_get(variant, "$", "array<variant>")
            return _of_each(inner, kind.elementType, f"{path}[]", strict)
        case MapType():
            inner = F.map_values(F.try_variant_get(variant, "$", "map<string,variant>"))
            return _of_each(inner, kind.valueType, f"{path}[]", strict)
    return []


def _of_struct(variant: Column, schema: StructType, path: str, strict: bool) -> Reasons:
    from pyspark.sql import functions as F  # noqa: N812

    given = F.try_variant_get(variant, "$", "map<string,variant>")
    found = _astray(given, schema, path) if strict else []
    for field in schema.fields:
        value = F.try_element_at(given, F.lit(field.name))
        found += _of_value(value, field.dataType, f"{path}{field.name}", strict)
    return found


def _astray(given: Column, schema: StructType, path: str) -> Reasons:
    """A key that only its letter case keeps from a column."""
    from pyspark.sql import functions as F  # noqa: N812

    names = [F.lit(name) for name in schema.names]
    lower = [F.lit(name.lower()) for name in schema.names]
    astray = F.filter(F.map_keys(given), lambda key: ~key.isin(names) & F.lower(key).isin(lower))
    told = F.concat(F.lit(f"key {path}"), F.get(astray, 0), F.lit(" in another letter case"))
    return [F.when(F.size(astray) > 0, told)]


def _of_each(values: Column, kind: DataType, path: str, strict: bool) -> Reasons:
    """The complaints about the first element that has one."""
    from pyspark.sql import functions as F  # noqa: N812

    def number(index: int) -> Callable[[Column], Column]:
        return lambda variant: _of_value(variant, kind, path, strict)[index]

    count = len(_of_value(F.try_parse_json(F.lit("0")), kind, path, strict))
    return [F.get(F.array_compact(F.transform(values, number(index))), 0) for index in range(count)]


def _text_of(variant: Column) -> Column:
    """The text of a JSON string, null for any other value."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.try_variant_get(variant, "$", "string")
    return F.when(F.schema_of_variant(variant) == "STRING", text)


def is_no_date(text: Column) -> Column:
    """Whether a text is no `YYYY-MM-DD`; null for null."""
    return ~text.rlike(_DATE)


def is_no_time(text: Column) -> Column:
    """A date alone is the midnight at which it begins, in the session's time zone."""
    return ~text.rlike(_TIME)


def is_infinite(number: Column) -> Column:
    """Whether a DOUBLE or FLOAT is infinite or NaN, neither of which JSON has; null for null."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.isnan(number) | (F.abs(number) == F.lit(float("inf")))


def _has_a_comma(text: Column) -> Column:
    return text.contains(",") & ~text.rlike(_THOUSANDS)


def _is_rounded(text: Column, kind: DecimalType) -> Column:
    """Spark writes a number with an exponent as a double, and drops the commas of a quoted one."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.regexp_replace(text, ",", "")
    fits = text.rlike(rf"^-?[0-9]+(\.[0-9]{{0,{kind.scale}}}0*)?$")
    exact, kept = (
        text.try_cast(f"decimal(38,{scale})") for scale in (max(18, kind.scale), kind.scale)
    )
    with_exponent = text.rlike("[eE]") & (exact == kept)
    return text.isNotNull() & ~F.coalesce(fits | with_exponent, F.lit(False))

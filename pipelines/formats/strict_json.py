"""The rules of `strict: true`: it refuses JSON values that Spark's reader accepts but changes.

- more decimal places than the DECIMAL has: Spark would round them;
- a comma in the text of a DECIMAL that is not between thousands: Spark drops it, 2,5 becomes 25;
- a number for a TIMESTAMP: Spark takes it as seconds since 1970;
- a key that differs from a column only in letter case: Spark ignores it, and the column is null.

At every depth of structs, arrays and maps. The value is parsed a second time, as a variant.
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

Reasons = list["Column"]
"""The complaints about one value: each is null, or states how Spark would change it."""


def reasons(text: Column, schema: StructType) -> Reasons:
    """Why a JSON object is refused; none if `text` is not valid JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    return _of_struct(F.try_parse_json(text), schema, "")


def _of_value(variant: Column, kind: DataType, path: str) -> Reasons:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType, TimestampType

    match kind:
        case DecimalType():
            sql = kind.simpleString().upper()
            text = F.try_variant_get(variant, "$", "string")
            return [
                F.when(_has_a_comma(text), F.lit(f"{path} {sql} would lose its comma")),
                F.when(_is_rounded(text, kind), F.lit(f"{path} {sql} would be rounded")),
            ]
        case TimestampType():
            is_number = F.schema_of_variant(variant).rlike(_NUMBER)
            return [F.when(is_number, F.lit(f"{path} TIMESTAMP is a number"))]
        case StructType():
            return _of_struct(variant, kind, f"{path}.")
        case ArrayType():
            inner = F.try_variant_get(variant, "$", "array<variant>")
            return _of_each(inner, kind.elementType, f"{path}[]")
        case MapType():
            inner = F.map_values(F.try_variant_get(variant, "$", "map<string,variant>"))
            return _of_each(inner, kind.valueType, f"{path}[]")
    return []


def _of_struct(variant: Column, schema: StructType, path: str) -> Reasons:
    from pyspark.sql import functions as F  # noqa: N812

    names = [F.lit(name) for name in schema.names]
    lower = [F.lit(name.lower()) for name in schema.names]
    given = F.try_variant_get(variant, "$", "map<string,variant>")
    astray = F.filter(F.map_keys(given), lambda key: ~key.isin(names) & F.lower(key).isin(lower))
    found = [
        F.when(
            F.size(astray) > 0,
            F.concat(F.lit(f"key {path}"), F.get(astray, 0), F.lit(" in another letter case")),
        )
    ]
    for field in schema.fields:
        value = F.try_element_at(given, F.lit(field.name))
        found += _of_value(value, field.dataType, f"{path}{field.name}")
    return found


def _of_each(values: Column, kind: DataType, path: str) -> Reasons:
    """The complaints about the first element that has one."""
    from pyspark.sql import functions as F  # noqa: N812

    def number(index: int) -> Callable[[Column], Column]:
        return lambda variant: _of_value(variant, kind, path)[index]

    count = len(_of_value(F.try_parse_json(F.lit("0")), kind, path))
    return [F.get(F.array_compact(F.transform(values, number(index))), 0) for index in range(count)]


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

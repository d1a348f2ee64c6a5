"""Rows with the types of the table that takes them: fields in its order and spelling."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import quoted
from pipelines.model.schema_evolution import stores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def as_typed(rows: DataFrame, table: StructType) -> DataFrame:
    """Rows with the table's types, as `casts` makes them."""
    made = casts(rows.schema, table)
    return rows.withColumns(made) if made else rows


def casts(
    rows: StructType, table: StructType, only: Collection[str] | None = None
) -> dict[str, Column]:
    """Column → its value with the table's type, of rows with this schema, where the table stores it
    without loss. Others stay as they are, for the comparison of the columns to refuse. `only`:
    these columns, in lower case."""
    from pyspark.sql import functions as F  # noqa: N812

    there = {field.name.lower(): field.dataType for field in table.fields}
    made: dict[str, Column] = {}
    for field in rows.fields:
        lower = field.name.lower()
        to = there.get(lower)
        if to is None or (only is not None and lower not in only):
            continue
        kind = field.dataType
        if not _is_same(kind, to) and stores(to.jsonValue(), kind.jsonValue()):
            made[field.name] = _cast(F.col(quoted(field.name)), kind, to)
    return made


def _is_same(kind: DataType, to: DataType) -> bool:
    """Whether the types differ in nullability at most."""
    return kind.simpleString() == to.simpleString()


def _cast(column: Column, kind: DataType, to: DataType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    if _is_same(kind, to):
        return column
    if isinstance(kind, StructType) and isinstance(to, StructType):
        fields = {field.name.lower(): field for field in kind.fields}
        parts = []
        for field in to.fields:
            own = fields.get(field.name.lower())
            part = (
                _cast(column.getField(own.name), own.dataType, field.dataType)
                if own is not None
                else F.lit(None).cast(field.dataType)
            )
            parts.append(part.alias(field.name))
        return F.when(column.isNotNull(), F.struct(*parts))
    if isinstance(kind, ArrayType) and isinstance(to, ArrayType):
        of, element = kind.elementType, to.elementType
        return F.transform(column, lambda each: _cast(each, of, element))
    if isinstance(kind, MapType) and isinstance(to, MapType):
        return _cast_map(column, kind, to)
    return column.cast(to)


def _cast_map(column: Column, kind: Any, to: Any) -> Column:
    """No two keys become one: the table's type has each value of theirs."""
    from pyspark.sql import functions as F  # noqa: N812

    if not _is_same(kind.keyType, to.keyType):
        column = F.transform_keys(column, lambda key, _: _cast(key, kind.keyType, to.keyType))
    return F.transform_values(column, lambda _, each: _cast(each, kind.valueType, to.valueType))

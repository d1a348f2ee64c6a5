"""Total order of rows, as a tie-break: compares every column, so no two different rows are
equal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from pipelines.base.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


PRIVATE = "_josefine_"
"""Prefix of a batch's columns that are in no table and decide nothing."""


def ranked(schema: StructType, but: Collection[str], side: str = "") -> Iterator[str]:
    """The columns as SQL that Spark can compare, without those of the lower-case names `but`.

    `side` is the prefix of the columns, such as `s.`.
    """
    for each in schema.fields:
        if each.name.lower() not in but and not each.name.startswith(PRIVATE):
            name = f"{side}{quoted(each.name)}"
            yield name if _is_ordered(each.dataType) else f"to_json({name})"


def _is_ordered(kind: DataType) -> bool:
    """Whether Spark compares values of this type."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(kind, StructType):
        return all(_is_ordered(each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_ordered(kind.elementType)
    return not isinstance(kind, (MapType, VariantType))

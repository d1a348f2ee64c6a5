"""JSON with VARIANT columns: a key that is given twice inside of one makes a bad record, which the
reason names. Spark 4.2 alone would call such a text no JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.json.variant_keys import Shape, why_unreadable
from pipelines.formats.text_encoding import without_mark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from pipelines.formats.decode import Values

_WHY, _VALUE = "why", "value"


def shape_of(kind: DataType) -> Shape | None:
    """Where a type has VARIANT; None if nowhere."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(kind, VariantType):
        return Shape(is_variant=True)
    if isinstance(kind, StructType):
        below = {each.name: shape_of(each.dataType) for each in kind.fields}
        fields = {name: shape for name, shape in below.items() if shape is not None}
        return Shape(fields=fields) if fields else None
    items = None
    if isinstance(kind, ArrayType):
        items = shape_of(kind.elementType)
    elif isinstance(kind, MapType):
        items = shape_of(kind.valueType)
    return None if items is None else Shape(items=items)


class VariantValues:
    """A JSON format whose columns have VARIANT. `inner`: the format itself."""

    def __init__(self, inner: Values, shape: Shape) -> None:
        self._inner, self._shape = inner, shape

    def parse(self, data: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        text = without_mark(data)
        # Only what Spark makes no variant of goes to Python: as good as nothing. And `from_json`
        # never gets such a key, so no version of Spark can stop the batch there.
        suspect = F.when(F.try_parse_json(text.cast("string")).isNull(), text)
        why = _looked_through(suspect, self._shape)
        value = F.when(why.isNull(), self._inner.parse(data))
        return F.struct(why.alias(_WHY), value.alias(_VALUE))

    def is_good(self, data: Column, parsed: Column) -> Column:
        return parsed.getField(_WHY).isNull() & self._inner.is_good(data, parsed.getField(_VALUE))

    def result(self, parsed: Column) -> Column:
        return self._inner.result(parsed.getField(_VALUE))

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        of_inner = self._inner.reason(data, parsed.getField(_VALUE))
        return F.coalesce(parsed.getField(_WHY), of_inner)


def _looked_through(data: Column, shape: Shape) -> Column:
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def look(column: pa.Array) -> pa.Array:
        values = column.to_pylist()
        found = [None if data is None else why_unreadable(data, shape) for data in values]
        return pa.array(found, pa.string())

    # Spark derives the UDF kind from these hints and warns about an explicit one.
    look.__annotations__ = {"column": pa.Array, "return": pa.Array}
    made: Any = arrow_udf
    why: Column = made(look, "STRING")(data)
    return why

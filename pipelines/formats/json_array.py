"""JSON arrays whose elements are rows (`explode: true`): the pieces of a value.

Each element becomes a piece of the record: `[element]`, an array with that element alone, with the
record's offset. A bad element is a dead letter with its piece as the value, so that a replay of it
makes the row of this element and no other. A value that is not an array is one piece, unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.confluent.framing import HEADER_BYTES, FramingError, split
from josefine_arrow.formats.json.array_elements import ElementsError, elements_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

ELEMENT, NOT_AN_ARRAY = "_element", "_not_an_array"
"""Columns of the pieces: the element's index, null if the value is not an array; why it is not."""
PIECE = (ELEMENT, NOT_AN_ARRAY)
_PIECES = "_pieces"

Piece = tuple[bytes | None, int | None, str | None]
"""(the value, the index of its element, why the value is not an array)"""


def pieces_of(data: bytes | None, *, framed: bool = False) -> list[Piece]:
    """The pieces of one value; none of an empty array. Each has the frame of the value."""
    if data is None:
        return [(None, None, None)]
    try:
        elements = elements_of(split(data)[1] if framed else data)
    except (ElementsError, FramingError) as error:
        return [(data, None, str(error))]
    header = data[:HEADER_BYTES] if framed else b""
    return [(header + b"[" + each + b"]", at, None) for at, each in enumerate(elements)]


def exploded(frame: DataFrame, column: str, *, framed: bool) -> DataFrame:
    """One row for each piece of a column's values, with `ELEMENT`."""
    from pyspark.sql import functions as F  # noqa: N812

    wide = frame.select("*", F.explode(_pieces(F.col(column), framed=framed)).alias(_PIECES))
    for name in (column, ELEMENT, NOT_AN_ARRAY):
        field = "value" if name == column else name
        wide = wide.withColumn(name, F.col(_PIECES).getField(field))
    return wide.drop(_PIECES)


def _pieces(data: Column, *, framed: bool) -> Column:
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    names = ("value", ELEMENT, NOT_AN_ARRAY)
    fields = zip(names, (pa.binary(), pa.int32(), pa.string()), strict=True)
    kind = pa.list_(pa.struct([*fields]))

    def cut(column: pa.Array) -> pa.Array:
        values = (pieces_of(value, framed=framed) for value in column.to_pylist())
        return pa.array(
            [[dict(zip(names, each, strict=True)) for each in pieces] for pieces in values], kind
        )

    # Spark derives the UDF kind from these hints and warns about an explicit one.
    cut.__annotations__ = {"column": pa.Array, "return": pa.Array}
    made: Any = arrow_udf
    sql = f"ARRAY<STRUCT<value: BINARY, {ELEMENT}: INT, {NOT_AN_ARRAY}: STRING>>"
    column: Column = made(cut, sql)(data)
    return column

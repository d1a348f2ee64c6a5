"""Values that a change does not have: a row with Debezium's placeholder in some of its columns.

`unavailable: keep` gives such a column the value that the key's preceding row has: the greatest one
below the row in the order of `upsert.py`, from the batch or the table. A row that is copied or read
again finds the same value. If there is no preceding row, the value is null.

Marked rows have null in place of the placeholder and the names of these columns in `KEPT`, which is
never in a table. `delete_when` is evaluated before: the placeholder is not null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from josefine_arrow.formats.debezium.unavailable import Forms, forms_of
from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Sink, Unavailable
from pipelines.transforms.ordering import PRIVATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

KEPT = f"{PRIVATE}kept"
"""The column of marked rows."""
_ORDER = f"{PRIVATE}order"
_FOUND = f"{PRIVATE}found"


def marked(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows without placeholders; with `keep` also with `KEPT`, if a column can have one."""
    from pyspark.sql import functions as F  # noqa: N812

    latest = sink.latest
    assert latest is not None
    if latest.unavailable not in (Unavailable.KEEP, Unavailable.NULL):
        return frame
    found = dict(conditions(frame.schema, latest.placeholder, (*sink.keys, *latest.columns)))
    columns = [
        F.expr(f"CASE WHEN NOT {found[name]} THEN {quoted(name)} END").alias(name)
        if name in found
        else F.col(quoted(name))
        for name in frame.columns
    ]
    if found and latest.unavailable is Unavailable.KEEP:
        columns.append(F.expr(_kept(found)).alias(KEPT))
    return frame.select(*columns)


def _kept(found: Mapping[str, str]) -> str:
    names = (f"CASE WHEN {found[name]} THEN {text_of(name)} END" for name in found)
    return f"array_compact(array({', '.join(names)}))"


def conditions(
    schema: StructType, placeholder: str, but: Collection[str]
) -> Iterator[tuple[str, str]]:
    """(column, SQL that is true of a placeholder in it and false of any other value), for the
    columns whose type can have one."""
    forms, out = forms_of(placeholder), {name.lower() for name in but}
    for field in schema.fields:
        condition = _condition(quoted(field.name), field.dataType, forms)
        if condition and field.name.lower() not in out:
            yield field.name, f"coalesce({condition}, false)"


def _condition(column: str, kind: DataType, forms: Forms) -> str:
    """ "" for a type that cannot have a placeholder."""
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(kind, T.StringType):
        return f"{column} IN ({', '.join(map(text_of, forms.texts))})"
    data = f"unhex('{forms.data.hex()}')"
    if isinstance(kind, T.BinaryType):
        return f"{column} = {data}"
    text = text_of(forms.text)
    if isinstance(kind, T.MapType):
        is_text = isinstance(kind.keyType, T.StringType) and isinstance(
            kind.valueType, T.StringType
        )
        found = f"(size({column}) = 1 AND element_at({column}, {text}) = {text})"
        return found if is_text else ""
    if not isinstance(kind, T.ArrayType):
        return ""
    element = kind.elementType
    if isinstance(element, T.StringType):
        return f"{column} IN ({', '.join(f'array({text_of(each)})' for each in forms.elements)})"
    if isinstance(element, T.BinaryType):
        return f"{column} = array({data})"
    # A number for each byte needs three digits before the point.
    is_wide = not isinstance(element, T.DecimalType) or element.precision - element.scale >= 3
    if isinstance(element, T.NumericType) and is_wide:
        numbers = ", ".join(map(str, forms.numbers))
        return f"{column} = cast(array({numbers}) AS array<{element.simpleString()}>)"
    return ""


def text_of(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def with_found(frame: DataFrame, sink: Sink, order: str, window: str, gone: str) -> DataFrame:
    """Marked rows with the column `_FOUND`: a field for each column of `candidates`, null if the
    row has the value itself, else what `window` has: the value `v` of the greatest row that has it
    and that row's `o`; null if there is none.

    `order`: a row's place in the order of its key; `gone`: true of rows after which nothing is
    known of their key. All are SQL over the rows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    frame = frame.withColumn(_ORDER, F.expr(order))
    fields = []
    for name in candidates(frame.schema, sink):
        is_kept = f"array_contains(`{KEPT}`, {text_of(name)})"
        value = f"struct(CASE WHEN NOT {gone} THEN {quoted(name)} END AS v, `{_ORDER}` AS o)"
        has_it = f"CASE WHEN {gone} OR NOT {is_kept} THEN `{_ORDER}` END"
        found = f"max_by({value}, {has_it}) OVER ({window})"
        fields.append(f"CASE WHEN {is_kept} THEN struct({found} AS found) END AS {quoted(name)}")
    return frame.withColumn(_FOUND, F.expr(f"struct({', '.join(fields)})")).drop(_ORDER)


def filled(frame: DataFrame) -> DataFrame:
    """Rows of `with_found` with the found values."""
    from pyspark.sql import functions as F  # noqa: N812

    names = frame.schema[_FOUND].dataType.fieldNames()  # type: ignore[attr-defined]
    columns = [
        F.expr(
            f"CASE WHEN {_place(name)} IS NULL THEN {quoted(name)} ELSE {_place(name)}.found.v END"
        ).alias(name)
        if name in names
        else F.col(quoted(name))
        for name in frame.columns
    ]  # fmt: skip
    return frame.select(*columns)


def with_places(frame: DataFrame) -> DataFrame:
    """Filled rows in which `KEPT` is, for MERGE, a struct with a field for each column: null if the
    row had the value itself, else the `o` of `with_found`."""
    from pyspark.sql import functions as F  # noqa: N812

    names = frame.schema[_FOUND].dataType.fieldNames()  # type: ignore[attr-defined]
    fields = (
        f"CASE WHEN {_place(name)} IS NOT NULL THEN struct({_place(name)}.found.o AS o) END "
        f"AS {quoted(name)}"
        for name in names
    )
    return frame.withColumn(KEPT, F.expr(f"struct({', '.join(fields)})")).drop(_FOUND)


def without_found(frame: DataFrame) -> DataFrame:
    """Filled rows that are still marked."""
    return frame.drop(_FOUND)


def _place(name: str) -> str:
    return f"`{_FOUND}`.{quoted(name)}"


def candidates(schema: StructType, sink: Sink) -> Sequence[str]:
    """The columns of marked rows that may have had a placeholder."""
    assert sink.latest is not None
    but = (*sink.keys, *sink.latest.columns)
    return [name for name, _ in conditions(schema, sink.latest.placeholder, but) if name != KEPT]


def kept_from_table(column: str, order: str) -> str:
    """SQL of a column of a row that MERGE updates: the table's value if the batch's row lacks it
    and the table's row is later than the one whose value it took. `order`: that of the table's."""
    place = f"s.`{KEPT}`.{quoted(column)}"
    return (
        f"CASE WHEN {place} IS NOT NULL AND ({place}.o IS NULL OR {place}.o < {order}) "
        f"THEN t.{quoted(column)} ELSE s.{quoted(column)} END"
    )

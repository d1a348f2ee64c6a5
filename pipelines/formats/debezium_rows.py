"""The Debezium format: envelopes to a struct with the row, and the reason for each bad one.

The row of an operation is `after`, or for a delete `before`. A truncate contains no row and is bad,
as is an envelope without the row that its operation requires. If the pipeline uses the position,
an envelope without one is bad, too: null would lose against every other change of the row.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from josefine_arrow.formats.debezium.documents import PLAIN
from josefine_arrow.formats.debezium.envelope import (
    A_TRUNCATE,
    DELETE,
    DELETED,
    NO_AFTER,
    NO_BEFORE,
    NO_OPERATION,
    OPERATIONS,
    ROW,
    TRUNCATE,
    UNKNOWN_OPERATION,
)
from josefine_arrow.formats.debezium.position import (
    ABSENT,
    CONNECTORS,
    NO_CONNECTOR,
    POSITION,
    SEPARATOR,
    Part,
    malformed,
    missing,
    unknown_connector,
)
from pipelines.formats.json import JsonValues
from pipelines.formats.python_values import of_parts, value_of, why_of, with_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from josefine_arrow.formats.json.options import JsonOptions
    from pipelines.formats.decode import Values


_DOCUMENTS = ("before", "after")
"""The columns of an envelope that are a row or, of MongoDB, a document."""


class EnvelopeInJson:
    """JSON: an envelope alone, or as `payload` next to its schema."""

    def __init__(self, wide: StructType, options: JsonOptions | None = None) -> None:
        """`wide`: the columns of `debezium.wide_of`."""
        self._inner = JsonValues(wide, options)
        self._names = [name for name in wide.names if name != "payload"]

    def parse(self, data: Column) -> Column:
        """The envelope is chosen here: later each field of it would repeat the choice."""
        from pyspark.sql import functions as F  # noqa: N812

        def chosen(made: Column) -> Column:
            found = self._inner.result(made)
            alone = F.struct(*[found.getField(name).alias(name) for name in self._names])
            envelope = F.when(found.isNotNull(), F.coalesce(found.getField("payload"), alone))
            return of_parts(envelope, why_of(made))

        return with_name(self._inner.parse(data), chosen)

    def is_good(self, data: Column, parsed: Column) -> Column:
        return self._inner.is_good(data, parsed)

    def result(self, parsed: Column) -> Column:
        return value_of(parsed)

    def reason(self, data: Column, parsed: Column) -> Column:
        """The reason names a column of the envelope, wherever that is."""
        from pyspark.sql import functions as F  # noqa: N812

        said = self._inner.reason(data, parsed)
        return F.regexp_replace(said, r"(^|: |, |key )payload\.", "$1")


class DocumentEnvelopes:
    """MongoDB's envelopes, whose documents are JSON texts, with the row's columns. `inner`: the
    format of the envelopes around texts; `names`: their columns."""

    def __init__(
        self,
        inner: Values,
        names: list[str],
        row: StructType,
        options: JsonOptions | None = None,
    ) -> None:
        self._inner = inner
        self._names = names
        self._row = JsonValues(row, options)

    def parse(self, data: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        envelope = self._inner.parse(data)
        result = self._inner.result(envelope)
        documents = (self._row.parse(_data(result, name)).alias(name) for name in _DOCUMENTS)
        return F.struct(envelope.alias("envelope"), *documents)

    def is_good(self, data: Column, parsed: Column) -> Column:
        envelope = parsed.getField("envelope")
        good = self._inner.is_good(data, envelope)
        for name in _DOCUMENTS:
            text = _data(self._inner.result(envelope), name)
            good &= text.isNull() | self._row.is_good(text, parsed.getField(name))
        return good

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        envelope = self._inner.result(parsed.getField("envelope"))
        columns = []
        for name in self._names:
            column = envelope.getField(name)
            if name in _DOCUMENTS:
                column = F.when(column.isNotNull(), self._row.result(parsed.getField(name)))
            columns.append(column.alias(name))
        return F.struct(*columns)

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        envelope = parsed.getField("envelope")
        reasons = [F.when(~self._inner.is_good(data, envelope), self._inner.reason(data, envelope))]
        for name in _DOCUMENTS:
            text, found = _data(self._inner.result(envelope), name), parsed.getField(name)
            wrong = text.isNotNull() & ~F.coalesce(self._row.is_good(text, found), F.lit(False))
            told = F.concat(F.lit(f"`{name}`: "), self._row.reason(text, found))
            reasons.append(F.when(wrong, told))
        return F.coalesce(*reasons)


def _data(envelope: Column, name: str) -> Column:
    """The bytes of a document as plain JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    text = envelope.getField(name)
    return reduce(lambda one, pattern: F.regexp_replace(one, pattern, "$1"), PLAIN, text).cast(
        "binary"
    )


class DebeziumValues:
    """`format: debezium`. `inner`: the format of the envelopes; `names`: their columns; `source`:
    the fields of their `source` if there is a column with the position, else None; `documents`: a
    delete may have no row, as MongoDB's without pre-images, whose record has only the key."""

    def __init__(
        self,
        inner: Values,
        names: list[str],
        source: Collection[str] | None = None,
        *,
        documents: bool = False,
    ) -> None:
        self._inner = inner
        self._names = names
        self._source = source
        self._documents = documents

    def parse(self, data: Column) -> Column:
        """A struct of the value and the reason for a bad one, as `ArrowValues.parse`. Each part
        reads many fields of the envelope, so they are made where the envelope has a name."""
        from pyspark.sql import functions as F  # noqa: N812

        def whole(parsed: Column) -> Column:
            is_good = F.coalesce(self._inner.is_good(data, parsed), F.lit(False))
            unread = F.coalesce(self._inner.reason(data, parsed), F.lit("cannot be read"))
            envelope = self._inner.result(parsed)
            why = F.when(~is_good, unread).otherwise(self._wrong(envelope))
            return of_parts(self._value(envelope), why)

        return with_name(self._inner.parse(data), whole)

    def _value(self, envelope: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        is_delete = envelope.getField("op") == DELETE
        row = F.when(is_delete, envelope.getField("before")).otherwise(envelope.getField("after"))
        columns = [envelope.getField(name).alias(name) for name in self._names]
        if self._source is not None:
            found = position(envelope.getField("source"), self._source)
            columns.append(found.alias(POSITION))
        return F.struct(row.alias(ROW), is_delete.alias(DELETED), *columns)

    def _wrong(self, envelope: Column) -> Column:
        """Why an envelope is bad; null if it is good."""
        from pyspark.sql import functions as F  # noqa: N812

        no_row = _no_row(envelope, may_lack_before=self._documents)
        if self._source is None:
            return no_row
        return F.coalesce(no_row, why_none(envelope.getField("source"), self._source))

    def is_good(self, data: Column, parsed: Column) -> Column:
        return data.isNotNull() & why_of(parsed).isNull()

    def result(self, parsed: Column) -> Column:
        return value_of(parsed)

    def reason(self, data: Column, parsed: Column) -> Column:
        return why_of(parsed)


def _no_row(envelope: Column, *, may_lack_before: bool) -> Column:
    """Why an envelope lacks the row that its operation requires; null if it has it."""
    from pyspark.sql import functions as F  # noqa: N812

    op = envelope.getField("op")
    told = F.concat(F.lit("op "), op)
    is_delete = op == DELETE
    before, after = envelope.getField("before"), envelope.getField("after")
    return (
        F.when(op.isNull(), NO_OPERATION)
        .when(op == TRUNCATE, A_TRUNCATE)
        .when(~op.isin(*OPERATIONS), F.concat(told, F.lit(UNKNOWN_OPERATION)))
        .when(is_delete & before.isNull() & F.lit(not may_lack_before), NO_BEFORE)
        .when(~is_delete & after.isNull(), F.concat(told, F.lit(NO_AFTER)))
    )


def position(source: Column, names: Collection[str]) -> Column:
    """The position, null if there is none; the tests compare it with Python over the same table.
    `names`: the fields of `source`."""
    from pyspark.sql import functions as F  # noqa: N812

    connector = source.getField("connector")
    cases = [
        (connector == name, F.concat_ws(SEPARATOR, *[_padded(source, names, p) for p in parts]))
        for name, parts in CONNECTORS.items()
    ]
    found = reduce(lambda one, case: one.when(*case), cases[1:], F.when(*cases[0]))
    # concat_ws leaves out null, so that a missing part would make a shorter text.
    return F.when(why_none(source, names).isNull(), found)


def why_none(source: Column, names: Collection[str]) -> Column:
    """The reason why there is no position; null if there is one."""
    from pyspark.sql import functions as F  # noqa: N812

    connector = source.getField("connector")
    before, after = unknown_connector("\0").split("\0")
    reason = F.when(connector.isNull(), NO_CONNECTOR)
    for name, parts in CONNECTORS.items():
        reason = reason.when(
            connector == name, F.coalesce(*[_wrong_part(source, names, part) for part in parts])
        )
    return reason.otherwise(F.concat(F.lit(before), connector, F.lit(after)))


def _text(source: Column, names: Collection[str], part: Part) -> Column:
    """The first field of a part that is there, as a text."""
    from pyspark.sql import functions as F  # noqa: N812

    there = [source.getField(name).cast("string") for name in part.fields if name in names]
    said = [F.when(~F.lower(each).isin(*ABSENT), each) for each in there]
    return F.coalesce(*said, F.lit(part.default).cast("string"))


def _padded(source: Column, names: Collection[str], part: Part) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    number = F.regexp_extract(_text(source, names, part), part.pattern, 1)
    return F.lpad(F.lower(number), part.width, "0")


def _wrong_part(source: Column, names: Collection[str], part: Part) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    text = _text(source, names, part)
    before, after = malformed(part)
    return F.when(text.isNull(), missing(part)).when(
        ~text.rlike(part.pattern), F.concat(F.lit(before), text, F.lit(after))
    )

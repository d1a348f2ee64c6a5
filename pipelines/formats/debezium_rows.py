"""The Debezium format: envelopes to a struct with the row, and the reason for each bad one.

The row of an operation is `after`, or for a delete `before`. A truncate contains no row and is bad,
as is an envelope without the row that its operation requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_arrow.formats.debezium.envelope import DELETE, DELETED, OPERATIONS, ROW, TRUNCATE
from pipelines.formats.json import JsonValues

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from josefine_arrow.formats.json.options import JsonOptions
    from pipelines.formats.decode import Values


class EnvelopeInJson:
    """JSON: an envelope alone, or as `payload` next to its schema."""

    def __init__(self, wide: StructType, options: JsonOptions | None = None) -> None:
        """`wide`: the columns of `debezium.wide_of`."""
        self._inner = JsonValues(wide, options)
        self._names = [name for name in wide.names if name != "payload"]

    def parse(self, data: Column) -> Column:
        return self._inner.parse(data)

    def is_good(self, data: Column, parsed: Column) -> Column:
        return self._inner.is_good(data, parsed)

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        found = self._inner.result(parsed)
        alone = F.struct(*[found.getField(name).alias(name) for name in self._names])
        return F.when(found.isNotNull(), F.coalesce(found.getField("payload"), alone))

    def reason(self, data: Column, parsed: Column) -> Column:
        """The reason names a column of the envelope, wherever that is."""
        from pyspark.sql import functions as F  # noqa: N812

        said = self._inner.reason(data, parsed)
        return F.regexp_replace(said, r"(^|: |, |key )payload\.", "$1")


class DebeziumValues:
    """`format: debezium`. `inner`: the format of the envelopes; `names`: their columns."""

    def __init__(self, inner: Values, names: list[str]) -> None:
        self._inner = inner
        self._names = names

    def parse(self, data: Column) -> Column:
        return self._inner.parse(data)

    def is_good(self, data: Column, parsed: Column) -> Column:
        return self._inner.is_good(data, parsed) & _wrong(self._inner.result(parsed)).isNull()

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        envelope = self._inner.result(parsed)
        is_delete = envelope.getField("op") == DELETE
        row = F.when(is_delete, envelope.getField("before")).otherwise(envelope.getField("after"))
        columns = (envelope.getField(name).alias(name) for name in self._names)
        return F.struct(row.alias(ROW), is_delete.alias(DELETED), *columns)

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        wrong = _wrong(self._inner.result(parsed))
        said = self._inner.reason(data, parsed)
        return F.when(self._inner.is_good(data, parsed), wrong).otherwise(said)


def _wrong(envelope: Column) -> Column:
    """Why an envelope contains no row; null if it contains one."""
    from pyspark.sql import functions as F  # noqa: N812

    op = envelope.getField("op")
    told = F.concat(F.lit("op "), op)
    is_delete = op == DELETE
    before, after = envelope.getField("before"), envelope.getField("after")
    return (
        F.when(op.isNull(), "no envelope of Debezium: it has no `op`")
        .when(op == TRUNCATE, "op t: a truncate is of no row")
        .when(~op.isin(*OPERATIONS), F.concat(told, F.lit(": expected c, r, u or d")))
        .when(is_delete & before.isNull(), "op d without `before`")
        .when(~is_delete & after.isNull(), F.concat(told, F.lit(" without `after`")))
    )

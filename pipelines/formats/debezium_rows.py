"""The Debezium format: envelopes to a struct with the row, and the reason for each bad one.

The row of an operation is `after`, or for a delete `before`. A truncate contains no row and is bad,
as is an envelope without the row that its operation requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_arrow.formats.debezium.envelope import DELETE, DELETED, OPERATIONS, ROW, TRUNCATE
from pipelines.formats.json import MISFIT, JsonValues, misfit
from pipelines.formats.text_encoding import without_mark

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from pipelines.formats.decode import Values


class EnvelopeInJson:
    """JSON: an envelope alone, or as `payload` next to its schema."""

    def __init__(self, wide: StructType, *, strict: bool) -> None:
        """`wide`: the columns of `debezium.wide_of`."""
        self._inner = JsonValues(wide, strict=strict)
        self._names = [name for name in wide.names if name != "payload"]
        self._fields = [wide[name] for name in self._names]

    def parse(self, data: Column) -> Column:
        return self._inner.parse(data)

    def is_good(self, data: Column, parsed: Column) -> Column:
        return self._inner.is_good(data, parsed)

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        payload = parsed.getField("payload")
        alone = F.struct(*[parsed.getField(name).alias(name) for name in self._names])
        return F.coalesce(payload, alone)

    def reason(self, data: Column, parsed: Column) -> Column:
        """The reason names the column of the row that does not fit, not the whole envelope."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        said, text = self._inner.reason(data, parsed), without_mark(data).cast("string")
        envelope = F.coalesce(F.get_json_object(text, "$.payload"), text)
        wrong = []
        for field in self._fields:
            if not isinstance(field.dataType, StructType):
                wrong.append(misfit(envelope, field))
                continue
            part = F.get_json_object(envelope, f"$.{field.name}")
            for below in field.dataType.fields:
                wrong.append(F.concat(F.lit(f"{field.name}."), misfit(part, below)))
        fine = F.concat_ws(", ", *wrong)
        return F.when(
            said.startswith(MISFIT) & (fine != ""), F.concat(F.lit(MISFIT), fine)
        ).otherwise(said)


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

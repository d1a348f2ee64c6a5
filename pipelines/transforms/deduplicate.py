"""Deduplication: leaves out copies within a batch, and rows that the table has already.

The table itself is the memory, so neither a lost checkpoint nor a killed run can add a copy, and no
state grows. Copies of a row have the same keys and, with `within`, a `time` at most that far from
it; rows with the same keys that are further apart are different rows. If the data keeps to that,
the table is the same however the rows are cut into batches. A row without one of its keys, or
without its time, is never a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Deduplicate
from pipelines.transforms.aggregate import Merge
from pipelines.transforms.ordering import ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_EARLIER = "_josefine_earlier"
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The times that SQL and Python can write: the years 1 to 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The number of a batch's rows before deduplication, and their first and last time (None: no
    time)."""

    rows: int
    first_ms: int | None = None
    last_ms: int | None = None


def span_of(rows: DataFrame, how: Deduplicate) -> Span:
    """The span of a batch, by one pass over its rows."""
    from pyspark.sql import functions as F  # noqa: N812

    time = F.unix_millis(F.col(quoted(how.time))) if how.time else F.lit(None)
    found = rows.agg(F.count(F.lit(1)), F.min(time), F.max(time)).first()
    assert found is not None
    return Span(rows=found[0], first_ms=found[1], last_ms=found[2])


def without_copies(rows: DataFrame, how: Deduplicate) -> DataFrame:
    """A batch's rows with the first of each set of copies: by `time`, then offset, then the other
    columns."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    keys = [F.col(quoted(key)) for key in how.keys]
    order = [F.expr(sql) for sql in _order(rows.schema, how)]
    window = Window.partitionBy(*keys).orderBy(*order)
    if how.time is None:
        is_first = F.col(_EARLIER) == 1
        earlier = F.row_number().over(window)
    else:
        earlier = F.lag(F.col(quoted(how.time))).over(window)
        far = F.expr(f"{quoted(how.time)} - {_interval(how)}")
        is_first = F.col(_EARLIER).isNull() | (F.col(_EARLIER) < far)
    for key in keys:
        is_first |= key.isNull()
    return rows.withColumn(_EARLIER, earlier).where(is_first).drop(_EARLIER)


def new_rows(how: Deduplicate, schema: StructType, span: Span) -> Merge:
    """The MERGE that inserts rows of which the table has no copy."""
    same = [f"t.{quoted(key)} = s.{quoted(key)}" for key in how.keys]
    if how.time is not None:
        time, within = quoted(how.time), _interval(how)
        same.append(f"t.{time} BETWEEN s.{time} - {within} AND s.{time} + {within}")
        same += _bounds(how, span)
    return Merge(keys=how.keys, columns=tuple(schema.names), update={}, on=" AND ".join(same))


def _bounds(how: Deduplicate, span: Span) -> list[str]:
    """The same once more for the whole batch, as literals: Delta reads no file beyond them."""
    if span.first_ms is None or span.last_ms is None or how.within_ms is None or not how.time:
        return []
    first, last = span.first_ms - how.within_ms, span.last_ms + how.within_ms + 1
    told = ((first, ">="), (last, "<="))
    return [
        f"t.{quoted(how.time)} {sign} TIMESTAMP '{_text(ms)}'"
        for ms, sign in told
        if _FIRST_MS <= ms <= _LAST_MS
    ]


def _text(ms: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _interval(how: Deduplicate) -> str:
    assert how.within_ms is not None
    return f"make_dt_interval(0, 0, 0, {how.within_ms / 1000:.3f})"


def _order(schema: StructType, how: Deduplicate) -> list[str]:
    first = [name for name in (how.time, _offset(schema)) if name]
    lower = {name.lower() for name in (*first, *how.keys)}
    return [*(quoted(name) for name in first), *ranked(schema, lower)]


def _offset(schema: StructType) -> str | None:
    return next((name for name in schema.names if name.lower() in ("offset", "_offset")), None)

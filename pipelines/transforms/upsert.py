"""Upsert: the latest row of each key, of a batch, and of the batch and the table.

One total order decides both: the columns of `order_by`, then whether the row deletes its key, then
the other columns. So the latest row is the same however the rows are cut into batches. The only
exception: a delete that removes the row leaves nothing to compare with, so an earlier row that
arrives after it is inserted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Sink
from pipelines.transforms import unavailable
from pipelines.transforms.aggregate import Merge
from pipelines.transforms.ordering import PRIVATE, ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

MARK = "_deleted"
"""The table's column that `on_delete: mark` makes."""
HIDDEN = f"{PRIVATE}deleted"
"""The same column of a batch's rows if deletes remove rows; never in a table."""
_RANK = f"{PRIVATE}rank"


def flag_of(sink: Sink) -> str | None:
    """The column that marks a batch's row as a delete of its key; None without deletes."""
    assert sink.latest is not None
    if sink.latest.delete_when is None:
        return None
    return MARK if sink.latest.marks else HIDDEN


def latest_rows(frame: DataFrame, sink: Sink) -> DataFrame:
    """A batch's rows reduced to one for each key, with the flag if there are deletes.

    With placeholders that keep a value, the row also has what its preceding rows know, and `KEPT`.
    """
    rows = unavailable.marked(with_flag(frame, sink), sink)
    if unavailable.KEPT not in rows.columns:
        return latest_of(rows, sink)
    # All rows of the key: the latest one, which stays, is preceded by all others. A delete that
    # removes the row leaves nothing to keep, whether the next change is in its batch or not.
    window = f"PARTITION BY {', '.join(f'`{key}`' for key in sink.keys)}"
    gone = f"`{HIDDEN}`" if flag_of(sink) == HIDDEN else "false"
    rows = unavailable.with_found(rows, sink, order_of(sink, rows.schema), window, gone)
    return unavailable.with_places(unavailable.filled(latest_of(rows, sink)))


def with_flag(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows with the flag whether they delete their key, if there are deletes."""
    from pyspark.sql import functions as F  # noqa: N812

    assert sink.latest is not None
    flag, condition = flag_of(sink), sink.latest.delete_when
    if flag is None or condition is None:
        return frame
    return frame.withColumn(flag, F.coalesce(F.expr(condition.bound), F.lit(False)))


def latest_of(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows with their flag, reduced to one for each key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    # Descending, nulls last: the reverse of how SQL compares structs, where null is the least.
    order = [F.expr(sql).desc_nulls_last() for sql in _ranking(sink, frame.schema, "")]
    window = Window.partitionBy(*[F.col(quoted(key)) for key in sink.keys]).orderBy(*order)
    ranked = frame.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(f"{_RANK} = 1").drop(_RANK)


def upsert(sink: Sink, schema: StructType) -> Merge:
    """The MERGE of a batch's rows into the table: the later row stays."""
    flag = flag_of(sink)
    removes = flag == HIDDEN
    columns = tuple(name for name in schema.names if not name.startswith(PRIVATE))
    later = f"{order_of(sink, schema, 's.')} > {order_of(sink, schema, 't.')}"
    update = {column: f"s.{quoted(column)}" for column in columns}
    if unavailable.KEPT in schema.names:
        theirs = order_of(sink, schema, "t.")
        for column in unavailable.candidates(schema, sink):
            update[column] = unavailable.kept_from_table(column, theirs)
    return Merge(
        keys=sink.keys,
        columns=columns,
        update=update,
        update_when=later,
        delete_when=f"s.`{HIDDEN}` AND {later}" if removes else None,
        insert_when=f"NOT s.`{HIDDEN}`" if removes else None,
    )


def order_of(sink: Sink, schema: StructType, side: str = "") -> str:
    """SQL of a row's place in the order of its key, which Spark compares."""
    return _struct(_ranking(sink, schema, side))


def _ranking(sink: Sink, schema: StructType, side: str) -> Iterator[str]:
    """The terms by which rows are compared, the first one first; `side`: the columns' prefix."""
    assert sink.latest is not None
    flag = flag_of(sink)
    for column in sink.latest.columns:
        yield f"{side}{quoted(column)}"
    if flag == HIDDEN and side == "t.":
        yield "false"
    elif flag:
        yield f"{side}`{flag}`"
    first = {name.lower() for name in (*sink.keys, *sink.latest.columns, *([flag] if flag else []))}
    yield from ranked(schema, first, side)


def _struct(terms: Iterator[str]) -> str:
    """The terms with generated names: Spark compares only structs with equal field names."""
    return f"struct({', '.join(f'{term} AS c{n}' for n, term in enumerate(terms))})"

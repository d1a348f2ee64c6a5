"""What Delta refuses of a sink's columns, as a table: types, and columns to cluster by. Of names it
refuses none: a table gets column mapping if a name needs it (`model/schema_evolution.py`).

Each row was tried with Spark 4.2 and Delta 4.4, and is tried again by
`tests/spark/pipelines/contracts/test_delta_refusals.py`. A column of unknown type has no finding.
CHAR keys are no row: `sinks/stored_keys.py` compares them as the table stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipelines.base.errors import Place, Problem
from pipelines.lint.sql_columns import Columns
from pipelines.model.pipeline import Pipeline, Sink

REFUSED: Mapping[str, Mapping[str, str]] = {
    "stored": {
        "TIME": "a Delta table has no TIME: cast it to STRING",
        "INTERVAL": "a Delta table has no INTERVAL: cast it to a number or to STRING",
    },
    "compared": {
        "MAP": "a MAP cannot be compared: take a field of it, or to_json(...)",
        "VARIANT": "a VARIANT cannot be compared: take a field of it, or to_json(...)",
    },
    "clustered": {
        kind: f"Delta has no statistics of {kind}, by which it could cluster"
        for kind in ("BOOLEAN", "BINARY", "ARRAY", "MAP", "STRUCT", "VARIANT")
    },
}
"""Use of a column → its type → why Delta refuses it."""

INDEXED_MAX = 32
"""Delta has statistics of so many columns, the first ones, each field of a struct counted."""

_INDEXED = "dataSkippingNumIndexedCols"


def refusals(pipeline: Pipeline, sink: Sink, columns: Columns, table: Columns) -> Iterator[Problem]:
    """The problems of a Delta sink. `columns`: its input's; `table`: those that it writes."""
    path = f"sinks.{sink.name}"
    for name, kind in table.names.items():
        why = _why("stored", kind)
        if why:
            yield _problem(sink.place, f"{path}.inputs", f"column `{name}`: {why}")
    compared = [("keys", sink.keys, sink.key_places)]
    if sink.deduplicate:
        compared.append(("deduplicate.keys", sink.deduplicate.keys, sink.deduplicate.key_places))
    if sink.latest:
        compared.append(("order_by", sink.latest.columns, sink.latest.places))
    for word, names, places in compared:
        yield from _of_use("compared", names, places, columns, f"{path}.{word}")
    for each in sink.aggregates:
        if each.argument and each.function in ("min", "max"):
            where = f"{path}.aggregate.{each.column}"
            yield from _of_use("compared", (each.argument,), (each.place,), columns, where)
    yield from _of_clustering(pipeline, sink, table, f"{path}.cluster_by")


def _of_clustering(pipeline: Pipeline, sink: Sink, table: Columns, path: str) -> Iterator[Problem]:
    yield from _of_use("clustered", sink.cluster_by, sink.cluster_places, table, path)
    if table.is_open or _is_set(pipeline, _INDEXED):
        return
    late = [*table.names][INDEXED_MAX:]
    for name, place in zip(sink.cluster_by, sink.cluster_places, strict=False):
        if name.lower() in late:
            message = f"Delta has statistics of the first {INDEXED_MAX} columns only; `{name}` is "
            message += f"number {[*table.names].index(name.lower()) + 1}: select it earlier"
            yield _problem(place, path, message)


def _of_use(
    use: str, names: Sequence[str], places: Sequence[Place], columns: Columns, path: str
) -> Iterator[Problem]:
    for name, place in zip(names, places, strict=False):
        why = _why(use, columns.names.get(name.lower()))
        if why:
            yield _problem(place, path, f"column `{name}`: {why}")


def _why(use: str, kind: Columns | None) -> str:
    return REFUSED[use].get(kind.kind, "") if kind is not None else ""


def _is_set(pipeline: Pipeline, name: str) -> bool:
    """Whether new tables of this pipeline get another value of a Delta property."""
    return f"spark.databricks.delta.properties.defaults.{name}" in pipeline.conf


def _problem(place: Place, path: str, message: str) -> Problem:
    return Problem(place=place, path=path, message=message, stops_run=False)

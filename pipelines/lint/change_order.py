"""Sinks that order changes by a text of Debezium's `source`.

Such a text holds a number or a set of transaction ids. Texts do not sort as these do: 1000000 comes
before 999999, so each change after the power of ten would be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipelines.base.errors import Problem
from pipelines.lint.sql_columns import Columns
from pipelines.model.pipeline import Sink

_SOURCE = "source"


def with_origins(columns: Columns, ddl: str) -> Columns:
    """The columns of an envelope, whose texts in `source` know where they are from."""
    source = columns.names.get(_SOURCE)
    if source is None:
        return columns
    texts = {name: Columns(origin=f"value.{_SOURCE}.{name}") for name in _texts(ddl)}
    fields = {name: texts.get(name, kind) for name, kind in source.names.items()}
    return replace(columns, names={**columns.names, _SOURCE: replace(source, names=fields)})


def _texts(ddl: str) -> Iterator[str]:
    """The fields of `source` that are texts, in lower case."""
    try:
        kind = sqlglot.parse_one(f"struct<{ddl}>", into=exp.DataType, read="spark")
    except SqlglotError:
        return
    for each in kind.expressions:
        if isinstance(each, exp.ColumnDef) and each.name.lower() == _SOURCE and each.kind:
            for field in each.kind.expressions:
                if isinstance(field, exp.ColumnDef) and field.kind and field.kind.is_type("text"):
                    yield field.name.lower()


def text_order_problems(sink: Sink, columns: Columns) -> Iterator[Problem]:
    """A warning for each such column of `order_by`. `columns`: those of the sink's input."""
    if sink.latest is None:
        return
    for name, place in zip(sink.latest.columns, sink.latest.places, strict=False):
        kind = columns.names.get(name.lower())
        if kind is None or not kind.origin:
            continue
        message = (
            f"`{name}` is the text `{kind.origin}`, which does not sort as the database's log "
            "does (1000000 comes before 999999): select `value.position` and order by it"
        )
        path = f"sinks.{sink.name}.order_by"
        yield Problem(place=place, path=path, message=message, stops_run=False)

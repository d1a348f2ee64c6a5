"""The SQL of one topic's view: its table's rows and the log's, by the rules of the writer's merge.

In mode append the log's rows follow the table's. In mode upsert a change of the log replaces or
deletes the table's row of its key if it is later. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from josefine_lake.query.refusals import QueryError
from josefine_lake.writer.changes import DELETED
from josefine_lake.writer.merge import is_later, quoted, same_row


def merged(topic: str, table: pa.Schema, log: pa.Schema) -> pa.Schema:
    """The table's columns, then those that only the log has, also within structs. Raises QueryError
    for columns of other types."""
    fields = list(table)
    _merge(topic, "", fields, list(log))
    return pa.schema(fields)


def append_view(view: str, table: str, log: str) -> str:
    """Both relations have the same columns."""
    return (
        f"CREATE VIEW {quoted(view)} AS SELECT * FROM {quoted(table)}"
        f" UNION ALL SELECT * FROM {quoted(log)}"
    )


def upsert_view(
    view: str,
    table: str,
    changes: str,
    columns: Sequence[str],
    keys: Sequence[str],
    order: tuple[str, str],
    *,
    own: Collection[str],
    removed: Collection[str],
) -> str:
    """`columns`: of the view and the table. `own`: those that changes have; of the others those in
    `removed` become null in rows that change, the rest keeps its value.

    The table's rows of the changes' keys are looked for first, so that their join is a small one.
    """
    same, later = same_row(keys), is_later(order)
    kept = ", ".join(f"t.{quoted(each)}" for each in columns)
    made = ", ".join(_made(each, own, removed) for each in columns)
    rows, of = quoted(table), quoted(changes)
    touched = f"SELECT t.* FROM {rows} t WHERE EXISTS (SELECT 1 FROM {of} s WHERE {same})"
    return (
        f"CREATE VIEW {quoted(view)} AS "
        f"SELECT {kept} FROM {rows} t"
        f" WHERE NOT EXISTS (SELECT 1 FROM {of} s WHERE {same} AND {later})"
        f" UNION ALL SELECT {made} FROM {of} s LEFT JOIN ({touched}) t ON {same}"
        f" WHERE NOT s.{quoted(DELETED)} AND (t.{quoted(keys[0])} IS NULL OR {later})"
    )


def changes_view(view: str, changes: str, columns: Sequence[str]) -> str:
    """The view of a topic in mode upsert that has no table."""
    names = ", ".join(map(quoted, columns))
    return (
        f"CREATE VIEW {quoted(view)} AS SELECT {names} FROM {quoted(changes)}"
        f" WHERE NOT {quoted(DELETED)}"
    )


def table_view(view: str, table: str) -> str:
    """The view of one relation alone."""
    return f"CREATE VIEW {quoted(view)} AS SELECT * FROM {quoted(table)}"


def _made(column: str, own: Collection[str], removed: Collection[str]) -> str:
    name = quoted(column)
    if column in own:
        return f"s.{name}"
    return f"NULL AS {name}" if column in removed else f"t.{name}"


def _merge(topic: str, above: str, fields: list[pa.Field], more: Sequence[pa.Field]) -> None:
    """Add what `fields` lack of `more`, in place."""
    places = {field.name: at for at, field in enumerate(fields)}
    for field in more:
        at = places.get(field.name)
        if at is None:
            fields.append(field.with_nullable(True).remove_metadata())
        else:
            kind = _merged(topic, above + field.name, fields[at].type, field.type)
            fields[at] = pa.field(field.name, kind)


def _merged(topic: str, name: str, have: pa.DataType, more: pa.DataType) -> pa.DataType:
    if have == more:
        return have
    if pa.types.is_struct(have) and pa.types.is_struct(more):
        inside = list(have)
        _merge(topic, f"{name}.", inside, list(more))
        return pa.struct(inside)
    if pa.types.is_list(have) and pa.types.is_list(more):
        kind = _merged(topic, f"{name}.element", have.value_type, more.value_type)
        return pa.list_(pa.field("element", kind))
    if pa.types.is_map(have) and pa.types.is_map(more) and have.key_type == more.key_type:
        return pa.map_(
            have.key_type, _merged(topic, f"{name}.value", have.item_type, more.item_type)
        )
    raise QueryError(
        f"topic '{topic}': column {name} is {have} in its table and {more} in its log; --no-tail "
        "reads the table alone"
    )

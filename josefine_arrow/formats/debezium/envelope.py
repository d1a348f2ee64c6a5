"""Debezium's envelope: its columns and its operations.

Source: "Data change events" of Debezium's connectors (PostgreSQL, MySQL, SQL Server, Oracle, Db2).
"""

from __future__ import annotations

from josefine_arrow.formats.avro.schema import SchemaError, Type, one_branch
from josefine_arrow.formats.debezium.documents import UPDATE
from josefine_arrow.formats.debezium.position import POSITION

OPERATIONS = ("c", "r", "u", "d")
"""The operations: insert (c), snapshot read (r), update (u), delete (d)."""
DELETE, TRUNCATE = "d", "t"

NO_OPERATION = "no envelope of Debezium: it has no `op`"
A_TRUNCATE = "op t: a truncate is of no row"
UNKNOWN_OPERATION = ": expected c, r, u or d"
NO_BEFORE, NO_AFTER = "op d without `before`", " without `after`"
"""The reasons of bad envelopes; UNKNOWN_OPERATION and NO_AFTER follow the operation."""

ROW, DELETED = "row", "deleted"
"""The added columns: the row (for a delete, its last state), and whether it is deleted."""

SOURCE = (
    "connector STRING, db STRING, `schema` STRING, `table` STRING, `snapshot` STRING, "
    "ts_ms BIGINT, `sequence` STRING, txId STRING, lsn BIGINT, `file` STRING, pos BIGINT, "
    "`row` INT, gtid STRING, commit_lsn STRING, change_lsn STRING, event_serial_no BIGINT, "
    "scn STRING, commit_scn STRING, ord BIGINT, `collection` STRING"
)
"""The position of a change in its database, as connectors write it in JSON; fields of other
connectors are null. A txId is a number in PostgreSQL and a text in Oracle."""

SOURCE_NAMES = tuple(word.split()[0].strip("`") for word in SOURCE.split(", "))


def no_row(op: str | None, *, has_before: bool, has_after: bool) -> str | None:
    """Why an envelope lacks the row that its operation requires; None if it has it. Its twin for
    Spark's columns is in `pipelines/formats`."""
    if op is None:
        return NO_OPERATION
    if op == TRUNCATE:
        return A_TRUNCATE
    if op not in OPERATIONS:
        return f"op {op}{UNKNOWN_OPERATION}"
    if op == DELETE:
        return None if has_before else NO_BEFORE
    return None if has_after else f"op {op}{NO_AFTER}"


def envelope_of(row: str) -> str:
    """The SQL columns of a JSON envelope around these columns of a row."""
    return (
        f"before STRUCT<{row}>, after STRUCT<{row}>, source STRUCT<{SOURCE}>, "
        "op STRING, ts_ms BIGINT"
    )


def wide_of(envelope: str) -> str:
    """The same columns, and `payload`, which a converter with `schemas.enable=true` adds."""
    return f"payload STRUCT<{envelope}>, {envelope}"


def documents_of(row: str | None) -> str:
    """The SQL columns of MongoDB's JSON envelope around this row; None: around texts."""
    kind = f"STRUCT<{row}>" if row else "STRING"
    return (
        f"before {kind}, after {kind}, {UPDATE}, source STRUCT<{SOURCE}>, op STRING, ts_ms BIGINT"
    )


def columns_of(envelope: str, row: str) -> str:
    """The columns for the pipeline's SQL: the row, whether it is deleted, and the envelope's.
    `row`: the SQL type of the row."""
    return f"`{ROW}` {row}, `{DELETED}` BOOLEAN, {envelope}"


def with_position(columns: str) -> str:
    """These columns with that of the position."""
    return f"{columns}, `{POSITION}` STRING"


def source_names(envelope: Type) -> tuple[str, ...]:
    """The fields of `source` in the Avro schema of an envelope; none if it is no record."""
    kinds = [_bare(each.type, each.name) for each in envelope.fields if each.name == "source"]
    return tuple(each.name for kind in kinds for each in kind.fields)


def row_of(envelope: Type) -> Type:
    """The row's type in the Avro schema of an envelope. Raises SchemaError for another schema."""
    fields = {each.name: each.type for each in envelope.fields}
    missing = [name for name in ("before", "after", "op") if name not in fields]
    if missing:
        raise SchemaError(f"no envelope of Debezium: it has no field `{missing[0]}`")
    own = [name for name in (ROW, DELETED) if name in fields]
    if own:
        raise SchemaError(f"field `{own[0]}` has the name of a column that this format adds")
    if _bare(fields["op"], "op").kind not in ("string", "enum"):
        raise SchemaError("no envelope of Debezium: `op` is no string")
    rows = [_bare(fields[name], name) for name in ("before", "after")]
    for name, each in zip(("before", "after"), rows, strict=True):
        if each.kind != "record":
            raise SchemaError(f"no envelope of Debezium: `{name}` is no record")
    if rows[0] != rows[1]:
        raise SchemaError("no envelope of Debezium: `before` and `after` are not of one type")
    return rows[1]


def _bare(kind: Type, name: str) -> Type:
    return one_branch(kind, name) if kind.kind == "union" else kind

"""Debezium's envelope: which columns it has, and what becomes of each of its operations.

Source: "Data change events" of Debezium's connectors (PostgreSQL, MySQL, SQL Server, Oracle, Db2).
"""

from __future__ import annotations

from josefine_arrow.formats.avro.schema import SchemaError, Type, one_branch

OPERATIONS = ("c", "r", "u", "d")
"""A row that was inserted, read by a snapshot, changed, deleted."""
DELETE, TRUNCATE = "d", "t"

ROW, DELETED = "row", "deleted"
"""The columns that are ours: the row as it is, or of a deleted one as it was; whether it is."""

SOURCE = (
    "connector STRING, db STRING, `schema` STRING, `table` STRING, `snapshot` STRING, "
    "ts_ms BIGINT, `sequence` STRING, txId STRING, lsn BIGINT, `file` STRING, pos BIGINT, "
    "`row` INT, gtid STRING, commit_lsn STRING, change_lsn STRING, event_serial_no BIGINT, "
    "scn STRING, commit_scn STRING"
)
"""Where a change was in its database, as connectors say it in JSON; what another connector says is
null. A txId is a number of PostgreSQL's and a text of Oracle's."""


def envelope_of(row: str) -> str:
    """The columns of an envelope in JSON around these columns of a row, in SQL."""
    return (
        f"before STRUCT<{row}>, after STRUCT<{row}>, source STRUCT<{SOURCE}>, "
        "op STRING, ts_ms BIGINT"
    )


def wide_of(row: str) -> str:
    """The same, also where a converter with `schemas.enable=true` has put it into `payload`."""
    return f"payload STRUCT<{envelope_of(row)}>, {envelope_of(row)}"


def columns_of(envelope: str, row: str) -> str:
    """What SQL sees: the row, whether it is deleted, and the envelope's columns. `row`: its type
    as in SQL."""
    return f"`{ROW}` {row}, `{DELETED}` BOOLEAN, {envelope}"


def row_of(envelope: Type) -> Type:
    """The row's type in Avro's schema of an envelope. Raises SchemaError where it is none."""
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

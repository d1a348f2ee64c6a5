"""A commit's write by delta-rs: appended files, or changes that are merged into the table's rows.

Either is one Delta commit with the given properties, so rows and offsets are there together. The
files of a merge are made here (`upsert`), except those of tables with a change data feed or
deletion vectors, or with files elsewhere: delta-rs merges these. Its bounds of floats leave NaN
out, and readers lose such rows, so a table that it merges has none for top-level floats.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Schema,
    WriterProperties,
)

from josefine_journal.store_commit import cleanup, has_deleted_rows
from josefine_lake.writer.changes import DELETED, Changes
from josefine_lake.writer.upsert import merged
from pipelines.sinks.table_files import is_plain, stored_files

if TYPE_CHECKING:
    from pipelines.storage.folders import TableFolder

CHANGE_FEED = "delta.enableChangeDataFeed"
INDEXED_BY_NAME = "delta.dataSkippingStatsColumns"
WITHOUT_BOUNDS = ColumnProperties(statistics_enabled="NONE")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def write(
    table: DeltaTable,
    folder: TableFolder,
    files: Sequence[Any],
    schema: pa.Schema,
    properties: CommitProperties,
    removed: Collection[str],
    columns_max: int,
) -> None:
    """`files`: AddActions, or one Changes. `removed`: columns that the topic has no more, which
    become null in rows that change. Raises DeltaError, OSError."""
    if files and isinstance(files[0], Changes):
        changes = files[0]
        stored = stored_files(table)
        if _is_by_delta_rs(table) or not all(map(is_plain, stored)):
            floats = leave_out_floats(table, columns_max)
            before = table.version()
            _merge(table, changes, properties, removed, floats)
            if table.version() != before:
                return
            files = ()  # it makes no commit if no row changes
        else:
            columns = pa.schema(table.schema().to_arrow())
            files = merged(folder, stored, changes, columns, removed, columns_max)
    table.create_write_transaction(
        list(files),
        "append",
        Schema.from_arrow(schema),
        commit_properties=properties,
        post_commithook_properties=cleanup(table),
    )


def _is_by_delta_rs(table: DeltaTable) -> bool:
    feed = table.metadata().configuration.get(CHANGE_FEED, "")
    return feed.lower() == "true" or has_deleted_rows(table)


def leave_out_floats(table: DeltaTable, columns_max: int) -> list[str]:
    """The columns of floats. Where there are any, the table's property with the columns that have
    bounds names none of them afterwards: a bound that only some files lack is null to delta-rs."""
    schema = pa.schema(table.schema().to_arrow())
    floats = [each.name for each in schema if pa.types.is_floating(each.type)]
    wanted = table.metadata().configuration.get(INDEXED_BY_NAME)
    if wanted is None:
        # Other types have no bounds, or not in delta-rs's files; other names would need quotes.
        plain = [each.name for each in schema if not pa.types.is_nested(each.type)]
        names = [name for name in plain if _PLAIN_NAME.fullmatch(name)]
        names = names if columns_max < 0 else names[:columns_max]
    else:
        names = [name.strip() for name in wanted.split(",")]
    left = ",".join(name for name in names if name.strip("`") not in floats)
    if floats and left not in (wanted, ""):
        # Not after a commit that nobody has looked at: the merge would be on top of it, too.
        alone = CommitProperties(max_commit_retries=0)
        table.alter.set_table_properties(
            {INDEXED_BY_NAME: left},
            commit_properties=alone,
            post_commithook_properties=cleanup(table),
        )
    return floats


def _merge(
    table: DeltaTable,
    changes: Changes,
    properties: CommitProperties,
    removed: Collection[str],
    floats: Sequence[str],
) -> None:
    same = same_row(changes.keys, floats)
    gone = f"s.{quoted(DELETED)}"
    later = is_later(changes.order)
    names = [name for name in changes.rows.schema.names if name != DELETED]
    columns = {quoted(name): f"s.{quoted(name)}" for name in names}
    # What the topic has no more would otherwise keep the value of an earlier row.
    nulls = {quoted(name): "NULL" for name in removed}
    (
        table.merge(
            changes.rows,
            same,
            source_alias="s",
            target_alias="t",
            # The changes are in memory, so files without any of their keys can be skipped.
            streamed_exec=False,
            writer_properties=WriterProperties(
                compression="ZSTD",
                compression_level=1,
                column_properties=dict.fromkeys(floats, WITHOUT_BOUNDS) or None,
            ),
            commit_properties=properties,
            post_commithook_properties=cleanup(table),
        )
        .when_matched_delete(f"{gone} AND {later}")
        .when_matched_update({**nulls, **columns}, f"NOT {gone} AND {later}")
        .when_not_matched_insert(columns, f"NOT {gone}")
        .execute()
    )


def same_row(keys: Sequence[str], floats: Collection[str] = ()) -> str:
    """SQL: whether the change `s` is of the table's row `t`, of which each zero of `floats` counts
    as that of `same_values`."""
    return " AND ".join(
        f"t.{quoted(key)}{' + 0.0' * (key in floats)} = s.{quoted(key)}" for key in keys
    )


def is_later(order: tuple[str, str]) -> str:
    """SQL: whether a change is later than the table's row. Within a partition it always is, because
    the chain reads each offset once; so rows of a topic that was created again are replaced."""
    offset, partition = map(quoted, order)
    return (
        f"(s.{partition} = t.{partition} OR s.{offset} > t.{offset}"
        f" OR (s.{offset} = t.{offset} AND s.{partition} > t.{partition})"
        f" OR t.{offset} IS NULL OR t.{partition} IS NULL)"
    )


def quoted(name: str) -> str:
    """A column's name in SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'

"""The snapshot table of a topic's entities: a Delta table, written by delta-rs without a JVM or a
broker.

Rules: a save or a deletion is one commit of one small file, so it is atomic, and concurrent writers
do not wait for each other; the files are sorted by journal and merged like the store's; a file is
synced before a commit names it; the table's properties have the version of its layout.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from josefine_journal import store_files
from josefine_journal.actions import PayloadType
from josefine_journal.entity_snapshots import Row, Saved, least
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.failpoints import nothing_fails
from josefine_journal.merging import chosen
from josefine_journal.store_commit import commit, has_deleted_rows, vacuum
from josefine_journal.store_place import (
    ObjectPlace,
    Place,
    Stamp,
    options_of,
    place_of,
    stamp_of,
    text_of,
)
from josefine_journal.store_snapshot import PartFile

FOLDER = "snapshots~"
"""Subfolder of the stores' folder; a topic cannot have that name."""
VERSION_KEY, VERSION = "josefine.journal.snapshots.version", 1
KEY_CHARS_MAX = 256
"""A longer id is not in the Delta log's statistics, so all files are searched for it."""
SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("id", pa.string()),
        pa.field("seq_nr", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("payload_type", pa.string()),
        pa.field("value", pa.binary()),
        pa.field("gone", pa.list_(pa.string())),
    ]
)
"""`seq_nr` null: the row saves no snapshot."""


class SnapshotTable:
    """The table of one topic. Thread-safe. Raises StoreError, OSError; Overtaken for a row while
    others change what files of the table depend on."""

    def __init__(
        self, root: Place | str, topic: str, *, at: Callable[[str], None] = nothing_fails
    ) -> None:
        """Opens nothing. `at` is called with the name of each step of a commit."""
        self.path = place_of(root).absolute() / FOLDER / topic
        self.at = at
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None
        self._checked: tuple[int, Stamp | None] = -1, None
        """The version that was looked at, and the file stamp of its log entry: it shows that the
        table was replaced by another."""

    def rows(self, key: str) -> list[Row]:
        """All rows of a journal that a merge has not removed."""
        with self._lock:
            table = self._refreshed()
            files = [] if table is None else _files(table)
        return [row for each in files if each.may_have(key) for row in self._read(each, key)]

    def put(self, row: Row, now_ms: int) -> None:
        """Commit a row; every later read finds it. Merges files if due."""
        with self._lock:
            table = self._refreshed() or self._created()
            self.at("before_files")
            file = self._written([row], now_ms)
            self.at("before_commit")
            self._commit(table, [file])
            self.at("after_commit")
        self._merge(now_ms)

    def vacuum(self, retention_hours: int) -> int:
        """Delete files that no version of the last hours contains; returns how many."""
        with self._lock:
            table = self._refreshed()
            return 0 if table is None else vacuum(table, retention_hours)

    # -- files

    def _read(self, file: PartFile, key: str | None = None) -> list[Row]:
        path = self.path / file.path
        try:
            return [_row(row) for row in _rows(path, key).to_pylist()]
        except (OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"file {path} of snapshots cannot be read: {error}") from error

    def _written(self, rows: Sequence[Row], time_ms: int, *, is_new: bool = True) -> AddAction:
        """A new file with these rows, not yet part of the table."""
        listed = [_fields(row) for row in sorted(rows, key=lambda row: row.key)]
        name = f"{uuid4().hex}.parquet"
        size = store_files.write(self.path / name, pa.Table.from_pylist(listed, schema=SCHEMA))
        first, last = listed[0]["key"], listed[-1]["key"]
        stats: dict[str, Any] = {"numRecords": len(listed)}
        if max(len(first), len(last)) <= KEY_CHARS_MAX:
            stats |= {"minValues": {"key": first}, "maxValues": {"key": last}}
        return AddAction(
            path=name,
            size=size,
            partition_values={},
            modification_time=time_ms,
            data_change=is_new,
            stats=json.dumps(stats),
        )

    def _merge(self, now_ms: int) -> None:
        """Merge once if due; deleted snapshots are removed by that."""
        with self._lock:
            table = self._refreshed()
            files = [] if table is None else _files(table)
            old = chosen(files)
            if table is None or not old:
                return
            number = (table.transaction_version("merges") or 0) + 1
            self.at("before_merge")
            rows = [row for each in old for row in self._read(each)]
            kept = least(rows, is_whole=len(old) == len(files))
            time_ms = min(each.first_offset for each in old)
            actions: list[AddAction | RemoveAction] = [
                RemoveAction(each.path, False, now_ms, each.size, {}) for each in old
            ]
            if kept:
                actions.append(self._written(kept, time_ms, is_new=False))
            self.at("before_merge_commit")
            with contextlib.suppress(Overtaken):  # another process has merged, with the same result
                self._commit(table, actions, [Transaction("merges", number)])
            self.at("after_merge")

    # -- the table

    def _refreshed(self) -> DeltaTable | None:
        """The table at its newest version; None: it does not exist."""
        version, stamp = self._checked
        if self._table is not None and stamp_of(self._entry(version)) != stamp:
            self._table = None  # the version's log entry was cleaned up, or the table was replaced
        try:
            if self._table is None:
                self._table = DeltaTable(str(self.path), storage_options=options_of(self.path))
                version = -1
            else:
                self._table.update_incremental()
            if self._table.version() != version:
                self._check(self._table)
                version = self._table.version()
                self._checked = version, stamp_of(self._entry(version))
        except TableNotFoundError:
            self._table = None
        except (DeltaError, OSError) as error:
            self._table = None
            raise self._broken(error) from error
        return self._table

    def _entry(self, version: int) -> Place:
        return self.path / "_delta_log" / f"{version:020}.json"

    def _check(self, table: DeltaTable) -> None:
        """Raises StoreError for a table that is not to be read or written here: another program may
        have changed the one that is open."""
        version = table.metadata().configuration.get(VERSION_KEY, "")
        if not version.isdigit():
            raise StoreError(f"{self.path} is a Delta table, but not a table of snapshots")
        if int(version) > VERSION:
            raise StoreError(
                f"{self.path} has snapshots of version {version}; this program knows up to "
                f"{VERSION}: use a newer one"
            )
        if has_deleted_rows(table):
            raise StoreError(
                f"snapshots {self.path}: another program deleted rows by deletion vectors, and "
                "they are in the files still: restore the version before"
            )

    def _created(self) -> DeltaTable:
        self.at("before_create")
        try:
            DeltaTable.create(
                str(self.path),
                Schema.from_arrow(SCHEMA),
                storage_options=options_of(self.path),
                configuration={VERSION_KEY: str(VERSION)},
                raise_if_key_not_exists=False,
            )
        except DeltaError as error:
            if (table := self._refreshed()) is not None:  # another process has created it
                return table
            raise self._broken(error) from error
        created = self._refreshed()
        assert created is not None
        return created

    def _commit(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        transactions: Sequence[Transaction] = (),
    ) -> None:
        try:
            commit(table, actions, transactions, entry=lambda at: text_of(self._entry(at)))
        except CommitFailedError as error:
            raise Overtaken(f"{self.path}: {error}") from error
        except DeltaError as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> StoreError:
        return StoreError(f"snapshots {self.path}: {error}")


def _rows(path: Place, key: str | None = None) -> pa.Table:
    """The rows of a file, or of one journal in it. Raises OSError, and pyarrow.ArrowInvalid for a
    file that is not Parquet."""
    is_far = isinstance(path, ObjectPlace)
    source = path.opened() if isinstance(path, ObjectPlace) else pa.OSFile(str(path))
    with source, pq.ParquetFile(source, pre_buffer=is_far) as file:
        groups = [n for n in range(file.num_row_groups) if key is None or _may_have(file, n, key)]
        rows = file.read_row_groups(groups, columns=SCHEMA.names, use_threads=False)
    # In a file that it rewrites delta-rs has texts as Arrow's views, by which Arrow cannot filter.
    rows = rows.select(SCHEMA.names).cast(SCHEMA)
    return rows if key is None else rows.filter(pc.equal(rows["key"], key))


def _may_have(file: pq.ParquetFile, group: int, key: str) -> bool:
    column = file.schema_arrow.names.index("key")
    known = file.metadata.row_group(group).column(column).statistics
    return known is None or not known.has_min_max or known.min <= key <= known.max


def _files(table: DeltaTable) -> list[PartFile]:
    """Oldest first."""
    listed = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = [
        PartFile(
            path=row["path"],
            size=row["size_bytes"],
            rows=row["num_records"],
            first_offset=row["modification_time"],
            last_offset=row["modification_time"],
            first_key=row.get("min.key"),
            last_key=row.get("max.key"),
        )
        for row in listed
    ]
    return sorted(files, key=lambda each: (each.first_offset, each.path))


def _fields(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = {"key": row.key, "id": row.id, "gone": sorted(row.gone) or None}
    if row.saved is not None:
        fields |= {"seq_nr": row.saved.seq_nr, "timestamp_ms": row.saved.timestamp_ms}
        fields |= {"payload_type": row.saved.payload_type.value, "value": row.saved.value}
    return fields


def _row(fields: dict[str, Any]) -> Row:
    saved = None
    if fields["seq_nr"] is not None:
        saved = Saved(
            seq_nr=fields["seq_nr"],
            timestamp_ms=fields["timestamp_ms"],
            payload_type=PayloadType(fields["payload_type"]),
            value=fields["value"],
        )
    gone = frozenset(fields["gone"] or ())
    return Row(key=fields["key"], id=fields["id"], saved=saved, gone=gone)

"""The store of one topic's journals: a Delta table, written by delta-rs without a JVM.

Rules: rows and replicated offsets are one Delta commit, so no reader sees one without the other. An
offset is stored twice: in the name of a file (`store_ends`), which each commit replaces, so that of
an overtaken replicator fails as a whole, and which RESTORE restores with the rows; and as the
version of the partition's Delta transaction (`txn`), which RESTORE leaves. The table's properties
have the version of its layout and the topic's id; a table with other values is never written.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from josefine_broker.client.partitioner import partition_for_key
from josefine_journal import store_files
from josefine_journal.errors import Overtaken, StoreError, TopicWidened
from josefine_journal.failpoints import nothing_fails
from josefine_journal.ports import Batch
from josefine_journal.store_commit import (
    cleanup,
    commit,
    has_deleted_rows,
    set_properties,
    vacuum,
)
from josefine_journal.store_ends import NO_ROWS, StoredEnd, stored_end
from josefine_journal.store_place import Place, Stamp, options_of, place_of, stamp_of, text_of
from josefine_journal.store_rows import SCHEMA, SCHEMA_VERSION, table_of
from josefine_journal.store_snapshot import (
    DeltaSnapshot,
    OpenFiles,
    PartFile,
    ends_of,
    files_of,
)

VERSION_KEY = "josefine.journal.version"
TOPIC_KEY = "josefine.journal.topic"
TOPIC_ID_KEY = "josefine.journal.topicId"
PARTITIONS_KEY = "josefine.journal.partitions"
MARKS_ONLY_MAX = 64
"""Partitions after the last one with rows whose ends are looked up when a layout is migrated."""
MIGRATED_KEY = "josefine.journal.migratedFrom"
"""The older layout with which a migrated table was created."""
STATISTIC_CHARS_MAX = 256
"""A longer journal id is not in the Delta log's statistics, only in the file's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The table at one version."""

    version: int
    stamp: Stamp | None = None
    """File stamp of the version's log entry: it shows that the table was replaced by another."""
    files: dict[int, tuple[PartFile, ...]] = field(default_factory=dict)
    ends: dict[int, list[StoredEnd]] = field(default_factory=dict)
    transactions: dict[str, int | None] = field(default_factory=dict)
    """Cache of looked-up transactions: each lookup searches the Delta log."""


class DeltaStore:
    """The store of one topic, in a folder of its own below `root`. Thread-safe."""

    def __init__(
        self,
        root: Place | str,
        topic: str,
        topic_id: UUID | None,
        *,
        partition_count: int | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        at: Callable[[str], None] = nothing_fails,
    ) -> None:
        """Opens nothing. `partition_count` is the topic's; the table must have been written with
        the same (None: not checked). `at` is called with the name of each step of a commit."""
        self.topic = topic
        self.path = place_of(root).absolute() / topic
        self._topic_id = "" if topic_id is None else str(topic_id)
        self._partition_count = partition_count
        self._clock_ms = clock_ms
        self.at = at
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None
        self._layout = SCHEMA_VERSION
        self._is_migrated = False
        self._seen = _Seen(version=-1)
        self._open_files = OpenFiles()

    def snapshot(self, partitions: Sequence[int]) -> DeltaSnapshot:
        """The newest snapshot of these partitions; a missing table is empty. Raises StoreError."""
        with self._lock:
            table = self._refreshed()
            seen = self._seen
            ends = {p: self._end(table, p) for p in partitions}
        return DeltaSnapshot(
            topic=self.topic,
            path=self.path,
            ends=ends,
            files={p: seen.files.get(p, ()) for p in partitions},
            open_files=self._open_files,
        )

    def partitions(self) -> Sequence[int]:
        """The partitions that have rows."""
        with self._lock:
            self._refreshed()
            return sorted(self._seen.files)

    def taken_back(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Partitions whose table was restored since their last commit: the committed end and the
        end of the restored version."""
        found = {}
        with self._lock:
            table = self._refreshed()
            for partition in partitions:
                committed = self._transaction(table, self._app_id(partition)) or 0
                there = self._end(table, partition)
                end = 0 if there is None else there.end
                if end < committed:
                    found[partition] = committed, end
        return found

    def commit(self, batches: Sequence[Batch]) -> None:
        """Commit all batches or none. Raises Overtaken, StoreError, OSError."""
        with self._lock:
            table = self._ready(batches)
            self.at("before_files")
            self._commit_rows(table, batches, [self.written(b) for b in batches if b.records])

    def commit_files(self, batches: Sequence[Batch], files: Sequence[AddAction]) -> None:
        """As `commit`, for batches whose rows were `written` into this folder before."""
        with self._lock:
            self._commit_rows(self._ready(batches), batches, files)

    def _ready(self, batches: Sequence[Batch]) -> DeltaTable:
        """The table, if each batch starts at the stored end. Raises Overtaken."""
        table = self._migrated(self._refreshed() or self._created())
        for batch in batches:
            there = self._end(table, batch.partition)
            if (None if there is None else there.end) != batch.begin:
                raise Overtaken(f"partition {self.topic}-{batch.partition}: {batch.begin}")
        return table

    def _commit_rows(
        self, table: DeltaTable, batches: Sequence[Batch], files: Sequence[AddAction]
    ) -> None:
        actions: list[AddAction | RemoveAction] = [*files]
        without = []
        for batch in batches:
            there = self._end(table, batch.partition)
            if there is None or not there.path:
                without.append(batch.partition)
            lost_to = max(batch.lost_to, 0 if there is None else there.lost_to)
            end = StoredEnd(partition=batch.partition, end=batch.end, lost_to=lost_to)
            actions += self._end_replaced(there, end)
        self.at("before_commit")
        # Of two commits that replace the same end, the second one fails as a whole, so rows and end
        # offset can never come from two replicators.
        transactions = [Transaction(self._app_id(b.partition), b.end) for b in batches]
        self._commit(table, actions, transactions, without)
        self.at("after_commit")

    def written(self, batch: Batch) -> AddAction:
        """A new file with the rows of a batch, not yet part of the table."""
        return self._written(batch.partition, table_of(batch.records))

    def replace(self, partition: int, old: Sequence[PartFile], rows: pa.Table) -> None:
        """Replace files by equivalent rows. Raises as `commit` does."""
        with self._lock:
            table = self._refreshed()
            assert table is not None, "it has files"
            # A transaction of its own makes two concurrent merges conflict, but not a merge and a
            # replicator's commit.
            merges = f"{self._app_id(partition)}:merges"
            number = (table.transaction_version(merges) or 0) + 1
            if not set(old) <= set(self._seen.files.get(partition, ())):
                raise Overtaken(f"partition {self.topic}-{partition}: its files are merged already")
            self.at("before_merge")
            actions: list[AddAction | RemoveAction] = []
            if rows.num_rows:
                actions.append(self._written(partition, rows, data_change=False))
            actions += [self._removed(partition, each.path, each.size) for each in old]
            self.at("before_merge_commit")
            self._commit(table, actions, [Transaction(merges, number)])
            self.at("after_merge")

    def vacuum(self, retention_hours: int) -> int:
        """Delete files that no version of the last hours contains; returns how many."""
        with self._lock:
            table = self._refreshed()
            return 0 if table is None else vacuum(table, retention_hours)

    # -- the table

    def _refreshed(self) -> DeltaTable | None:
        """The table at its newest version; None: it does not exist."""
        if self._table is not None and self._stamp(self._seen.version) != self._seen.stamp:
            self._table = None  # the version's log entry was cleaned up, or the table was replaced
        if self._table is None:
            self._table = self._opened()
            if self._table is None:
                return None
        elif self._entry(self._seen.version + 1).exists():
            try:
                self._table.update_incremental()
            except DeltaError as error:
                raise self._broken(error) from error
        if self._table.version() != self._seen.version:
            listed = pa.table(self._table.get_add_actions(flatten=True))
            self._read_properties(self._table)
            version, files = self._table.version(), files_of(listed)
            self._check_placement(self._table, files)
            stamp = self._stamp(version)
            self._seen = _Seen(version=version, stamp=stamp, files=files, ends=ends_of(listed))
        return self._table

    def _stamp(self, version: int) -> Stamp | None:
        """File stamp of a log entry; None: it does not exist."""
        return stamp_of(self._entry(version))

    def _entry(self, version: int) -> Place:
        """Path of a log entry: to look for the file is cheaper than to ask delta-rs."""
        return self.path / "_delta_log" / f"{version:020}.json"

    def _opened(self) -> DeltaTable | None:
        try:
            table = DeltaTable(str(self.path), storage_options=options_of(self.path))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self._broken(error) from error
        self._seen = _Seen(version=-1)
        return table

    def _read_properties(self, table: DeltaTable) -> None:
        """Check what other programs may have changed. RESTORE restores properties too. Raises
        StoreError."""
        properties = table.metadata().configuration
        version, topic_id = properties.get(VERSION_KEY, ""), properties.get(TOPIC_ID_KEY, "")
        if not version.isdigit():
            raise StoreError(f"{self.path} is a Delta table, but not a store of journals")
        self._layout = int(version)
        self._is_migrated = MIGRATED_KEY in properties
        if self._layout > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} is a store of version {version}; this program knows up to "
                f"{SCHEMA_VERSION}: use a newer one"
            )
        if topic_id and self._topic_id and topic_id != self._topic_id:
            raise StoreError(
                f"{self.path} is the store of another topic '{self.topic}': its id is {topic_id}, "
                f"the brokers have {self._topic_id}; the topic was deleted and created again. Move "
                "the store away to start with an empty one"
            )
        if has_deleted_rows(table):
            raise StoreError(
                f"store {self.path}: another program deleted rows by deletion vectors, and they "
                "are in the files still: restore the version before"
            )

    def _check_placement(self, table: DeltaTable, files: Mapping[int, Sequence[PartFile]]) -> None:
        """Raises TopicWidened if the rows were written with another partition count."""
        count = self._partition_count
        if count is None:
            return
        recorded = table.metadata().configuration.get(PARTITIONS_KEY)
        if recorded is not None:
            if int(recorded) != count:
                where = f"as the store {self.path} records"
                raise TopicWidened(self.topic, count, recorded=int(recorded), where=where)
            return
        for partition, listed in files.items():
            for key in sorted(
                {key for each in listed for key in (each.first_key, each.last_key) if key}
            ):
                if partition_for_key(key.encode(), count) != partition:
                    where = f"the id '{key}' in partition {partition} of the store {self.path}"
                    raise TopicWidened(self.topic, count, recorded=None, where=where)

    def recorded_partition_count(self) -> int | None:
        """The recorded count; None: no table, or not recorded. Raises StoreError."""
        with self._lock:
            table = self._refreshed()
            recorded = None if table is None else table.metadata().configuration.get(PARTITIONS_KEY)
        return None if recorded is None else int(recorded)

    def set_partition_count(self, count: int) -> None:
        """Record the count after a move; a process that has the table open with another count then
        fails. Does nothing without a table. Raises Overtaken, StoreError."""
        with self._lock:
            table = self._refreshed()
            if table is None:
                return
            try:
                set_properties(table, {PARTITIONS_KEY: str(count)})
            except CommitFailedError as error:
                raise Overtaken(f"{self.path}: {error}") from error
            except DeltaError as error:
                raise self._broken(error) from error
            finally:
                self._table = None

    def _migrated(self, table: DeltaTable) -> DeltaTable:
        """Migrate the table to this layout's version and columns; its files are kept.

        The version comes first, because programs of the older layout must not commit in between.
        After a crash here, the next commit completes the migration.
        """
        if self._layout == SCHEMA_VERSION and not self._ends_are_due(table):
            return table
        self.at("before_migration")
        there = {field.name for field in table.schema().fields}
        missing = [each for each in Schema.from_arrow(SCHEMA).fields if each.name not in there]
        try:
            if missing:
                table.alter.add_columns(missing, post_commithook_properties=cleanup(table))
            if self._layout < SCHEMA_VERSION:
                properties = {VERSION_KEY: str(SCHEMA_VERSION), MIGRATED_KEY: str(self._layout)}
                properties |= self._count_property()
                set_properties(table, properties)
            self._migrate_ends()
        except CommitFailedError as error:
            raise Overtaken(f"{self.path}: {error}") from error
        except DeltaError as error:
            raise self._broken(error) from error
        finally:
            self._table = None
        migrated = self._refreshed()
        assert migrated is not None, "it was there"
        return migrated

    def _ends_are_due(self, table: DeltaTable) -> bool:
        """Whether ends are still in transactions only."""
        return self._is_migrated and self._transaction(table, self._layout_id) is None

    def _migrate_ends(self) -> None:
        """Store the ends of all partitions that have rows or a transaction as files."""
        self._table = None
        table = self._refreshed()
        assert table is not None, "it was there"
        actions: list[AddAction | RemoveAction] = []
        without = []
        for partition in self._partitions_of(table):
            end = self._end(table, partition)
            if end is not None and not end.path:
                actions += self._end_replaced(None, end)
                without.append(partition)
        self._commit(table, actions, [Transaction(self._layout_id, SCHEMA_VERSION)], without)

    def _partitions_of(self, table: DeltaTable) -> list[int]:
        """All partitions of the table, also those with an end and no rows."""
        found = set(self._seen.files)
        partition = 0
        while partition <= max(found, default=-1) + MARKS_ONLY_MAX:
            if self._transaction(table, self._app_id(partition)) is not None:
                found.add(partition)
            partition += 1
        return sorted(found)

    def _created(self) -> DeltaTable:
        properties = {VERSION_KEY: str(SCHEMA_VERSION), TOPIC_KEY: self.topic}
        properties |= {TOPIC_ID_KEY: self._topic_id} if self._topic_id else {}
        properties |= self._count_property()
        self.at("before_create")
        try:
            DeltaTable.create(
                str(self.path),
                Schema.from_arrow(SCHEMA),
                storage_options=options_of(self.path),
                partition_by=["partition"],
                configuration=properties,
                raise_if_key_not_exists=False,
            )
        except DeltaError as error:
            if (table := self._refreshed()) is not None:  # another replicator has created it
                return table
            raise self._broken(error) from error
        created = self._refreshed()
        assert created is not None
        return created

    def _count_property(self) -> dict[str, str]:
        count = self._partition_count
        return {} if count is None else {PARTITIONS_KEY: str(count)}

    def _written(self, partition: int, rows: pa.Table, *, data_change: bool = True) -> AddAction:
        """A new file with these rows, not yet part of the table."""
        least, most = pc.min_max(rows["offset"]).as_py().values()
        name = f"partition={partition}/{least:020}-{uuid4().hex}.parquet"
        size = store_files.write(self.path / name, rows)
        first, last = rows["key"][0].as_py(), rows["key"][-1].as_py()
        minima: dict[str, Any] = {"offset": least}
        maxima: dict[str, Any] = {"offset": most}
        if max(len(first), len(last)) <= STATISTIC_CHARS_MAX:
            minima["key"], maxima["key"] = first, last
        stats = {"numRecords": rows.num_rows, "minValues": minima, "maxValues": maxima}
        return AddAction(
            path=name,
            size=size,
            partition_values={"partition": str(partition)},
            modification_time=self._clock_ms(),
            data_change=data_change,
            stats=json.dumps(stats),
        )

    def _end_replaced(
        self, old: StoredEnd | None, new: StoredEnd
    ) -> list[AddAction | RemoveAction]:
        """The actions that replace one end by another. Writes the new file."""
        name = new.named()
        size = store_files.write(self.path / name, NO_ROWS)
        added = AddAction(
            path=name,
            size=size,
            partition_values={"partition": str(new.partition)},
            modification_time=self._clock_ms(),
            data_change=False,
            stats=json.dumps({"numRecords": 0}),
        )
        if old is None or not old.path:
            return [added]
        return [added, self._removed(old.partition, old.path, old.size)]

    def _removed(self, partition: int, path: str, size: int) -> RemoveAction:
        """The removal of a file whose rows are in another file now."""
        return RemoveAction(path, False, self._clock_ms(), size, {"partition": str(partition)})

    def _commit(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        transactions: list[Transaction],
        without: Sequence[int] = (),
    ) -> None:
        """`without`: partitions that have no end to replace; one that came meanwhile conflicts."""

        def conflicts(path: str) -> bool:
            end = stored_end(path, 0)
            return end is not None and end.partition in without

        try:
            commit(
                table, actions, transactions, conflicts, entry=lambda at: text_of(self._entry(at))
            )
        except CommitFailedError as error:
            raise Overtaken(f"{self.path}: {error}") from error
        except DeltaError as error:
            raise self._broken(error) from error

    def _end(self, table: DeltaTable | None, partition: int) -> StoredEnd | None:
        """The stored end of a partition; None: nothing of it is stored. Raises StoreError."""
        if table is None:
            return None
        found = self._seen.ends.get(partition, [])
        files = self._seen.files.get(partition, ())
        if len(found) == 1:
            return found[0]
        is_older = self._layout < SCHEMA_VERSION or self._is_migrated
        if found or (files and not is_older):
            raise StoreError(
                f"store {self.path}: partition {partition} has rows, but no stored end offset: "
                "another program rewrote its files (OPTIMIZE), or restored a part of them; restore "
                "a whole version, or move the store away to start with an empty one"
            )
        if not is_older:
            return None
        if self._transaction(table, self._layout_id) is None:
            end = self._transaction(table, self._app_id(partition))
        else:  # restored to a version of the older layout: only its rows show the end
            end = max((each.last_offset + 1 for each in files), default=None)
        return None if end is None else StoredEnd(partition=partition, end=end, lost_to=0)

    def _transaction(self, table: DeltaTable | None, app_id: str) -> int | None:
        known = self._seen.transactions
        if table is not None and app_id not in known:
            known[app_id] = table.transaction_version(app_id)
        return known.get(app_id)

    def _app_id(self, partition: int) -> str:
        return f"josefine-journal:{self.topic}:{partition}"

    @property
    def _layout_id(self) -> str:
        """The transaction that marks, even after a RESTORE, that the layout has ends as files."""
        return f"josefine-journal:{self.topic}:layout"

    def _broken(self, error: Exception) -> StoreError:
        return StoreError(f"store {self.path}: {error}")

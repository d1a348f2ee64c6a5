"""A Delta table with the chain of one topic, written by delta-rs: files, offsets and the next
transaction version in one commit.

Rules: the commit's metadata are those of a pipeline's commit (`said_of`), so `pipeline run`,
`status` and `reconcile` read them. A commit is made only onto a version whose log entries were all
looked at; delta-rs refuses it if another commit with the chain's transaction came meanwhile. After
a failure the log decides whether it was made. It is durable before anybody hears of it. A table
that was dropped, created again or restored since the last look stops the writer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from josefine_journal import store_commit
from josefine_journal.store_commit import cleanup, has_deleted_rows
from josefine_lake.config.table_topic import Evolution
from josefine_lake.writer import compaction
from josefine_lake.writer.changes import Changes
from josefine_lake.writer.data_file import DataFile
from josefine_lake.writer.durable import RECENT, sync_commits
from josefine_lake.writer.evolution import Fit, fit
from josefine_lake.writer.merge import INDEXED_BY_NAME, write
from josefine_lake.writer.rewrite import Rewrite
from josefine_lake.writer.start import Found
from josefine_lake.writer.vacuum import delete, expired
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.model.direct_append import TableRules
from pipelines.sinks.commits import (
    Link,
    StoppedError,
    hand_over,
    is_ours,
    lost_race,
    said_of,
)
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.sinks.parquet_statistics import INDEXED_COLUMNS
from pipelines.sinks.table_files import is_plain, stored_files
from pipelines.storage.files import forget_last_checkpoint
from pipelines.storage.folders import TableFolder

ATTEMPTS_MAX = 16
"""Of one commit: each of the others may be lost to a commit of another program."""
PHYSICAL_NAMES = "delta.columnMapping.mode"
CONSTRAINT = "delta.constraints."
APPEND_ONLY = "delta.appendOnly"


class MisfitError(ValueError):
    """The existing table cannot take the topic's rows; the message has the reason."""


class _Seen(NamedTuple):
    """The newest entry of a log that was looked at."""

    version: int
    text: str | None
    """Another one means another table."""


class ChainedTable:
    """One table and one chain in it. Mutable: the newest version that was looked at."""

    def __init__(
        self,
        folder: TableFolder,
        link: Link,
        evolution: Evolution = Evolution.NONE,
        *,
        merges: bool = False,
        new_file: type[DataFile] = DataFile,
    ) -> None:
        """`merges`: commits change and delete rows, which not every table allows. `new_file`: the
        class of files, also of rewritten ones."""
        self._merges = merges
        self.folder = folder
        self.new_file = new_file
        self.link = link
        self._evolution = evolution
        self.indexed_columns = INDEXED_COLUMNS
        """Of how many columns, the first ones, new files need statistics; -1: of all."""
        self._said: Mapping[str, Any] = {}
        self._removed: tuple[str, ...] = ()
        self._log = DeltaLogReader(folder.files, folder.path, link.app_id)
        self._table: DeltaTable | None = None
        self._seen = _Seen(-1, None)
        self._durable = -1
        """The version up to which all commits were synced."""

    def load(self) -> Found:
        """The chain's newest commit; None: it has none."""
        found, newest = self._log.last_tip()
        self._look_at(newest)
        self._durable = max(min(self._durable, newest), newest - RECENT, -1)
        if isinstance(found, Unreadable) and found.txn_version == 0:
            # Old log entries were cleaned up; a checkpoint still has the transactions.
            known = self._opened()
            version = known.transaction_version(self.link.app_id) if known else None
            found = None if version is None else replace(found, txn_version=version)
        if isinstance(found, Tip) and found.txn_version == 0 and not self._log.reaches_back():
            known = self._opened()
            version = known.transaction_version(self.link.app_id) if known else None
            found = replace(found, txn_version=version or 0)
        self._said = found.said if isinstance(found, Tip) else {}
        return found

    def others(self) -> list[OtherChain]:
        """The chains of other names in this table."""
        seen = self._log.other_chains()
        return [other for other in seen.values() if other]

    def take_over(self, other: OtherChain) -> None:
        """Continue the chain of another name: see `hand_over`. Raises StoppedError."""
        hand_over(ChainedTable(self.folder, self.link.under(other.name)), self.link.app_id)

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is added to the metadata. Raises StoppedError."""
        table = self._opened()
        schema = pa.schema([]) if table is None else pa.schema(table.schema().to_arrow())
        self.commit([], commit, schema, more, lambda place: None)

    @property
    def is_there(self) -> bool:
        """Whether the table exists."""
        return self._seen.version >= 0

    def ensure(self, schema: pa.Schema) -> None:
        """Create the table, or add the columns that an existing one lacks, if it may. Raises
        MisfitError for a table that does not take these columns."""
        table = self._opened()
        if table is None:
            try:
                DeltaTable.create(
                    self.folder.path, Schema.from_arrow(schema), storage_options=self._options()
                )
            except DeltaError:
                # Another writer may have created it at the same time: then it has to fit.
                if self._opened() is None:
                    raise
            table = self._opened()
            assert table is not None, "it was created"
        # A new table keeps the version before its first entry: another writer may have created it
        # since `load`, and committed the same records. The first commit looks at all of that.
        self._table = None
        self.indexed_columns = _indexed_columns(table.metadata().configuration)
        self._evolve(table, Schema.from_arrow(schema))
        # What a writer before this one has committed: it may have been killed before its sync.
        self._sync()

    def check(self, schema: pa.Schema) -> None:
        """Change nothing. Raises MisfitError for an existing table that `ensure` would refuse."""
        table = self._opened()
        if table is not None:
            self._fit(table, Schema.from_arrow(schema))

    def _fit(self, table: DeltaTable, wanted: Schema) -> Fit:
        """The columns that the table lacks. Raises MisfitError."""
        _check_table(table, merges=self._merges)
        found = fit(table, wanted, self._said, self._evolution)
        if isinstance(found, str):
            raise MisfitError(found)
        _check_fit(table, wanted, {field.name for field in found.missing})
        return found

    def _evolve(self, table: DeltaTable, wanted: Schema) -> None:
        found = self._fit(table, wanted)
        self._removed = found.removed
        if found.missing:
            # A commit without the chain: the next one looks at it as at any other program's.
            table.alter.add_columns(list(found.missing), post_commithook_properties=cleanup(table))
            _check_fit(table, wanted)

    def commit(
        self,
        files: Sequence[AddAction | Changes],
        commit: Commit,
        schema: pa.Schema,
        more: Mapping[str, Any],
        at: Callable[[str], None],
    ) -> None:
        """Commit files and offsets at once. Raises StoppedError; DeltaError and OSError if the
        storage fails, and then nothing was committed, or it is not durable."""
        if self._removed:
            more = {**more, "removed": [*self._removed]}
        said = json.dumps(said_of(self.link, "", commit, commit.txn_version, more))
        properties = CommitProperties(
            custom_metadata={"userMetadata": said},
            app_transactions=[Transaction(self.link.app_id, commit.txn_version)],
            # Each commit of others is looked at first: a merge of theirs may be of the same keys,
            # and a RESTORE below this commit would be hidden from the next start.
            max_commit_retries=0,
        )
        for attempt in range(1, ATTEMPTS_MAX + 1):
            table = self._ready()
            at("before_commit")
            self._require(files)
            failure: Exception | None = None
            if self.folder.at is None:
                forget_last_checkpoint(self.folder.path)
            try:
                columns_max = self.indexed_columns
                write(table, self.folder, files, schema, properties, self._removed, columns_max)
            except (DeltaError, OSError) as error:
                failure = error
            # The answer may be lost although the commit was made: the log knows.
            if self._is_made(commit):
                self._sync()
                return
            if failure is None:
                raise lost_race()
            if not isinstance(failure, CommitFailedError) or attempt == ATTEMPTS_MAX:
                raise failure
        raise AssertionError("unreachable")

    def identity(self) -> str:
        """The table's id, if its log is the one that was seen or written here. Raises StoppedError
        for a table that was dropped, created again, restored or committed to by another writer."""
        table = self._ready()
        self._sync()  # also what came from others, as a rewrite of small files
        return str(table.metadata().id)

    def files_and_bytes(self) -> tuple[int, int]:
        """The data files of the newest version, and their bytes."""
        table = self._newest()
        if table is None:
            return 0, 0
        sizes = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist()
        return len(sizes), sum(sizes)

    def actions(self) -> Any:
        """The data files of the newest version, an Arrow table of delta-rs."""
        table = self._newest()
        return None if table is None else pa.table(table.get_add_actions(flatten=True))

    def delete_rows(self, predicate: str) -> None:
        """Delete rows, by a commit without the chain. Raises StoppedError, DeltaError."""
        # Refused after any other commit, for the reason that `compact` has.
        alone = CommitProperties(max_commit_retries=0)
        table = self._ready()
        table.delete(predicate, commit_properties=alone, post_commithook_properties=cleanup(table))

    def compact(self, file_bytes: int, at_ms: int) -> None:
        """Rewrite small files into larger ones: the same rows. Raises DeltaError, OSError."""
        table = self._newest()
        if table is None or has_deleted_rows(table):
            return
        files = filter(is_plain, stored_files(table))
        if not (groups := compaction.groups(files, file_bytes)):
            return
        schema = pa.schema(table.schema().to_arrow())
        # Twice the size: a group that is made one file has less than that.
        columns_max, size = self.indexed_columns, 2 * file_bytes
        with Rewrite(self.folder, schema, columns_max, size, at_ms, self.new_file) as new:
            for group in groups:
                new.copy(group)
        old = [each for group in groups for each in group]
        gone = [each.removed(at_ms, data_change=False) for each in old]
        store_commit.commit(table, [*gone, *new.closed], entry=self._text)

    def vacuum(self, retention_ms: int, within_ms: int) -> tuple[int, bool]:
        """Delete files that no version within the retention needs: how many, and whether all of
        them. Raises DeltaError, OSError."""
        table = self._newest()
        names = [] if table is None else expired(table, retention_ms)
        deleted = delete(self.folder.arrow(), names, within_ms) if names else 0
        return deleted, deleted == len(names)

    def _ready(self) -> DeltaTable:
        """The table at a version up to which all entries were looked at. Raises StoppedError."""
        if self._is_another():
            raise _stop("the table was dropped or created again while it was written")
        table = self._table or self._opened()
        if table is None:
            raise _stop("the table was dropped while it was written")
        self._table = table
        while True:
            newest = self._seen.version
            for entry in self._log.after(newest):
                if entry.txn_version is not None or entry.handed_to:
                    raise lost_race()
                if entry.operation == "RESTORE":
                    raise _stop("the table was restored while it was written")
                newest = entry.version
            self._look_at(newest)
            if table.version() >= self._seen.version:
                break
            table.update_incremental()
        if table.version() > self._seen.version:
            # A commit between both looks: its entry is looked at first.
            return self._ready()
        return table

    def _require(self, files: Sequence[AddAction | Changes]) -> None:
        """Raise StoppedError if a file is not where the commit will name it: somebody has replaced
        the folder, maybe by a copy of the same version, while the file was written."""
        if self.folder.at is not None:
            return
        for each in files:
            if isinstance(each, Changes):
                continue
            path = Path(self.folder.path, each.path)
            if not path.is_file() or path.stat().st_size != each.size:
                raise _stop("its folder was replaced while a file was written")

    def _sync(self) -> None:
        """Make the commits up to the newest known one durable. Raises OSError."""
        if self.folder.at is None and self._durable < self._seen.version:
            sync_commits(Path(self.folder.path), range(self._durable + 1, self._seen.version + 1))
        self._durable = self._seen.version

    def _is_made(self, commit: Commit) -> bool:
        """Whether the log has this commit. Raises StoppedError for one of another run."""
        for entry in self._log.after(self._seen.version):
            if entry.txn_version is None:
                continue
            made = (commit.txn_version, commit.txn_version)
            if not is_ours(entry.metadata or {}, entry.txn_version, self.link, made):
                raise lost_race()
            self._look_at(entry.version)
            return True
        return False

    def _look_at(self, version: int) -> None:
        self._seen = _Seen(version, self._text(version))

    def _is_another(self) -> bool:
        """Whether the table was dropped or created again since its newest entry was looked at."""
        return self._text(self._seen.version) != self._seen.text

    def _text(self, version: int) -> str | None:
        path = f"{self.folder.path}/_delta_log/{version:020d}.json"
        return None if version < 0 else self.folder.files.read_text(path)

    def _newest(self) -> DeltaTable | None:
        """The table at its newest version. Of an open one only the new entries are read: a look at
        the whole log after each commit would be most of the commit's cost."""
        # One that was dropped or created again is another table: `_ready` stops at it.
        if self._table is None or self._is_another():
            return self._opened()
        self._table.update_incremental()
        return self._table

    def _opened(self) -> DeltaTable | None:
        try:
            return DeltaTable(
                self.folder.path, storage_options=self._options(), without_files=False
            )
        except TableNotFoundError:
            return None

    def _options(self) -> dict[str, str] | None:
        return dict(self.folder.options) or None


def _stop(detail: str) -> StoppedError:
    return StoppedError(Stop(verdict=Verdict.TABLE_BEHIND, detail=detail))


def reached(found: Found) -> TopicOffsets:
    """The offsets of a chain's newest commit; none if it has none that can be read."""
    return found.reached if isinstance(found, Tip) else TopicOffsets()


def _indexed_columns(properties: Mapping[str, str]) -> int:
    # Columns that are named may be any of them.
    if INDEXED_BY_NAME in properties:
        return -1
    return TableRules(reader=1, writer=2, properties=properties).indexed_columns


def _check_table(table: DeltaTable, *, merges: bool) -> None:
    """Raises MisfitError for a table with rules that this writer does not serve."""
    meta = table.metadata()
    if meta.partition_columns:
        raise MisfitError(f"it is partitioned by {', '.join(meta.partition_columns)}")
    if meta.configuration.get(PHYSICAL_NAMES, "none") != "none":
        raise MisfitError("its columns are mapped to other names (delta.columnMapping.mode)")
    if merges and meta.configuration.get(APPEND_ONLY, "").lower() == "true":
        raise MisfitError(
            f"it is append-only ({APPEND_ONLY}), and mode upsert changes and deletes rows: set "
            f"{APPEND_ONLY}=false on the table, or use another location"
        )
    rules = [name for name in meta.configuration if name.startswith(CONSTRAINT)]
    if rules:
        raise MisfitError(f"it has the constraint {rules[0]}, which is not checked here")


def _check_fit(table: DeltaTable, wanted: Schema, coming: Collection[str] = ()) -> None:
    """Raises MisfitError unless files with these columns are valid files of the table. `coming`:
    columns that are added later, or parts of them."""
    there = {field.name: field for field in table.schema().fields}
    for each in wanted.fields:
        found = there.pop(each.name, None)
        if each.name in coming:
            continue
        if found is None:
            raise MisfitError(f"it has no column {each.name}")
        if found.type != each.type:
            raise MisfitError(f"its column {each.name} is {found.type}, not {each.type}")
        if "delta.invariants" in found.metadata or "delta.generationExpression" in found.metadata:
            raise MisfitError(f"its column {each.name} has a rule, which is not checked here")
    needed = next((name for name, field in there.items() if not field.nullable), None)
    if needed is not None:
        raise MisfitError(f"its column {needed} is required, and the topic does not have it")

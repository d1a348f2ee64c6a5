"""A local Delta table that gets files by commits of delta-rs, without a Spark job.

Delta for Spark computes the whole state of a table for each commit with a transaction; delta-rs
keeps the table open and reads only the commits that came since. The chain of the commits is that of
`DeltaChain`, which looks at the log before and after each of them; a commit is made only onto the
version at which it looked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.model.direct_append import TableRules, why_not_appended, why_not_created
from pipelines.model.table_columns import Fields
from pipelines.sinks.commits import Link
from pipelines.sinks.parquet_statistics import statistics, unseen_in
from pipelines.storage.files import FolderFiles, forget_checksum, forget_last_checkpoint

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

CAME_BETWEEN = "DELTA_CONCURRENT_WRITE: another commit came between"
"""In the words by which `retry_policy` knows that the commit may be repeated."""
NO_RULES = TableRules(reader=1, writer=2)
OWN_FOLDER = "_josefine"
"""In a table's folder; Delta's readers and VACUUM ignore it."""


class NotDirectError(Exception):
    """The table has to be written by Spark; the message has the reason."""


class FailedError(Exception):
    """delta-rs did not report that a commit was made; the message has the reason."""


class CameBetweenError(Exception):
    """Another commit came between; the attempt may be repeated."""


class LocalFiles(FolderFiles):
    """Files of this machine that Hadoop's file system may have written before."""

    def write_text(self, path: str, text: str) -> None:
        """Write or replace a file, and remove Hadoop's checksum of the old one."""
        at = Path(path)
        at.parent.mkdir(exist_ok=True)
        forget_checksum(at)
        super().write_text(path, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A Parquet file that no commit names yet."""

    path: Path
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new file in the table's folder, the actions that remove those whose rows it has, and what
    Delta's history shows of it."""

    new: NewFile
    removed: Sequence[RemoveAction]
    metrics: Mapping[str, str]


class DirectTable:
    """One table. Mutable: the open table, the version whose rules were checked, and how many
    columns of the files taken last have statistics."""

    def __init__(
        self,
        path: str,
        rows: Fields,
        settings: Mapping[str, str],
        why_not: Callable[[TableRules, Fields], str] = why_not_appended,
    ) -> None:
        """`rows`: the columns of all files; `settings`: the properties of a new table; `why_not`:
        why Spark has to write rows with these columns, "" if it need not."""
        self.path = path
        self._why_not = why_not
        self._rows, self._settings = rows, settings
        self._table: DeltaTable | None = None
        self._checked: tuple[Any, ...] | None = None
        self._rules: TableRules | None = None
        self._indexed = NO_RULES.indexed_columns

    def check(self, version: int) -> TableRules | None:
        """Raise NotDirectError if the table at `version` has to be written by Spark; -1: there is
        none yet. Its rules; None for a table that is not there."""
        if version < 0:
            why = why_not_created(self._rows) or self._why_not(
                TableRules(reader=1, writer=2, columns=self._rows), self._rows
            )
            if not why and not _is_free(Path(self.path)):
                why = "its folder has other files"
            if why:
                raise NotDirectError(why)
            return None
        table = self._at(version)
        found = _told(table)
        if found != self._checked:
            rules = _rules(table)
            why = self._why_not(rules, self._rows)
            if why:
                raise NotDirectError(why)
            self._checked, self._rules = found, rules
        return self._rules

    def create(self) -> None:
        """Create the table without rows, if nobody has meanwhile."""
        from deltalake import DeltaTable, Schema

        schema = Schema.from_json(json.dumps({"type": "struct", "fields": [*self._rows]}))
        DeltaTable.create(self.path, schema, mode="ignore", configuration=dict(self._settings))

    def take(self, files: Sequence[NewFile]) -> list[Any]:
        """Move the files that have rows into the table's folder; delta-rs's actions that add
        them. Raises NotDirectError for files that Arrow cannot read."""
        import pyarrow.parquet as pq

        folder = Path(self.path)
        # The mark of a folder whose table is not committed yet: see `_is_free`.
        (folder / OWN_FOLDER).mkdir(parents=True, exist_ok=True)
        actions, self._indexed = [], (self._rules or NO_RULES).indexed_columns
        with arrow_reads():
            footers = [pq.read_metadata(each.path) for each in files]
            for each, footer in zip(files, footers, strict=True):
                if footer.num_rows:
                    to = folder / each.path.name
                    _move(each.path, to)
                    actions.append(self._added(NewFile(path=to, at_ms=each.at_ms), footer))
        return actions

    def _added(self, file: NewFile, footer: Any) -> AddAction:
        """delta-rs's action that adds a file in the table's folder."""
        from deltalake.transaction import AddAction

        columns_max = (self._rules or NO_RULES).indexed_columns
        return AddAction(
            path=file.path.name,
            size=file.path.stat().st_size,
            partition_values={},
            modification_time=file.at_ms,
            data_change=True,
            stats=statistics(footer, columns_max, unseen_in(file.path, footer, columns_max)),
        )

    def add(
        self, actions: Sequence[Any], version: int, link: Link, number: int, metadata: str
    ) -> None:
        """Commit onto `version`, as transaction `number` of `link`; -1 creates the table.
        Raises CameBetweenError, NotDirectError; FailedError or OSError if only the
        log knows whether it was made."""
        from deltalake import CommitProperties, Schema, Transaction
        from deltalake.transaction import create_table_with_add_actions

        # Others may have given the table rules since it was opened.
        rules = self.check(version) or NO_RULES
        if actions and rules.indexed_columns != self._indexed:
            raise NotDirectError("others have changed which of its columns have statistics")
        rows = sum(json.loads(each.stats)["numRecords"] for each in actions)
        metrics = {
            "numFiles": str(len(actions)),
            "numOutputRows": str(rows),
            "numOutputBytes": str(sum(each.size for each in actions)),
        }
        properties = CommitProperties(
            custom_metadata={"userMetadata": metadata, "operationMetrics": metrics},
            app_transactions=[Transaction(link.app_id, number)],
            # By itself delta-rs puts it on top of a RESTORE, which no start would find below it.
            max_commit_retries=0,
        )
        schema = Schema.from_json(json.dumps({"type": "struct", "fields": [*self._rows]}))
        with self._failures(version):
            if version < 0:
                create_table_with_add_actions(
                    self.path,
                    schema,
                    list(actions),
                    configuration=dict(self._settings),
                    commit_properties=properties,
                )
            else:
                self._at(version).create_write_transaction(
                    list(actions), "append", schema, commit_properties=properties
                )

    def merge(
        self,
        merge: Callable[[DeltaTable], Change],
        version: int,
        link: Link,
        number: int,
        metadata: str,
    ) -> None:
        """Replace files by another one with their changed rows, onto `version`. Raises as `add`
        does."""
        import pyarrow.parquet as pq
        from deltalake import CommitProperties, Transaction

        self.check(version)
        table = self._at(version)
        with self._failures(version):
            change = merge(table)
            table.create_write_transaction(
                [self._added(change.new, pq.read_metadata(change.new.path)), *change.removed],
                "append",
                table.schema(),
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": metadata, "operationMetrics": change.metrics},
                    app_transactions=[Transaction(link.app_id, number)],
                    # By itself delta-rs puts it on top of an OPTIMIZE of the same files: each row
                    # would be in the table twice.
                    max_commit_retries=0,
                ),
            )

    @contextmanager
    def _failures(self, version: int) -> Iterator[None]:
        """Of a commit onto `version`, in our own exceptions."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        forget_last_checkpoint(self.path)
        try:
            yield
        except CommitFailedError as error:
            self._table = None
            raise CameBetweenError(CAME_BETWEEN) from error
        except (DeltaError, ValueError) as error:
            self._table = None
            if version < 0 and Path(self.path, f"_delta_log/{0:020d}.json").exists():
                raise CameBetweenError(CAME_BETWEEN) from error
            raise FailedError(str(error)) from error
        except BaseException as error:
            # Rust's panics are no `Exception`, and their class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            self._table = None
            raise FailedError(str(error)) from error

    def _at(self, version: int) -> DeltaTable:
        """The table at this version. Raises CameBetweenError if there is a newer one."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            if self._table is None:
                self._table = DeltaTable(self.path)
            if self._table.version() < version:
                self._table.update_incremental()
        except DeltaError as error:
            # Also for a protocol that delta-rs does not know.
            raise NotDirectError(str(error)) from error
        if self._table.version() != version:
            self._table = None
            raise CameBetweenError(CAME_BETWEEN)
        return self._table


@contextmanager
def arrow_reads() -> Iterator[None]:
    """Raise NotDirectError for files that Arrow cannot read, such as encrypted ones."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise NotDirectError(f"its files cannot be read: {error}") from error


def _told(table: DeltaTable) -> tuple[Any, ...]:
    protocol, metadata = table.protocol(), table.metadata()
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        tuple(sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})),
        tuple(sorted(metadata.configuration.items())),
        tuple(metadata.partition_columns),
        table.schema().to_json(),
    )


def _rules(table: DeltaTable) -> TableRules:
    reader, writer, features, properties, partitions, schema = _told(table)
    return TableRules(
        reader=reader,
        writer=writer,
        features=frozenset(features),
        properties=dict(properties),
        partitions=partitions,
        columns=json.loads(schema)["fields"],
    )


def _is_free(folder: Path) -> bool:
    """Whether a new table may be in this folder: there is nothing, or files of a first commit that
    a crash prevented. Others' files would be deleted by a VACUUM."""
    if not folder.exists():
        return True
    visible = any(not each.name.startswith(("_", ".")) for each in folder.iterdir())
    return not visible or (folder / OWN_FOLDER).is_dir()


def _move(path: Path, to: Path) -> None:
    import shutil

    # By a copy if the folder is in another file system: no commit names the file yet.
    shutil.move(path, to)

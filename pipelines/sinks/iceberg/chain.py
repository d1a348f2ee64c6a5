"""Chained commits into one Iceberg table: rows, both offset maps and the next number at once.

Rules: a commit counts only when the table shows it with this run's id. Its number is the chain's
last one + 1, never Spark's batch id. A commit of this chain by another run is a reason to stop. The
chain is read before each attempt, and an attempt requires that the snapshot it read is still the
current one. So another writer's commit costs an attempt, and one of the same sink ends this run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.base.errors import RunError, first_line
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.model.retry_policy import Retry, retry_of
from pipelines.sinks.commits import (
    NO_BATCH,
    Attempts,
    Link,
    StoppedError,
    hand_over,
    is_ours,
    lost_race,
    said_of,
)
from pipelines.sinks.delta_log import LogEntry, own_entry
from pipelines.sinks.iceberg import snapshots
from pipelines.sinks.iceberg.catalog import ConflictError
from pipelines.sinks.iceberg.files import RowFiles, folder_name, folder_of, orphans
from pipelines.sinks.iceberg.snapshots import Entry

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

T = TypeVar("T")

CONFLICTS_MAX = 20
"""Attempts of one commit, each lost to another writer, before the sink fails."""
PAUSE_S = 0.1
"""The pause after the first attempt; n times as long after the n-th."""
ANOTHER = Retry(mark="", says="another commit came between", pause_s=PAUSE_S)
NO_ANSWER = Retry(mark="", says="the catalog did not answer", pause_s=1.0)


class IcebergChain:
    """One sink's chain in one table. Mutable: the table as last seen, the tip, the last number."""

    def __init__(
        self,
        table: Table | None,
        told: str,
        link: Link,
        files: Callable[[], RowFiles],
        on_retry: Callable[[int, Retry], None] = lambda batch_id, retry: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`table` None: it does not exist, and the chain cannot commit."""
        self.path = told
        self.link = link
        self.tip: Tip | None = None
        self.query_id = ""
        self._table = table
        self._files = files
        self._attempts = Attempts(on_retry, pause)
        self._app_id = link.app_id
        self._number = self._made = 0
        """The number of the chain's last commit, and the snapshot of the last one whose rows the
        table has."""
        self._has_swept = False

    @property
    def table(self) -> Table:
        """The table as last read."""
        assert self._table is not None
        return self._table

    def refresh(self) -> Table:
        """The table as it is now. Raises RunError if the catalog does not answer."""
        try:
            return self._attempts.repeat(NO_BATCH, self.table.refresh, _retry_of)
        except Exception as error:
            what = f"sink `{self.link.sink}`: {self.path} cannot be read: {first_line(error)}"
            raise RunError(what) from error

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Find the last own commit."""
        self.tip = None
        if self._table is None:
            return None
        metadata = self.refresh().metadata
        self._number = snapshots.newest_number(metadata, self._app_id)
        self._made = snapshots.newest_snapshot(metadata, self._app_id)
        found = snapshots.last_tip(metadata, self._app_id, self._added_by)
        self.tip = found if isinstance(found, Tip) else None
        return found

    def is_there(self) -> bool:
        """Whether there is a table."""
        return self._table is not None

    def others(self) -> list[OtherChain]:
        """The chains of other names in this table."""
        if self._table is None:
            return []
        return snapshots.other_chains(self.table.metadata, self._app_id)

    def queries(self) -> set[str]:
        """Spark's ids of the queries that made the commits, as far as snapshots remain."""
        if self._table is None:
            return set()
        found = snapshots.everywhere(self.table.metadata, self._app_id)
        return {str(entry.said.get("query", "")) for entry in found}

    def newest(self) -> LogEntry | None:
        """The newest own commit whose rows the table has."""
        if self._table is None:
            return None
        found = snapshots.entries(self.table.metadata)
        own = next((entry for entry in found if entry.app_id == self._app_id), None)
        return own_entry(own.app_id, own.number, own.said, 0, own.at_ms) if own else None

    def take_over(self, other: OtherChain) -> None:
        """Continue the chain of another name: see `hand_over`. Raises StoppedError."""
        old = self.link.under(other.name)
        tried = self._attempts
        chain = IcebergChain(self._table, self.path, old, self._files, tried.on_retry, tried.pause)
        hand_over(chain, self._app_id)

    def follow(self, tip: Tip | None) -> None:
        """Continue from a tip that the start-up reconciliation settled on."""
        self.tip = tip

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is added to the metadata. Raises StoppedError."""
        self._refuse_lost_race()
        self._committed([], commit, NO_BATCH, more)

    def append(
        self, frame: Any, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """Write rows and commit them; without rows it still commits the offsets. Raises
        StoppedError."""
        self._refuse_lost_race()
        folder = self._folder(commit.txn_version)
        paths = self._written(frame, folder, batch_id)
        found = self._data_files(paths)
        if not found:
            self._files().remove(folder)
        entry = self._committed(found, commit, batch_id, more)
        if not self._has_swept:
            # This commit took the number of any earlier run's unfinished one: that one is dead.
            self._has_swept = True
            self.sweep()
        return entry

    def half_write(self, frame: Any) -> None:
        """For failpoints: files without the commit that names them."""
        number = (self.tip.txn_version if self.tip else self._number) + 1
        self._files().write(frame, self._folder(number))

    def sweep(self) -> None:
        """Remove the folders of runs that died before their commit. Only when another run has
        committed the same number: until then such a run may still be alive and commit."""
        parent, files = self._parent(), self._files()
        runs = snapshots.runs_of(self.table.metadata, self._app_id)
        for name in orphans(files.names(parent), runs):
            files.remove(f"{parent}/{name}")

    def _folder(self, number: int) -> str:
        return f"{self._parent()}/{folder_name(number, self.link.run)}"

    def _parent(self) -> str:
        uuid = str(self.table.metadata.table_uuid)
        return folder_of(self.table.location(), uuid, self.link.name)

    def _refuse_lost_race(self) -> None:
        metadata = self.refresh().metadata
        if snapshots.newest_number(metadata, self._app_id) > self._number:
            raise lost_race()
        self._refuse_rollback(metadata)

    def _refuse_rollback(self, metadata: TableMetadata) -> None:
        # Rows of this run are gone with it; a further commit would hide that from the next start.
        if snapshots.was_rolled_back(metadata, self._made):
            detail = "it was rolled back while it was written"
            raise StoppedError(Stop(verdict=Verdict.TABLE_BEHIND, detail=detail))

    def _written(self, frame: Any, folder: str, batch_id: int) -> Sequence[str]:
        """Write the files. Uncommitted files have no effect, so a retry is safe."""
        return self._attempts.repeat(batch_id, lambda: self._files().write(frame, folder), retry_of)

    def _data_files(self, paths: Sequence[str]) -> list[DataFile]:
        """The files that have rows, described for a manifest by their footers. Raises RunError if
        the table does not accept their columns."""
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        table = self.table
        try:
            found = [parquet_file_to_data_file(table.io, table.metadata, each) for each in paths]
        except ValueError as error:
            what = f"sink `{self.link.sink}`: {self.path} takes no such rows"
            raise RunError(f"{what}: {error}") from error
        return [each for each in found if each.record_count]

    def _committed(
        self,
        files: Sequence[DataFile],
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any] | None,
    ) -> LogEntry:
        """Commit until the table shows it; raise StoppedError if another run has committed."""
        said = said_of(self.link, self.query_id, commit, batch_id, more)

        def look(failure: Exception | None) -> LogEntry | None:
            own = self._own_after(failure)
            made = (batch_id, commit.txn_version)
            if own is not None and is_ours(own.said, own.number, self.link, made):
                self._number, self._made = commit.txn_version, own.snapshot
                self.tip = Tip(reached=commit.end, txn_version=commit.txn_version, said=said)
                rows = sum(each.record_count for each in files)
                return own_entry(own.app_id, own.number, own.said, rows, own.at_ms)
            if own is not None:
                raise lost_race() from failure
            return None

        def attempt() -> None:
            self._attempt(files, commit.txn_version, said)

        try:
            return self._attempts.commit(
                batch_id, attempt, look, retry_of=_retry_of, attempts_max=CONFLICTS_MAX
            )
        # These have a sentence for the user already.
        except (StoppedError, RunError):
            raise
        except Exception as failure:
            raise _failed(self.link.sink, self.path, failure) from failure

    def _attempt(self, files: Sequence[DataFile], number: int, said: Mapping[str, Any]) -> None:
        """One transaction: the snapshot with its summary, and the table's property."""
        from pyiceberg.table import TableProperties

        table = self.table
        last = snapshots.kept(table.metadata, self._app_id)
        summary = snapshots.summary_of(self._app_id, number, said)
        with table.transaction() as change:
            if table.metadata.name_mapping() is None:
                # With a name mapping readers find columns in files without field ids, as Spark's.
                names = table.schema().name_mapping.model_dump_json()
                change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
            with change.update_snapshot(snapshot_properties=summary).fast_append() as rows:
                for each in files:
                    rows.append_data_file(each)
            rows_in = rows.snapshot_id if files else (last.rows_in if last else 0)
            entry = Entry(
                app_id=self._app_id,
                number=number,
                said=said,
                snapshot=rows.snapshot_id,
                rows_in=rows_in,
            )
            change.set_properties(snapshots.property_of(entry))

    def _own_after(self, failure: Exception | None) -> Entry | None:
        """The own commit after the last one that this run knows. Raises RunError if an attempt
        failed and the catalog does not answer whether it succeeded."""
        try:
            # After a success the catalog's answer is the table with the commit.
            metadata = (self.refresh() if failure else self.table).metadata
        except RunError as error:
            raise _failed(self.link.sink, self.path, failure or error) from error
        self._refuse_rollback(metadata)
        # The property as well: the commit's snapshot may be expired already.
        last = snapshots.kept(metadata, self._app_id)
        found = [*snapshots.everywhere(metadata, self._app_id), *([last] if last else [])]
        return next((entry for entry in found if entry.number > self._number), None)

    def _added_by(self) -> Collection[int]:
        current = self.table.current_snapshot()
        manifests = current.manifests(self.table.io) if current else []
        return {each.added_snapshot_id for each in manifests if each.added_snapshot_id}


def _retry_of(failure: Exception) -> Retry | None:
    """A concurrent commit or a missing answer: the next read shows whether the commit succeeded."""
    from pyiceberg import exceptions

    lost = (
        exceptions.CommitStateUnknownException,
        exceptions.ServerError,
        exceptions.ServiceUnavailableError,
        exceptions.TooManyRequestsError,
        OSError,
    )
    if isinstance(failure, ConflictError):
        return ANOTHER
    if isinstance(failure, lost):
        return NO_ANSWER
    return ANOTHER if "database is locked" in str(failure) else None


def _failed(sink: str, place: str, failure: Exception) -> Exception:
    return RunError(
        f"sink `{sink}`: a commit into {place} failed: {first_line(failure)}; the next run finds "
        "out whether it succeeded, and continues"
    )

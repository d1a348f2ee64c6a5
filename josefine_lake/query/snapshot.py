"""One version of a topic's table: its rows as an Arrow dataset, and the offsets that it has.

Rules: rows and offsets are of the same version, whatever is committed meanwhile; DuckDB reads the
dataset's files when it needs them, with its columns and filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from josefine_lake.config.table_topic import TableTopic
from josefine_lake.query.dataset import dataset_of
from josefine_lake.query.refusals import QueryError
from josefine_lake.writer.delta_table import PHYSICAL_NAMES
from josefine_lake.writer.start import Found
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.offset_chain import HandedOn, Tip
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.storage.files import Files
from pipelines.storage.folders import TableFolder

NAMES_MAX = 10
"""Chains that were handed on from one name to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`found`: the newest commit of the topic's chain in this version. `rows`: None if the log has
    no counts."""

    table: TableTopic
    folder: TableFolder
    delta: DeltaTable
    version: int
    schema: pa.Schema
    found: Found
    others: tuple[OtherChain, ...]
    ends: ByPartition
    rows: int | None

    def dataset(self, schema: pa.Schema) -> Any:
        """The rows with the columns of `schema`; those that files lack are null. Raises QueryError
        for a table that delta-rs cannot read."""
        try:
            return dataset_of(self.delta, self.folder.arrow(), schema)
        except DeltaError as error:
            raise QueryError(_unreadable(self.table, str(error))) from error

    def gone(self) -> str:
        """Why its files cannot be read any more; empty if nothing is known of it."""
        files, path = self.folder.files, self.folder.path
        where = f"topic '{self.table.topic}': the table {self.table.location}"
        try:
            now = DeltaTable(path, storage_options=dict(self.folder.options) or None)
        except (DeltaError, OSError):
            return f"{where} was dropped while it was read: run the statement again"
        if now.metadata().id != self.delta.metadata().id:
            return f"{where} was created again while it was read: run the statement again"
        if self.folder.at is None:
            there = set(files.names(path))
            names = [name for name in self.delta.file_uris() if name.rpartition("/")[0] == path]
            if any(name.rpartition("/")[2] not in there for name in names):
                return (
                    f"{where}: files of version {self.version} are gone, by VACUUM: read a newer "
                    "version"
                )
        return ""


class _UpTo:
    """The files of a table as they were at one version of its log."""

    def __init__(self, files: Files, version: int) -> None:
        self._files = files
        self._last = f"{version:020d}.json"

    def names(self, folder: str) -> list[str]:
        return [name for name in self._files.names(folder) if name <= self._last]

    def read_text(self, path: str) -> str | None:
        name = path.rpartition("/")[2]
        return self._files.read_text(path) if name <= self._last else None


def snapshot(table: TableTopic, folder: TableFolder, version: int | None) -> Snapshot | None:
    """The table at a version, the newest if None; None: there is no table. Raises QueryError,
    OSError."""
    options = dict(folder.options) or None
    try:
        delta = DeltaTable(folder.path, version=version, storage_options=options)
        at = delta.version()
        meta = delta.metadata()
        schema = pa.schema(delta.schema().to_arrow())
        actions = pa.table(delta.get_add_actions(flatten=True))
    except TableNotFoundError:
        return None
    except DeltaError as error:
        newest = None if version is None else _newest(folder)
        if version is not None and newest is not None:
            raise QueryError(
                f"topic '{table.topic}': the table {table.location} has no version {version}"
                + (
                    f": its newest is {newest}"
                    if version > newest
                    else " any more: it was cleaned up"
                )
            ) from error
        raise QueryError(_unreadable(table, str(error))) from error
    if meta.configuration.get(PHYSICAL_NAMES, "none") != "none":
        mapped = "its columns are mapped to other names (delta.columnMapping.mode)"
        raise QueryError(_unreadable(table, mapped))
    has_counts = "num_records" in actions.column_names
    counts = actions["num_records"].to_pylist() if has_counts else [None] * actions.num_rows
    # The writer may have committed since: the chain is read as it was at this version.
    files = _UpTo(folder.files, at)
    own = DeltaLogReader(files, folder.path, table.chain.app_id)
    found, _ = own.last_tip()
    return Snapshot(
        table=table,
        folder=folder,
        delta=delta,
        version=at,
        schema=pa.schema([field.remove_metadata() for field in schema]),
        found=found,
        others=() if _has_ends(found) else tuple(filter(None, own.other_chains().values())),
        ends=_ends(files, folder.path, found),
        rows=None if None in counts else sum(counts),
    )


def _newest(folder: TableFolder) -> int | None:
    try:
        found = DeltaTable(folder.path, storage_options=dict(folder.options) or None)
    except DeltaError:
        return None
    return int(found.version())


def _has_ends(found: Found) -> bool:
    return isinstance(found, Tip) and bool(found.reached.ends)


def _ends(files: _UpTo, path: str, found: Found) -> ByPartition:
    """The offsets of the version, also if another name writes the table now."""
    for _ in range(NAMES_MAX):
        if not isinstance(found, HandedOn):
            break
        found, _ = DeltaLogReader(files, path, found.to).last_tip()
    return found.reached.ends if isinstance(found, Tip) else {}


def _unreadable(table: TableTopic, why: str) -> str:
    first = why.split("\n")[0]
    return (
        f"topic '{table.topic}': delta-rs cannot read the table {table.location}: {first}; "
        "read it with Spark"
    )

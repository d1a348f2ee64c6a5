"""New data files in place of stored ones, in the writer's own form.

delta-rs's rewrites have bounds that leave rows with NaN out of a reader's sight; files of
`DataFile` have bounds that are true. Memory is bounded by one row group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from josefine_lake.writer.data_file import DataFile
from pipelines.sinks.table_files import StoredFile, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from deltalake.transaction import AddAction

    from pipelines.storage.folders import TableFolder


class Rewrite:
    """Files that no commit names yet. Mutable: the open one, and the actions of closed ones. A
    context manager: an error removes all of them."""

    def __init__(
        self,
        folder: TableFolder,
        schema: pa.Schema,
        columns_max: int,
        file_bytes: int,
        at_ms: int,
        new_file: type[DataFile] = DataFile,
    ) -> None:
        """`file_bytes`: the size from which a file is closed."""
        self._folder, self._schema, self._columns_max = folder, schema, columns_max
        self._file_bytes, self._at_ms, self._new_file = file_bytes, at_ms, new_file
        self._files: list[DataFile] = []
        self._open: DataFile | None = None
        self.closed: list[AddAction] = []

    def __enter__(self) -> Rewrite:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None:
            for each in self._files:
                each.discard()

    def add(self, rows: Any, *, data_change: bool) -> None:
        """Add a record batch of the table's columns."""
        if not rows.num_rows:
            return
        if self._open is None:
            self._open = self._new_file(self._folder, self._schema, self._columns_max)
            self._files.append(self._open)
        self._open.add(rows)
        if self._open.size >= self._file_bytes:
            self.close(data_change=data_change)

    def close(self, *, data_change: bool) -> None:
        """Close the open file."""
        if self._open is not None:
            self.closed.append(self._open.close(self._at_ms, data_change=data_change))
        self._open = None

    def copy(self, files: Iterable[StoredFile]) -> None:
        """One file with the rows of several: the same rows. Raises OSError."""
        for each in files:
            for rows in rows_of(self._folder, each, self._schema):
                self.add(rows, data_change=False)
        self.close(data_change=False)

"""DuckDB in memory with the views of a statement's topics, and nothing else.

Rules: once the relations are there, the connection reaches no file, folder, extension or variable,
and its settings are locked; its memory is bounded, and so is the temporary folder into which larger
work spills. Times are shown in UTC.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import duckdb

from josefine_lake.query.refusals import QueryError
from josefine_lake.query.statement import sentence
from josefine_lake.writer.merge import quoted


class Engine:
    """One connection. Mutable: its relations and views."""

    def __init__(self, memory: str, temporary: str) -> None:
        """Raises QueryError for a size that is none."""
        self._folder = tempfile.TemporaryDirectory(prefix="josefine-sql-")
        try:
            self._connection = duckdb.connect(
                config={
                    "memory_limit": memory,
                    "temp_directory": self._folder.name,
                    "max_temp_directory_size": temporary,
                    "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false",
                    # A statement's names are topics, never variables of this program.
                    "python_enable_replacements": "false",
                }
            )
        except duckdb.Error as error:
            self._folder.cleanup()
            raise QueryError(sentence(error)) from error
        self._connection.execute("SET TimeZone = 'UTC'")

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()

    def add(self, name: str, rows: Any) -> None:
        """Add a relation: an Arrow table, or a dataset whose files are read when needed."""
        self._connection.register(name, rows)

    def keep(self, name: str, rows: Any) -> None:
        """Copy an Arrow table into a relation whose size the optimizer knows."""
        self._connection.register(f"{name}_arrow", rows)
        self._connection.execute(
            f"CREATE TABLE {quoted(name)} AS SELECT * FROM {quoted(name + '_arrow')}"
        )
        self._connection.unregister(f"{name}_arrow")

    def create(self, view: str) -> None:
        """Create a view by its statement."""
        self._connection.execute(view)

    def lock(self) -> None:
        """From here on only the relations are read."""
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def run(self, text: str) -> Any:
        """DuckDB's relation of a statement. Raises duckdb.Error."""
        return self._connection.sql(text)


def check_names(topic: str, names: Iterable[str]) -> None:
    """Raises QueryError for columns that SQL does not distinguish."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise QueryError(
                f"topic '{topic}': columns {other} and {name} differ in case only, which SQL does "
                "not distinguish"
            )

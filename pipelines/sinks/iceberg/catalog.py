"""The Iceberg catalog of a sink: SQLite next to the warehouse's folder, or a REST catalog."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from josefine_broker.base.install_commands import install_command
from pipelines.base.errors import SetupError, first_line
from pipelines.config.iceberg import CREDENTIAL, TABLE, URI, WAREHOUSE
from pipelines.config.output_paths import local_folder
from pipelines.model.pipeline import Sink

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

NAME = "josefine"
"""The catalog's name in SQLite's table, which may hold several catalogs."""

NEW_TABLE: Mapping[str, str] = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Properties of a table that a sink creates. Each commit writes a metadata file; these properties
let it delete the oldest ones."""


class ConflictError(Exception):
    """A concurrent commit won; nothing of this one is in the table."""


class SingleAttempt:
    """A catalog that tries each commit once.

    PyIceberg repeats a commit on top of any concurrent one. That one may be a commit of the same
    sink, and the rows would be in the table twice. An exception of another type than
    PyIceberg's own ends its retries, and the chain checks the table before it tries again.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        """Raises ConflictError."""
        from pyiceberg.exceptions import CommitFailedException

        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as error:
            raise ConflictError(str(error)) from error


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The table of a sink as the pipeline file describes it."""

    sink: Sink

    @property
    def name(self) -> str:
        return self.sink.settings.get(TABLE, "")

    @property
    def told(self) -> str:
        """The table's name in messages, without secrets."""
        where = self.sink.settings.get(URI) or self.warehouse
        return f"{self.name} of {where}"

    @property
    def warehouse(self) -> str:
        return self.sink.settings.get(WAREHOUSE, "")

    @property
    def is_embedded(self) -> bool:
        """Whether the catalog is a file on this machine."""
        return not self.sink.settings.get(URI)

    @property
    def database(self) -> str:
        """The file of the embedded catalog."""
        return f"{local_folder(self.warehouse)}.db"

    def trouble(self) -> str:
        """Why the catalog's file or folder cannot be written; "" if they can, or for REST."""
        if not self.is_embedded:
            return ""
        folder = str(local_folder(self.warehouse))
        while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            return f"{folder} is not a folder"
        places = (folder, os.path.dirname(self.database))
        refused = [each for each in places if os.path.isdir(each) and not os.access(each, os.W_OK)]
        return f"no permission to write in {refused[0]}" if refused else ""

    def catalog(self) -> Catalog:
        """Raises SetupError if the package is not installed or the catalog does not answer."""
        needs_package(self.sink)
        if self.trouble():
            raise SetupError(f"sink `{self.sink.name}`: catalog {self.warehouse}: {self.trouble()}")
        try:
            return self._catalog()
        except Exception as error:
            raise self.unreached(error) from error

    def _catalog(self) -> Catalog:
        settings = self.sink.settings
        if self.is_embedded:
            from pyiceberg.catalog.sql import SqlCatalog

            os.makedirs(os.path.dirname(self.database), exist_ok=True)
            folder = f"file://{local_folder(self.warehouse)}"
            return SqlCatalog(NAME, uri=f"sqlite:///{self.database}", warehouse=folder)
        from pyiceberg.catalog.rest import RestCatalog

        uri = settings[URI].rstrip("/")
        more = {key: settings[key] for key in (WAREHOUSE, CREDENTIAL) if settings.get(key)}
        if CREDENTIAL in more:
            # The specification's own endpoint; PyIceberg uses it by default, but with a warning.
            more["oauth2-server-uri"] = f"{uri}/v1/oauth/tokens"
        return RestCatalog(NAME, uri=uri, **more)

    def unreached(self, error: Exception) -> SetupError:
        """The error for a catalog that does not answer."""
        where = self.sink.settings.get(URI) or self.database
        why = first_line(error)
        return SetupError(
            f"sink `{self.sink.name}`: the Iceberg catalog {where} does not answer: {why}; "
            f"start it, or correct `catalog` at {self.sink.place}"
        )

    def find(self) -> Table | None:
        """The table, None if there is none; creates no file. Raises SetupError."""
        needs_package(self.sink)
        if self.is_embedded and not os.path.exists(self.database):
            return None
        return self._found(self.catalog())

    def _found(self, catalog: Catalog) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
        from pyiceberg.table import Table

        try:
            table = catalog.load_table(self.name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            raise self.unreached(error) from error
        once: Any = SingleAttempt(catalog)
        return Table(table.name(), table.metadata, table.metadata_location, table.io, once)

    def ensure(self, schema: Schema) -> Table:
        """The table, created if there is none. Raises SetupError."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        catalog = self.catalog()
        found = self._found(catalog)
        if found is not None:
            return found
        try:
            catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
            catalog.create_table(self.name, schema=schema, properties=dict(NEW_TABLE))
        except TableAlreadyExistsError:
            pass  # another run was first
        except Exception as error:
            raise self.unreached(error) from error
        made = self._found(catalog)
        assert made is not None
        return made


def needs_package(sink: Sink) -> None:
    """Raise SetupError if PyIceberg is not installed."""
    try:
        import pyiceberg.table  # noqa: F401
    except ModuleNotFoundError as error:
        needs = f"PyIceberg writes its table; {install_command('iceberg')}"
        raise SetupError(f"sink `{sink.name}`: {needs}") from error

"""The schemas of one topic's values in a schema registry, with the newest one as the table's.

A record with a schema that this run has not met may come from a newer producer. Then the newest
schema is asked for once more: if it is another one than the columns were made of, the writer starts
again with its columns. Records of the open file are read again, so none is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from josefine_arrow.formats.confluent.schema_references import NoSchemaError, Schema
from josefine_arrow.formats.confluent.schema_registry import AVRO, Registry, RegistryError
from josefine_arrow.formats.confluent.schema_registry_http import registry_at
from josefine_lake.config.table_topic import TableTopic

USER = "JOSEFINE_SCHEMA_REGISTRY_USER"
"""The environment variable of the user, as `name:password`: topic configs are no place for it."""


class NewerSchemaError(Exception):
    """The registry has a newer schema than the one that the columns were made of."""


class RegistryUnavailableError(OSError):
    """The registry gave no answer, or refused this user; a later attempt may find it."""


class Subject:
    """Lookups for one topic. Mutable: the schema of the columns, and the ids that were met."""

    def __init__(self, table: TableTopic, env: Mapping[str, str], wanted: str = AVRO) -> None:
        self._registry = opened(table, env, wanted)
        self._name = table.subject
        self._columns_of: Schema | None = None
        self._met: set[int] = set()

    def newest(self) -> Schema:
        """The newest schema, which the columns are made of. Raises ValueError, OSError."""
        try:
            self._columns_of = self._latest()
        except NoSchemaError as error:
            raise ValueError(
                f"the schema registry has no subject {self._name} ({error}): register a schema, or "
                "set 'josefine.table.schema'"
            ) from error
        return self._columns_of

    def schema(self, number: int) -> Schema:
        """A writer's schema. Raises NoSchemaError, NewerSchemaError, OSError."""
        found = looked_up(self._registry, number)
        if number not in self._met:
            if self._columns_of is not None and found != self._columns_of:
                self._look_for_a_newer_one()
            self._met.add(number)
        return found

    def text(self, number: int) -> str:
        """The text of a writer's schema; raises as `schema`."""
        return self.schema(number).text

    def _look_for_a_newer_one(self) -> None:
        try:
            newest = self._latest()
        except NoSchemaError:
            return  # the subject was deleted: its schemas are still there, by their ids
        if newest != self._columns_of:
            raise NewerSchemaError(self._name)

    def _latest(self) -> Schema:
        try:
            return self._registry.latest(self._name)
        except RegistryError as error:
            raise RegistryUnavailableError(str(error)) from error


def opened(table: TableTopic, env: Mapping[str, str], wanted: str = AVRO) -> Registry:
    """The client of a topic's registry, with the environment's user."""
    scheme, _, host = table.registry.partition("://")
    user = env.get(USER, "")
    return registry_at(
        f"{scheme}://{quote(user, safe=':')}@{host}" if user else table.registry, wanted
    )


def looked_up(registry: Registry, number: int) -> Schema:
    """Raises NoSchemaError; OSError if the registry does not answer."""
    try:
        return registry.schema(number)
    except RegistryError as error:
        raise RegistryUnavailableError(str(error)) from error

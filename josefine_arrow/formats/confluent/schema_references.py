"""References of registered schemas: the schemas of other subjects that one schema names.

A registry answers with a schema's direct references, each of them a name, a subject and a version.
These may refer to others, so they are followed, with bounds. Pure: `look` asks the registry.

Source: "Schema references" of the Schema Registry documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

DEPTH_MAX = 32
"""How deep references may be nested: a chain of that many subjects is a mistake."""
REFERENCED_MAX = 256
"""How many other schemas one schema may need: each of them is a request."""


class NoSchemaError(ValueError):
    """Why the schema that a record names cannot be used; the reason of a dead letter."""


class Reference(NamedTuple):
    """One reference: the name by which a schema refers to it, and where the registry has it."""

    name: str
    subject: str
    version: int

    def __str__(self) -> str:
        return f"`{self.name}` (subject {self.subject}, version {self.version})"


class Registered(NamedTuple):
    """A schema as the registry returns it."""

    text: str
    references: tuple[Reference, ...] = ()


class Schema(NamedTuple):
    """A schema's text and the (name, text) of each schema that it needs, those without references
    of their own first."""

    text: str
    referenced: tuple[tuple[str, str], ...] = ()


def references_in(said: Any) -> tuple[Reference, ...] | None:
    """The references of a registry's answer; None if they are malformed."""
    if said is None:
        return ()
    if not isinstance(said, list):
        return None
    found = []
    for each in said:
        each = each if isinstance(each, dict) else {}
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if not (isinstance(name, str) and isinstance(subject, str) and type(version) is int):
            return None
        found.append(Reference(name, subject, version))
    return tuple(found)


def resolved(number: int, schema: Registered, look: Callable[[Reference], Registered]) -> Schema:
    """Schema `number` with all that it refers to. `look` raises NoSchemaError for a subject or
    version that the registry does not have. Raises NoSchemaError."""
    texts: dict[str, str] = {}

    def follow(references: tuple[Reference, ...], above: tuple[Reference, ...]) -> None:
        for each in references:
            way = " -> ".join(str(one) for one in (*above, each))
            if (each.subject, each.version) in {(one.subject, one.version) for one in above}:
                raise NoSchemaError(f"schema {number} refers to {way}: a cycle")
            if len(above) >= DEPTH_MAX:
                raise NoSchemaError(f"schema {number}: references nested deeper than {DEPTH_MAX}")
            # A name's first schema counts, as for Confluent's serializers, which wrote the record.
            if each.name in texts:
                continue
            if len(texts) >= REFERENCED_MAX:
                raise NoSchemaError(f"schema {number}: refers to more than {REFERENCED_MAX} others")
            try:
                found = look(each)
            except NoSchemaError as error:
                raise NoSchemaError(f"schema {number} refers to {way}: {error}") from error
            follow(found.references, (*above, each))
            texts[each.name] = found.text

    follow(schema.references, ())
    return Schema(schema.text, tuple(texts.items()))

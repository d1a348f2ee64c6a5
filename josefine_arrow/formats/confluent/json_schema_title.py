"""Record types of JSON Schema: the title of a registered schema, found through its `$ref`.

The title is the name that Confluent's serializers use for RecordNameStrategy. A schema without one
has that of the schema to which its `$ref` leads: in the schema itself (`#/definitions/Order`,
`#/$defs/Order`, an anchor, an embedded `$id`), or in a schema of another subject, by the name of a
reference. A union (`oneOf`, `anyOf`) has the titles of its branches. Pure.

Source: JSON Schema 2020-12, "Core", sections 8.2 and 8.2.3.1; RFC 6901 for pointers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from josefine_arrow.formats.confluent.schema_references import DEPTH_MAX, Schema

_UNION = ("oneOf", "anyOf")
_DEFINITIONS = ("$defs", "definitions")


class TitleError(ValueError):
    """Why a schema's title cannot be found; the reason of a dead letter."""


class RecordType(NamedTuple):
    """The name of a schema's records: its title, or the titles of a union's branches, or without
    both the subjects that have the schema."""

    title: str = ""
    branches: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()


class _Place(NamedTuple):
    """A schema within a document. `name`: the document's reference, "" for the schema itself;
    `root`: where pointers start."""

    name: str
    root: Any
    node: Any


def needs_references(text: str) -> bool:
    """Whether the title of a schema may be in one that it refers to."""
    try:
        node = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(node, dict):
        return False
    return bool(_branches(node)) or (not _title(node) and "$ref" in node)


def record_type_of(number: int, schema: Schema) -> RecordType:
    """The title of schema `number`, or those of its branches. Raises TitleError."""
    return _Finder(number, schema).record_type()


class _Finder:
    """The search in one schema and those that it refers to. Mutable: the branches so far."""

    def __init__(self, number: int, schema: Schema) -> None:
        self._number = number
        self._documents = {"": self._parsed("", schema.text)}
        self._documents |= {name: self._parsed(name, text) for name, text in schema.referenced}
        self._seen: set[tuple[str, int]] = set()

    def record_type(self) -> RecordType:
        root = self._documents[""]
        found, _ = self._followed(_Place("", root, root), ())
        # A union's own title does not exclude that a record is one of its branches.
        branches = dict.fromkeys(self._titles(found, (), is_top=True))
        return RecordType(_title(found.node), tuple(branches))

    def _titles(
        self, place: _Place, above: tuple[str, ...], *, is_top: bool = False
    ) -> Iterator[str]:
        """The titles of a union's branches, of a branch that is itself a union those of its own."""
        title = _title(place.node)
        if title and not is_top:
            yield title
            return
        for branch in _branches(place.node):
            found, way = self._followed(place._replace(node=branch), above)
            # Each schema once: unions that name each other in pairs would double at each level.
            if (found.name, id(found.node)) not in self._seen:
                self._seen.add((found.name, id(found.node)))
                yield from self._titles(found, way)

    def _followed(self, place: _Place, above: tuple[str, ...]) -> tuple[_Place, tuple[str, ...]]:
        """(the first schema on the way with a title or without `$ref`, the way to it)."""
        while isinstance(place.node, dict) and not _title(place.node):
            ref = place.node.get("$ref")
            if not isinstance(ref, str):
                break
            step = f"{place.name}: {ref}" if place.name else ref
            if step in above:
                raise self._error(f"refers to `{'` -> `'.join((*above, step))}`: a cycle")
            if len(above) >= DEPTH_MAX:
                raise self._error(f"`$ref` nested deeper than {DEPTH_MAX}")
            above = (*above, step)
            place = self._target(place, ref)
        return place, above

    def _target(self, place: _Place, ref: str) -> _Place:
        base, _, fragment = ref.partition("#")
        if base:
            found = self._resource(place, base)
            if found is None:
                raise self._error(f"refers to `{ref}`, which is in none of its references")
            place = found
        node = _at(place.root, unquote(fragment))
        if node is None:
            raise self._error(f"refers to `{ref}`, which is not there")
        return place._replace(node=node)

    def _resource(self, place: _Place, base: str) -> _Place | None:
        """The document or embedded schema of this URI. Names of references may be relative."""
        uris = {base, urljoin(place.name, base)}
        uris |= {urljoin(_id(each), base) for each in (place.root, self._documents[place.name])}
        for name, document in self._documents.items():
            if name in uris - {""} or _id(document) in uris:
                return _Place(name, document, document)
        for each in _definitions(self._documents[place.name]):
            if _id(each) in uris:
                return _Place(place.name, each, each)
        return None

    def _parsed(self, name: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            at = f"its reference `{name}`: " if name else ""
            raise self._error(f"{at}not JSON") from error

    def _error(self, what: str) -> TitleError:
        return TitleError(f"schema {self._number}{'' if what.startswith('refers') else ':'} {what}")


def _title(node: Any) -> str:
    title = node.get("title") if isinstance(node, dict) else None
    return title if isinstance(title, str) else ""


def _id(node: Any) -> str:
    found = node.get("$id") if isinstance(node, dict) else None
    return found.rstrip("#") if isinstance(found, str) else ""


def _branches(node: Any) -> list[Any]:
    listed = [node.get(word) for word in _UNION] if isinstance(node, dict) else []
    return [each for branches in listed if isinstance(branches, list) for each in branches]


def _definitions(root: Any) -> Iterator[Mapping[str, Any]]:
    for word in _DEFINITIONS:
        found = root.get(word) if isinstance(root, dict) else None
        if isinstance(found, dict):
            yield from (each for each in found.values() if isinstance(each, dict))


def _at(root: Any, fragment: str) -> Any:
    """The schema at a pointer or an anchor; None if there is none."""
    if not fragment:
        return root
    if not fragment.startswith("/"):
        for each in _definitions(root):
            if each.get("$anchor") == fragment or each.get("$id") == f"#{fragment}":
                return each
        return None
    node = root
    for part in fragment[1:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict):
            node = node.get(key)
        else:
            return None
    return node

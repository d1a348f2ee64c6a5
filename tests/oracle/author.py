"""Writes requests: of any API and version, plausible, with some values fixed, or mutated."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from josefine_broker.wire.apis import APIS
from tests.oracle.pools import Draw, Names, plausible, unusual
from tests.oracle.shapes import Field, Shape, Tree, request_shape
from tests.support.kafkas_versions import kafkas_versions

NEVER_TWICE = ("protocols",)
"""Kafka's coordinator fails over a protocol that a member names twice, and does not answer."""
MUTATED = 0.25
"""Share of a scenario's requests that are mutated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request, its values as both sides share them."""

    key: int
    version: int
    tree: Tree
    connection: int = 0
    label: Hashable = None
    """The slot (a member, a producer) that what is learned from the answer belongs to."""

    @property
    def name(self) -> str:
        return f"{APIS[self.key].name} v{self.version}"


def versions_of(key: int) -> range:
    """The versions that this broker serves and Kafka has."""
    known = kafkas_versions(key)
    spec = APIS[key]
    first = max(min(known), spec.min_version)
    return range(first, min(max(known), spec.max_version) + 1)


class Author:
    """Writes requests: chance, names, and the versions that they are drawn from."""

    def __init__(self, rng: Random, names: Names) -> None:
        self.rng = rng
        self.names = names

    def request(
        self,
        key: int,
        version: int | None = None,
        fixed: Mapping[str, Any] | None = None,
        *,
        connection: int = 0,
        label: Hashable = None,
        mutations: int | None = None,
    ) -> Step:
        """A plausible request; `fixed` has values by field name, a list for a field in a list.
        Without `version` it is any one that has all of the fixed fields that some version has."""
        if version is None:
            version = self.rng.choice(versions_of(key))
        draw = Draw(self.rng, self.names, APIS[key].name)
        shape = request_shape(key, version)
        tree = self._struct(draw, shape, (), fixed or {})
        if mutations is None:
            mutations = 1 if self.rng.random() < MUTATED else 0
        for _ in range(mutations):
            mutate(draw, shape, tree)
        return Step(key=key, version=version, tree=tree, connection=connection, label=label)

    def _struct(
        self, draw: Draw, shape: Shape, path: tuple[str, ...], fixed: Mapping[str, Any]
    ) -> Tree:
        return {field.name: self._field(draw, field, path, fixed) for field in shape.fields}

    def _field(
        self, draw: Draw, field: Field, path: tuple[str, ...], fixed: Mapping[str, Any]
    ) -> Any:
        name = field.name.removeprefix("v3_and_below_")
        for key in (f"{path[-1]}.{name}" if path else name, name):
            if key in fixed:
                value = fixed[key]
                # One version has a list where another has one value.
                if field.is_array and not isinstance(value, list) and value is not None:
                    return [value]
                return value[0] if isinstance(value, list) and not field.is_array else value
        inner = (*path, name)
        if not field.is_array:
            if field.shape is None:
                return plausible(draw, path, field)
            return None if field.is_nullable else self._struct(draw, field.shape, inner, fixed)
        if field.is_nullable and draw.rng.random() < 0.2:
            return None
        size = 1 if fixed else draw.rng.choice((1, 1, 1, 2))
        if field.shape is None:
            values = [plausible(draw, path, field) for _ in range(size)]
            return values[0] if isinstance(values[0], list) else values
        items = [self._struct(draw, field.shape, inner, fixed) for _ in range(size)]
        if name in NEVER_TWICE:
            items = items[:1]
        return items


def mutate(draw: Draw, shape: Shape, tree: Tree) -> None:
    """Make one value of the tree an unusual one."""
    places = list(_places(shape, tree))
    if not places:
        return
    holder, field = draw.rng.choice(places)
    value = holder[field.name]
    if not field.is_array:
        if field.shape is None:
            holder[field.name] = unusual(draw, field)
        return
    ways = ["empty"] if field.name in NEVER_TWICE else ["empty", "twice"]
    ways += ["null"] if field.is_nullable else []
    if field.shape is None:
        ways.append("other")
    way = draw.rng.choice(ways)
    if way == "empty":
        holder[field.name] = []
    elif way == "null":
        holder[field.name] = None
    elif way == "other":
        holder[field.name] = [unusual(draw, field)]
    elif value:
        holder[field.name] = [*value, value[0]]


def _places(shape: Shape, tree: Tree) -> Iterator[tuple[Tree, Field]]:
    for field in shape.fields:
        yield tree, field
        value = tree[field.name]
        if field.shape is not None and value is not None:
            for each in value if field.is_array else [value]:
                yield from _places(field.shape, each)

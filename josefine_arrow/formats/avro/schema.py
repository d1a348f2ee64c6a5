"""Avro schema parser: JSON text to a tree of types, and the SQL columns of its records.

Source: Apache Avro 1.12 specification, "Schema Declaration" and "Logical Types". An unknown logical
type is ignored, as the specification requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEPTH_MAX = 32
"""Maximum nesting of types."""
DIGITS_MAX = 38
"""The digits of SQL's longest DECIMAL."""


class SchemaError(ValueError):
    """Why a text is not a supported schema, in words for a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a record. `default`: a JSON value where `has_default`."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """One type. Its kind determines which parts are set: fields of a record, symbols of an enum,
    items of an array or map, branches of a union, size of a fixed."""

    kind: str
    name: str = ""
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    items: Type | None = None
    branches: tuple[Type, ...] = ()
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def digits(self) -> int:
        """The digits of a decimal's column. Connect declares 64 where it does not know how many
        there are, as of MySQL's BIGINT UNSIGNED."""
        return min(self.precision, DIGITS_MAX)


def parse(text: str, referenced: Sequence[tuple[str, str]] = ()) -> Type:
    """Parse the text of a schema. `referenced`: the (name, text) of the schemas whose types it
    names, in the order in which they need each other. Raises SchemaError."""
    parser = _Parser()
    for name, other in referenced:
        try:
            parser.type(_json(other), "", 0)
        except SchemaError as error:
            raise SchemaError(f"its reference `{name}`: {error}") from error
    return parser.type(_json(text), "", 0)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise SchemaError("types within types too deeply") from error


def parse_record(text: str, name: str = "") -> Type:
    """As `parse`, for records only: no other type has columns. `name`: the full name of a record
    that the schema declares anywhere, as a branch of a union; "": the schema itself."""
    parser = _Parser()
    found = parser.type(_json(text), "", 0)
    if name:
        records = {each.name: each for each in parser.named.values() if each.kind == "record"}
        if name not in records:
            there = ", ".join(sorted(records)) or "none"
            raise SchemaError(f"it declares no record `{name}`; its records: {there}")
        return records[name]
    if found.kind != "record":
        raise SchemaError(f"expected a record, found {found.kind}")
    return found


@dataclass
class _Parser:
    named: dict[str, Type] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def type(self, said: Any, space: str, depth: int) -> Type:
        if depth > DEPTH_MAX:
            raise SchemaError("types within types too deeply")
        if isinstance(said, str):
            return self._by_name(said, space)
        if isinstance(said, list):
            branches = tuple(self.type(each, space, depth + 1) for each in said)
            if any(each.kind == "union" for each in branches) or not branches:
                raise SchemaError("a union has at least one type, and no union, in it")
            return Type(kind="union", branches=branches)
        if not isinstance(said, dict) or "type" not in said:
            raise SchemaError(f"expected a type, found {json.dumps(said)[:40]}")
        kind = said["type"]
        if isinstance(kind, (dict, list)):
            return self.type(kind, space, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared(said, "record" if kind == "error" else kind, space, depth)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in said:
                raise SchemaError(f"`{key}` of a type {kind} is missing")
            return Type(kind=kind, items=self.type(said[key], space, depth + 1))
        if kind in PRIMITIVES:
            return _with_logical(Type(kind=kind), said)
        return self._by_name(str(kind), space)

    def _by_name(self, name: str, space: str) -> Type:
        if name in PRIMITIVES:
            return Type(kind=name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.open:
            raise SchemaError(f"`{full}` contains itself, which no table's columns can")
        if full not in self.named:
            raise SchemaError(f"no type `{name}`")
        return self.named[full]

    def _declared(self, said: dict[str, Any], kind: str, space: str, depth: int) -> Type:
        name = said.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a type {kind} has no `name`")
        space = said.get("namespace") or space
        full = name if "." in name or not space else f"{space}.{name}"
        space = full.rpartition(".")[0]
        if kind == "enum":
            symbols = said.get("symbols")
            if not isinstance(symbols, list) or not symbols:
                raise SchemaError(f"enum `{full}` has no `symbols`")
            made = Type(kind=kind, name=full, symbols=tuple(symbols), default=said.get("default"))
        elif kind == "fixed":
            size = said.get("size")
            if not isinstance(size, int) or size < 0:
                raise SchemaError(f"fixed `{full}` has no `size`")
            made = _with_logical(Type(kind=kind, name=full, size=size), said)
        else:
            self.open.append(full)
            fields = tuple(self._fields(said, full, space, depth))
            self.open.pop()
            made = Type(kind=kind, name=full, fields=fields)
        self.named[full] = made
        return made

    def _fields(self, said: dict[str, Any], record: str, space: str, depth: int) -> Iterator[Field]:
        listed = said.get("fields")
        if not isinstance(listed, list):
            raise SchemaError(f"record `{record}` has no `fields`")
        seen: set[str] = set()
        for each in listed:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise SchemaError(f"a field of record `{record}` has no `name`")
            name = each["name"]
            if name in seen:
                raise SchemaError(f"record `{record}` has field `{name}` twice")
            if "type" not in each:
                raise SchemaError(f"field `{name}` of record `{record}` has no `type`")
            seen.add(name)
            yield Field(
                name=name,
                type=self.type(each["type"], space, depth + 1),
                aliases=_aliases(each, name),
                default=each.get("default"),
                has_default="default" in each,
            )


def _aliases(said: dict[str, Any], name: str) -> tuple[str, ...]:
    listed = said.get("aliases") or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise SchemaError(f"the aliases of field `{name}` are no list of names")
    return tuple(listed)


UUID_BYTES = 16
TIME_UNITS = ("millis", "micros", "nanos")
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in TIME_UNITS),
    ),
    "bytes": ("decimal",),
    "fixed": ("decimal", "uuid"),
    "string": ("uuid",),
}
"""Kind → its supported logical types; a type with another one is read as its kind."""


def _with_logical(kind: Type, said: dict[str, Any]) -> Type:
    logical = said.get("logicalType")
    if logical not in _LOGICAL.get(kind.kind, ()):
        return kind
    precision, scale = said.get("precision", 0), said.get("scale", 0)
    if logical == "decimal" and not (
        isinstance(precision, int)
        and isinstance(scale, int)
        and 0 <= scale <= min(precision, DIGITS_MAX)
    ):
        return kind
    if logical == "decimal" and precision == 0:
        return kind
    if logical == "uuid" and kind.kind == "fixed" and kind.size != UUID_BYTES:
        return kind
    return Type(
        kind=kind.kind,
        name=kind.name,
        size=kind.size,
        logical=str(logical),
        precision=precision if logical == "decimal" else 0,
        scale=scale if logical == "decimal" else 0,
    )


def bare(kind: Type) -> Type:
    """The type without its logical types: the form in which a JSON default is written."""
    return replace(
        kind,
        logical="",
        fields=tuple(replace(each, type=bare(each.type)) for each in kind.fields),
        items=None if kind.items is None else bare(kind.items),
        branches=tuple(bare(each) for each in kind.branches),
    )


_SQL = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "fixed": "BINARY", "string": "STRING", "enum": "STRING",
}  # fmt: skip
# Times of day and nanoseconds stay plain numbers.
_SQL_LOGICAL = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "uuid": "STRING",
}


def columns_of(record: Type) -> str:
    """The fields of a record as SQL columns. Raises SchemaError if SQL has no matching type."""
    _refuse_empty(record)
    return ", ".join(
        f"{_quoted(each.name)} {sql_of(each.type, each.name)}" for each in record.fields
    )


def sql_of(kind: Type, path: str = "") -> str:
    """The SQL type of a column. Raises SchemaError, which names the field `path`."""
    if kind.kind == "union":
        return sql_of(one_branch(kind, path), path)
    if kind.logical == "decimal":
        return f"DECIMAL({kind.digits},{kind.scale})"
    if kind.logical in _SQL_LOGICAL:
        return _SQL_LOGICAL[kind.logical]
    if kind.kind in _SQL:
        return _SQL[kind.kind]
    if kind.kind == "record":
        _refuse_empty(kind)
        inner = (f"{_quoted(f.name)}: {sql_of(f.type, f'{path}.{f.name}')}" for f in kind.fields)
        return f"STRUCT<{', '.join(inner)}>"
    if kind.items is None:
        raise SchemaError(f"field `{path}` is always null, which is no column")
    inside = sql_of(kind.items, f"{path}[]")
    return f"ARRAY<{inside}>" if kind.kind == "array" else f"MAP<STRING, {inside}>"


def _refuse_empty(record: Type) -> None:
    if not record.fields:
        raise SchemaError(f"record `{record.name}` has no field, so it is no column")


def one_branch(union: Type, path: str) -> Type:
    """The single non-null type of a union. Raises SchemaError if there are several."""
    some = [each for each in union.branches if each.kind != "null"]
    if len(some) != 1:
        kinds = ", ".join(each.kind for each in some) or "null alone"
        raise SchemaError(f"field `{path}` is a union of {kinds}: one type and null is a column")
    return some[0]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

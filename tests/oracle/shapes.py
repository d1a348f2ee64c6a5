"""Messages as plain trees of dicts and lists, read and written by kio's schemas.

Independent of `josefine_broker.wire`, which is under test here. Every value that fits its type can
be written, also those that no client library makes: negative times, empty names, zero ids.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any
from uuid import UUID

from josefine_broker.base.schemas import ErrorCode, load_request_schema, load_response_schema

Tree = dict[str, Any]

FIXED = {
    "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "float64": ">d",
    "bool": ">?", "error_code": ">h", "timedelta_i32": ">i", "timedelta_i64": ">q",
    "datetime_i64": ">q",
}  # fmt: skip
OF_VARIABLE_LENGTH = ("string", "bytes", "records")
ZERO_ID = UUID(int=0)
API_VERSIONS = 18


class MalformedError(Exception):
    """Bytes that are not a message of the version; the text names the message and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of one version of a message."""

    name: str
    kind: str  # kio's name of a primitive type, or "struct"
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any  # of a tagged field, which is written only if it differs
    shape: Shape | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A structure: its fields in the order of the wire."""

    name: str
    is_flexible: bool
    fields: tuple[Field, ...]

    def walk(self) -> Iterator[Field]:
        """Every field, of nested structures too."""
        for field in self.fields:
            yield field
            if field.shape is not None:
                yield from field.shape.walk()


@cache
def request_shape(key: int, version: int) -> Shape:
    """The body of a request."""
    return _shape(load_request_schema(key, version))


@cache
def response_shape(key: int, version: int) -> Shape:
    """The body of a response."""
    return _shape(load_response_schema(key, version))


def _shape(entity: Any) -> Shape:
    known = tuple(_field(each) for each in fields(entity))
    return Shape(name=entity.__name__, is_flexible=entity.__flexible__, fields=known)


def _field(field: Any) -> Field:
    hint = field.type
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    is_nullable = type(None) in typing.get_args(hint)
    if is_nullable:
        (hint,) = parts
    is_array = typing.get_origin(hint) is tuple
    inner = typing.get_args(hint)[0] if is_array else hint
    kind = field.metadata.get("kafka_type", "struct")
    in_ms = kind.startswith(("timedelta", "datetime"))
    shape = _shape(inner) if kind == "struct" else None
    return Field(
        name=f"{field.name}_ms" if in_ms else field.name,
        kind=kind,
        is_array=is_array,
        is_nullable=is_nullable and kind not in FIXED and kind != "uuid",
        tag=field.metadata.get("tag"),
        default=_default(field, kind, shape, is_array, is_nullable),
        shape=shape,
    )


def _default(field: Any, kind: str, shape: Shape | None, is_array: bool, is_nullable: bool) -> Any:
    """Of a tagged field that is absent."""
    value = None if field.default is MISSING else field.default
    if is_array:
        return None if is_nullable and value is None else []
    if shape is not None:
        return None if is_nullable else {each.name: each.default for each in shape.fields}
    if kind == "uuid":
        return ZERO_ID
    if kind in ("string", "bytes", "records"):
        return value
    return int(value) if isinstance(value, int) else 0


def encode(shape: Shape, tree: Tree) -> bytes:
    """The body's bytes. KeyError where the tree lacks a field that is not tagged."""
    out = bytearray()
    _write_struct(out, shape, tree)
    return bytes(out)


def _write_struct(out: bytearray, shape: Shape, tree: Tree) -> None:
    for field in shape.fields:
        if field.tag is None:
            _write(out, field, tree[field.name], shape.is_flexible)
    if shape.is_flexible:
        tagged = sorted((f for f in shape.fields if f.tag is not None), key=lambda f: f.tag or 0)
        present = [f for f in tagged if tree.get(f.name, f.default) != f.default]
        _write_varint(out, len(present))
        for field in present:
            part = bytearray()
            _write(part, field, tree[field.name], True)
            _write_varint(out, field.tag or 0)
            _write_varint(out, len(part))
            out += part


def _write(out: bytearray, field: Field, value: Any, is_flexible: bool) -> None:
    if field.is_array:
        if value is None:
            out += b"\x00" if is_flexible else b"\xff\xff\xff\xff"
            return
        _write_length(out, len(value), ">i", is_flexible)
        for each in value:
            _write_one(out, field, each, is_flexible, is_nullable=False)
    else:
        _write_one(out, field, value, is_flexible, is_nullable=field.is_nullable)


def _write_one(
    out: bytearray, field: Field, value: Any, is_flexible: bool, *, is_nullable: bool
) -> None:
    if field.shape is not None:
        if is_nullable:
            out += b"\xff" if value is None else b"\x01"
        if value is not None:
            _write_struct(out, field.shape, value)
    elif field.kind in FIXED:
        out += struct.pack(FIXED[field.kind], value)
    elif field.kind == "uuid":
        out += value.bytes
    else:
        width = ">h" if field.kind == "string" else ">i"
        if value is None:
            out += b"\x00" if is_flexible else struct.pack(width, -1)
            return
        data = value.encode("utf-8", "surrogateescape") if field.kind == "string" else value
        _write_length(out, len(data), width, is_flexible)
        out += data


def _write_length(out: bytearray, size: int, width: str, is_flexible: bool) -> None:
    if is_flexible:
        _write_varint(out, size + 1)
    else:
        out += struct.pack(width, size)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def decode(shape: Shape, data: bytes) -> Tree:
    """The whole of `data`; raises MalformedError, also for what is left over."""
    source = _Source(data)
    try:
        tree = _read_struct(source, shape)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedError(f"{shape.name} ends early: {error}") from error
    if source.at != len(data):
        raise MalformedError(f"{shape.name} has {len(data) - source.at} bytes too many")
    return tree


class _Source:
    """Bytes and a position."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise IndexError(f"{size} bytes wanted, {len(self.data) - self.at} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def fixed(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 128:
                return value
            shift += 7

    def length(self, layout: str, is_flexible: bool) -> int:
        """-1 is null."""
        return self.varint() - 1 if is_flexible else int(self.fixed(layout))


def _read_struct(source: _Source, shape: Shape) -> Tree:
    tree = {
        field.name: _read(source, field, shape.is_flexible)
        for field in shape.fields
        if field.tag is None
    }
    if not shape.is_flexible:
        return tree
    tagged = {field.tag: field for field in shape.fields if field.tag is not None}
    tree |= {field.name: field.default for field in tagged.values()}
    for _ in range(source.varint()):
        tag, size = source.varint(), source.varint()
        part = _Source(source.take(size))
        if tag in tagged:
            tree[tagged[tag].name] = _read(part, tagged[tag], True)
        else:
            tree[f"tag {tag}"] = part.data.hex()  # newer than the schema: compared as it is
    return tree


def _read(source: _Source, field: Field, is_flexible: bool) -> Any:
    if not field.is_array:
        is_nullable = field.is_nullable and field.tag is None
        return _read_one(source, field, is_flexible, is_nullable=is_nullable)
    size = source.length(">i", is_flexible)
    if size < 0:
        return None
    return [_read_one(source, field, is_flexible, is_nullable=False) for _ in range(size)]


def _read_one(source: _Source, field: Field, is_flexible: bool, *, is_nullable: bool) -> Any:
    if field.shape is not None:
        if is_nullable and source.fixed(">b") < 0:
            return None
        return _read_struct(source, field.shape)
    if field.kind == "error_code":
        return error_name(source.fixed(">h"))
    if field.kind in FIXED:
        return source.fixed(FIXED[field.kind])
    if field.kind == "uuid":
        return UUID(bytes=source.take(16))
    size = source.length(">h" if field.kind == "string" else ">i", is_flexible)
    if size < 0:
        return None
    data = source.take(size)
    return data.decode("utf-8", "surrogateescape") if field.kind == "string" else data


def error_name(code: int) -> str:
    """As Kafka writes it: UNKNOWN_TOPIC_OR_PARTITION."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


def frame(key: int, version: int, correlation: int, client: str | None, body: bytes) -> bytes:
    """A request as it is sent: its size, its header and `body`."""
    name = b"\xff\xff" if client is None else struct.pack(">h", len(client)) + client.encode()
    header = struct.pack(">hhi", key, version, correlation) + name
    if request_shape(key, version).is_flexible:
        header += b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


def response_body(key: int, version: int, data: bytes) -> bytes:
    """The body after the header's correlation id; ApiVersions never has tags there."""
    return data[1:] if response_shape(key, version).is_flexible and key != API_VERSIONS else data

"""Plans from kio's schema of one message version to a reader and a writer of our shape.

kio is the source of every version's field order, types, nullability and tags. A plan is made once
per (key, version, direction): fields that both sides know are matched by name, fields that only the
version knows are read and dropped or written with their default, fields that only our shape knows
get our default. kio's own reader is not used, because it refuses unknown tagged fields (which
KIP-482 requires to be ignored) and writable buffers; tests compare the results.
"""

import dataclasses
import datetime
import types
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire import primitives as p
from josefine_broker.wire.primitives import Buffer, Reader, Writer

_FIXED: dict[str, tuple[Reader, Writer, Any]] = {
    "int8": (p.read_int8, p.write_int8, 0),
    "int16": (p.read_int16, p.write_int16, 0),
    "uint16": (p.read_uint16, p.write_uint16, 0),
    "int32": (p.read_int32, p.write_int32, 0),
    "int64": (p.read_int64, p.write_int64, 0),
    "float64": (p.read_float64, p.write_float64, 0.0),
    "bool": (p.read_bool, p.write_bool, False),
    "uuid": (p.read_uuid, p.write_uuid, None),
    "error_code": (p.read_error_code, p.write_int16, 0),
    "timedelta_i32": (p.read_int32, p.write_int32, 0),
    "timedelta_i64": (p.read_int64, p.write_int64, 0),
    "datetime_i64": (p.read_int64, p.write_int64, 0),
}

# (flexible, nullable)
_STRINGS: dict[tuple[bool, bool], tuple[Reader, Writer]] = {
    (False, False): (p.read_string, p.write_string),
    (False, True): (p.read_nullable_string, p.write_nullable_string),
    (True, False): (p.read_compact_string, p.write_compact_string),
    (True, True): (p.read_nullable_compact_string, p.write_nullable_compact_string),
}

_BYTES: dict[bool, tuple[Reader, Writer]] = {
    False: (p.read_bytes, p.write_bytes),
    True: (p.read_compact_bytes, p.write_compact_bytes),
}
"""By flexible; no message here has nullable bytes, except for records."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One field of one version: its name in our shape, its codec and its default."""

    name: str
    tag: int | None
    read: Reader
    write: Writer
    default: Any


def compile_schema(version: type, shape: type | None) -> tuple[Reader, Writer]:
    """Reader and writer of kio's class `version` in terms of our class `shape`.

    Without a shape the reader makes SimpleNamespaces with the version's own fields and the
    writer takes any objects that have them: the input of a shim.
    """
    flexible: bool = version.__flexible__  # type: ignore[attr-defined]
    nested = {} if shape is None else _nested_shapes(shape)
    fields = [_field(f, flexible, nested) for f in dataclasses.fields(version)]
    known = None if shape is None else {f.name for f in dataclasses.fields(shape)}
    if shape is not None:
        _require_defaults(shape, {f.name for f in fields})
    return _reader(fields, flexible, shape, known), _writer(fields, flexible, known)


def _require_defaults(shape: type, carried: set[str]) -> None:
    """A field that a version does not carry must have a default, otherwise it could not be read."""
    for field in dataclasses.fields(shape):
        assert field.name in carried or field.default is not dataclasses.MISSING, (
            f"{shape.__name__}.{field.name} needs a default"
        )


def our_name(field: Any) -> str:
    """Our name of kio's field: durations and times include their unit."""
    kafka_type = field.metadata.get("kafka_type", "")
    in_ms = kafka_type.startswith(("timedelta", "datetime"))
    return f"{field.name}_ms" if in_ms else str(field.name)


def parse_hint(hint: Any) -> tuple[bool, bool, type | None]:
    """(is an array, is nullable, the dataclass of the field or of each element)."""
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        nullable = len(inner) < len(typing.get_args(hint))
        hint = inner[0]
    is_array = typing.get_origin(hint) is tuple
    if is_array:
        hint = typing.get_args(hint)[0]
    return is_array, nullable, hint if dataclasses.is_dataclass(hint) else None  # type: ignore[return-value]


def _nested_shapes(shape: type) -> dict[str, type]:
    """Field name → the dataclass of the field, or of each of its elements."""
    hints = typing.get_type_hints(shape)
    structs = {name: parse_hint(hint)[2] for name, hint in hints.items()}
    return {name: struct for name, struct in structs.items() if struct is not None}


def _field(field: Any, flexible: bool, nested: dict[str, type]) -> _Field:
    name = our_name(field)
    tag = field.metadata.get("tag")
    is_array, nullable, struct = parse_hint(field.type)
    # A tagged field is omitted rather than null, so its value never is null.
    nullable = nullable and tag is None
    default: Any = None
    if struct is not None:
        read, write = compile_schema(struct, nested.get(name))
        if nullable and not is_array:
            read, write = _nullable_struct(read, write)
    elif field.metadata["kafka_type"] == "string":
        read, write = _STRINGS[flexible, nullable and not is_array]
        default = None if nullable else ""
    elif field.metadata["kafka_type"] == "bytes":
        assert not nullable
        (read, write), default = _BYTES[flexible], b""
    elif field.metadata["kafka_type"] == "records":
        assert flexible
        read, write = p.read_nullable_compact_bytes, p.write_nullable_compact_bytes
    else:
        read, write, default = _FIXED[field.metadata["kafka_type"]]
    if is_array:
        read = p.array_reader(read, flexible=flexible, nullable=nullable)
        write = p.array_writer(write, flexible=flexible, nullable=nullable)
        default = None if nullable else ()
    if field.default is not dataclasses.MISSING:
        default = _plain(field.default)
    return _Field(name=name, tag=tag, read=read, write=write, default=default)


def _plain(default: Any) -> Any:
    """kio's default in our types: durations are integers of milliseconds."""
    if isinstance(default, datetime.timedelta):
        return default // datetime.timedelta(milliseconds=1)
    return default


def _nullable_struct(read_struct: Reader, write_struct: Writer) -> tuple[Reader, Writer]:
    """A struct after a marker byte: -1 for null, 1 otherwise (KIP-893)."""

    def read(buf: Buffer, pos: int) -> tuple[Any, int]:
        marker, pos = p.read_int8(buf, pos)
        if marker == -1:
            return None, pos
        if marker != 1:
            raise CorruptData(f"struct marker {marker}")
        return read_struct(buf, pos)

    def write(out: bytearray, value: Any) -> None:
        p.write_int8(out, -1 if value is None else 1)
        if value is not None:
            write_struct(out, value)

    return read, write


def _reader(
    fields: list[_Field], flexible: bool, shape: type | None, known: set[str] | None
) -> Reader:
    tagged = {f.tag: (f.name, f.read) for f in fields if f.tag is not None}
    if shape is None or tagged:
        return _reader_by_names(fields, flexible, shape, known, tagged)
    # For the hot keys: the effect of a frozen dataclass's constructor without its cost. A request
    # of six fields is read in two thirds of the time.
    setters = {f.name: getattr(shape, f.name).__set__ for f in dataclasses.fields(shape)}
    plain = [(setters.get(f.name, _drop), f.read) for f in fields]
    carried = {f.name for f in fields}
    others = [
        (setters[f.name], f.default) for f in dataclasses.fields(shape) if f.name not in carried
    ]
    make = object.__new__

    def read(buf: Buffer, pos: int) -> tuple[Any, int]:
        entity: Any = make(shape)
        for set_field, read_field in plain:
            value, pos = read_field(buf, pos)
            set_field(entity, value)
        for set_field, value in others:
            set_field(entity, value)
        if flexible:
            pos = pos + 1 if buf[pos] == 0 else _read_tagged(buf, pos, {}, {})
        return entity, pos

    return read


def _drop(entity: Any, value: Any) -> None:
    """Drop a field that our shape does not have."""


def _reader_by_names(
    fields: list[_Field],
    flexible: bool,
    shape: type | None,
    known: set[str] | None,
    tagged: dict[int, tuple[str, Reader]],
) -> Reader:
    plain = [(f.name, f.read) for f in fields if f.tag is None]
    absent = {f.name: f.default for f in fields if f.tag is not None}
    dropped = () if known is None else tuple(f.name for f in fields if f.name not in known)
    build: Callable[..., Any] = SimpleNamespace if shape is None else shape

    def read(buf: Buffer, pos: int) -> tuple[Any, int]:
        values = dict(absent)
        for name, read_field in plain:
            values[name], pos = read_field(buf, pos)
        if flexible:
            pos = _read_tagged(buf, pos, tagged, values)
        for name in dropped:
            del values[name]
        return build(**values), pos

    return read


def _read_tagged(
    buf: Buffer, pos: int, tagged: dict[int, tuple[str, Reader]], values: dict[str, Any]
) -> int:
    if buf[pos] == 0:
        return pos + 1
    count, pos = p.read_varint(buf, pos)
    last = -1
    for _ in range(count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag <= last:
            raise CorruptData("tagged fields out of order")
        last = tag
        if tag in tagged:
            name, read_field = tagged[tag]
            values[name], end = read_field(buf, pos)
            if end != pos + size:
                raise CorruptData(f"tagged field {tag} does not have its stated length")
        pos += size
    return pos


def _writer(fields: list[_Field], flexible: bool, known: set[str] | None) -> Writer:
    here = fields if known is None else [f for f in fields if f.name in known]
    plain = [
        (f.name, f.write, None) if f in here else (None, f.write, f.default)
        for f in fields
        if f.tag is None
    ]
    tagged = sorted((f.tag, f.name, f.write, f.default) for f in here if f.tag is not None)

    def write(out: bytearray, value: Any) -> None:
        for name, write_field, default in plain:
            write_field(out, default if name is None else getattr(value, name))
        if tagged:
            _write_tagged(out, value, tagged)
        elif flexible:
            out.append(0)

    return write


def _write_tagged(out: bytearray, value: Any, tagged: list[tuple[int, str, Writer, Any]]) -> None:
    """Write those tagged fields that differ from their default, as the Java clients do."""
    present = [
        (tag, write_field, getattr(value, name))
        for tag, name, write_field, default in tagged
        if getattr(value, name) != default
    ]
    out += p.varint(len(present))
    for tag, write_field, field_value in present:
        body = bytearray()
        write_field(body, field_value)
        out += p.varint(tag)
        out += p.varint(len(body))
        out += body

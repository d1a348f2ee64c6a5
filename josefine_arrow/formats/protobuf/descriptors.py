"""Protobuf descriptors: a descriptor file, as written by protoc, to a tree of column types.

Source: "Encoding" and descriptor.proto of Protocol Buffers; types as in Spark's from_protobuf,
except that unsigned numbers fit.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from josefine_broker.base.install_commands import install_command

TIMESTAMP = "google.protobuf.Timestamp"

_SQL = {
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "INT64": "BIGINT",
    "SINT64": "BIGINT",
    "SFIXED64": "BIGINT",
    "UINT64": "DECIMAL(20,0)",
    "FIXED64": "DECIMAL(20,0)",
    "INT32": "INT",
    "SINT32": "INT",
    "SFIXED32": "INT",
    "UINT32": "BIGINT",
    "FIXED32": "BIGINT",
    "BOOL": "BOOLEAN",
    "STRING": "STRING",
    "BYTES": "BINARY",
    "ENUM": "STRING",
}


class SchemaError(ValueError):
    """Why a file or one of its messages has no columns; the text follows a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A value's type. `fields`: of a message; `key`: of a map; `names`: of an enum's numbers."""

    sql: str
    message: str = ""
    fields: tuple[Field, ...] = ()
    key: Type | None = None
    names: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field. `has_presence`: an absent value is distinct from the default. `type`: of one item if
    it `repeats`, of a value if it is a map."""

    name: str
    number: int
    type: Type
    repeats: bool = False
    has_presence: bool = False

    @property
    def sql(self) -> str:
        if self.type.key is not None:
            return f"MAP<{self.type.key.sql}, {self.type.sql}>"
        return f"ARRAY<{self.type.sql}>" if self.repeats else self.type.sql


def message_of(schema: bytes, name: str) -> Any:
    """The library's class of a message. `schema`: a FileDescriptorSet. Raises SchemaError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise SchemaError(f"it takes a package: {install_command('protobuf')}") from error
    pool = descriptor_pool.DescriptorPool()
    how = "expected what protoc --include_imports --descriptor_set_out writes"
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(schema).file
        for each in files:
            pool.Add(each)
    except (DecodeError, TypeError) as error:
        raise SchemaError(f"no descriptors ({str(error).splitlines()[0]}); {how}") from error
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        there = [f"{f.package}.{m.name}".lstrip(".") for f in files for m in f.message_type]
        raise SchemaError(
            f"no message `{name}`; it has: {', '.join(there)}" if there else how
        ) from error


def name_at(text: str, indexes: Sequence[int]) -> str:
    """The full name of a message of a file. `text`: its FileDescriptorProto in base64, as a
    registry returns it. Raises SchemaError."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError) as error:
        raise SchemaError("no descriptors of Protobuf") from error
    names, messages = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if index >= len(messages):
            raise SchemaError(f"has no message {'.'.join(map(str, indexes))}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def type_of(descriptor: Any, above: tuple[str, ...] = ()) -> Type:
    """The type of a message. `above`: the enclosing messages. Raises SchemaError."""
    name = str(descriptor.full_name)
    if name in above:
        raise SchemaError(f"message `{name}` contains itself")
    if not descriptor.fields:
        raise SchemaError(f"message `{name}` has no fields, and makes no column")
    fields = tuple(_field(each, (*above, name)) for each in descriptor.fields)
    inside = ", ".join(f"`{each.name}`: {each.sql}" for each in fields)
    return Type(sql=f"STRUCT<{inside}>", message=name, fields=fields)


def columns_of(record: Type) -> str:
    """The SQL columns of a message."""
    return ", ".join(f"`{each.name}` {each.sql}" for each in record.fields)


def _field(descriptor: Any, above: tuple[str, ...]) -> Field:
    value, key = descriptor, None
    message = descriptor.message_type
    if message is not None and message.GetOptions().map_entry:
        key = _item(message.fields_by_name["key"], above)
        value = message.fields_by_name["value"]
    item = _item(value, above)
    if key is not None:
        item = Type(
            sql=item.sql, message=item.message, fields=item.fields, key=key, names=item.names
        )
    return Field(
        name=str(descriptor.name),
        number=int(descriptor.number),
        type=item,
        repeats=bool(descriptor.is_repeated),
        has_presence=bool(descriptor.has_presence),
    )


def _item(descriptor: Any, above: tuple[str, ...]) -> Type:
    kinds = {getattr(descriptor, f"TYPE_{kind}"): sql for kind, sql in _SQL.items()}
    if descriptor.message_type is not None:
        if descriptor.message_type.full_name == TIMESTAMP:
            return Type(sql="TIMESTAMP", message=TIMESTAMP)
        return type_of(descriptor.message_type, above)
    names = descriptor.enum_type.values_by_number if descriptor.enum_type else {}
    found = tuple((number, str(value.name)) for number, value in names.items())
    return Type(sql=kinds[descriptor.type], names=found)

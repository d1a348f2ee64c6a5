"""Decoder of Protobuf: the bytes of one message to a value, or the reason why they are bad.

Google's library decodes the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.confluent.framing import OFFLINE, OWN, FramingError, indexes, split
from josefine_arrow.formats.confluent.schema_references import NoSchemaError
from josefine_arrow.formats.confluent.schema_registry import PROTOBUF
from josefine_arrow.formats.confluent.schema_registry_http import registry_at
from josefine_arrow.formats.protobuf.descriptors import (
    TIMESTAMP,
    Field,
    SchemaError,
    Type,
    message_of,
    name_at,
    type_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The seconds of the years 1 to 9999, the range of timestamp.proto."""

Read = Callable[[Any], Any]

TextBy = Callable[[int], str]
"""Lookup of a schema by its id. Raises NoSchemaError, RegistryError."""


class MessageError(ValueError):
    """Why bytes are not a valid message; the text is the reason of a dead letter."""


class OtherTypeError(MessageError):
    """A record is another message than the wanted one."""


class Decoder:
    """The decoder of one message: bytes to (value, reason). `text_by`: lookup of writer schemas;
    None: the records are not framed. `skips`: other messages are left out, not bad."""

    def __init__(
        self, schema: bytes, name: str, text_by: TextBy | None = None, *, skips: bool = False
    ) -> None:
        """Raises SchemaError."""
        self._text_by, self._skips = text_by, skips
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}
        self._class = message_of(schema, name)
        self.type = type_of(self._class.DESCRIPTOR)
        self._read, self._name = _message(self.type), name

    def __call__(self, data: bytes | None) -> tuple[Any, str | None]:
        """Raises RegistryError."""
        from google.protobuf.message import DecodeError

        if data is None:
            return None, None
        try:
            if self._text_by is not None:
                data = self._unframed(data, self._text_by)
            message = self._class.FromString(data)
            if not message.IsInitialized():
                lacks = ", ".join(message.FindInitializationErrors())
                return None, f"{self._name} without what it requires: {lacks}"
            return self._read(message), None
        except DecodeError as error:
            return None, f"no {self._name}: {str(error).rpartition(': ')[2]}"
        except OtherTypeError as error:
            return None, None if self._skips else str(error)
        except (MessageError, FramingError, NoSchemaError) as error:
            return None, str(error)

    def _unframed(self, data: bytes, text_by: TextBy) -> bytes:
        """The message without its frame. Its writer schema must name the expected message."""
        number, data = split(data)
        which, data = indexes(data)
        if (number, which) not in self._names:
            text = text_by(number)
            try:
                self._names[number, which] = name_at(text, which) if text else self._name
            except SchemaError as error:
                raise NoSchemaError(f"schema {number}: {error}") from error
        found = self._names[number, which]
        if found != self._name:
            raise OtherTypeError(f"a {found}, expected a {self._name}")
        return data


_decoders: dict[tuple[bytes, str, str | None, bool], Decoder] = {}
"""One cache per process: Spark reuses a Python worker for many batches."""


def decoder_of(schema: bytes, name: str, registry: str | None, *, skips: bool = False) -> Decoder:
    """The cached decoder of this process. `registry`: its address, OWN or None. Raises
    SchemaError."""
    key = (schema, name, registry, skips)
    if key not in _decoders:
        text_by: TextBy | None = None
        if registry == OWN:
            text_by = _own
        elif registry is not None:
            text_by = registry_at(registry, PROTOBUF).text
        _decoders[key] = Decoder(schema, name, text_by, skips=skips)
    return _decoders[key]


def _own(number: int) -> str:
    """Schema lookup for inline records of the file; "" means that they have the file's message."""
    if number != OFFLINE:
        raise NoSchemaError(f"schema {number}: records of the file itself have {OFFLINE}")
    return ""


def encoded(schema: bytes, name: str, value: Mapping[str, Any]) -> bytes:
    """A message from JSON, for the inline records of a file. Raises MessageError."""
    from google.protobuf import json_format

    try:
        message = json_format.ParseDict(value, message_of(schema, name)())
        return bytes(message.SerializeToString())
    except (json_format.ParseError, SchemaError) as error:
        raise MessageError(f"no {name}: {error}") from error


def _message(kind: Type) -> Read:
    from google.protobuf.unknown_fields import UnknownFieldSet

    fields = [(each.name, _field(each)) for each in kind.fields]
    known = {each.number: each.name for each in kind.fields}

    def read(message: Any) -> dict[str, Any]:
        # Fields that a newer writer added are ignored; the fields of this schema must be valid.
        for each in UnknownFieldSet(message):
            if each.field_number in known:
                name = known[each.field_number]
                raise MessageError(f"field `{name}` of {kind.message} has another type or value")
        return {name: read_field(message) for name, read_field in fields}

    return read


def _field(field: Field) -> Read:
    name, item = field.name, _item(field.type)
    if field.type.key is not None:
        key = _item(field.type.key)
        return lambda m: [(key(k), item(value)) for k, value in getattr(m, name).items()]
    if field.repeats:
        return lambda m: [item(value) for value in getattr(m, name)]
    if field.has_presence:
        return lambda m: item(getattr(m, name)) if m.HasField(name) else None
    return lambda m: item(getattr(m, name))


def _item(kind: Type) -> Read:
    if kind.message == TIMESTAMP:
        return _micros
    if kind.fields:
        return _message(kind)
    if kind.names:
        names = dict(kind.names)
        return lambda number: names.get(number, str(number))
    return _PLAIN.get(kind.sql, _same)


def _same(value: Any) -> Any:
    return value


def _text(value: str | bytes) -> str:
    """For proto2 the library does not check texts: it returns bytes if a text is not UTF-8."""
    if not isinstance(value, str):
        raise MessageError("a text is not UTF-8")
    return value


_PLAIN: Mapping[str, Read] = {"STRING": _text, "DECIMAL(20,0)": Decimal}


def _micros(stamp: Any) -> int:
    if not (_FIRST_S <= stamp.seconds <= _LAST_S and 0 <= stamp.nanos < 1_000_000_000):
        raise MessageError(f"no time: {stamp.seconds} seconds and {stamp.nanos} nanoseconds")
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1000


def arrow_of(kind: Type) -> pa.DataType:
    """The Arrow type of a decoder's values, equal to Spark's type of the columns."""
    import pyarrow as pa

    if kind.fields:
        return pa.struct([(each.name, _arrow_of_field(each)) for each in kind.fields])
    plain = {
        "BOOLEAN": pa.bool_(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "DECIMAL(20,0)": pa.decimal128(20, 0),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
    }
    return plain[kind.sql]


def _arrow_of_field(field: Field) -> pa.DataType:
    import pyarrow as pa

    item = arrow_of(field.type)
    if field.type.key is not None:
        return pa.map_(arrow_of(field.type.key), item)
    return pa.list_(item) if field.repeats else item

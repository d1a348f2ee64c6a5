"""Messages of Protobuf to a struct, and the reason for every value that is none.

Decoded in Spark's Python workers by Google's own library, as Avro is by ours: Spark's from_protobuf
wants a jar, and gives no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pipelines.protobuf_schema import TIMESTAMP, Field, SchemaError, Type, message_of, type_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_VALUE, _WHY = "value", "why"
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999, which timestamp.proto allows."""

Read = Callable[[Any], Any]


class MessageError(ValueError):
    """Why bytes are no such message, in words for a dead letter."""


class Decoder:
    """One message: bytes to (value, why not)."""

    def __init__(self, schema: bytes, name: str) -> None:
        """Raises SchemaError."""
        self._class = message_of(schema, name)
        self.type = type_of(self._class.DESCRIPTOR)
        self._read, self._name = _message(self.type), name

    def __call__(self, data: bytes | None) -> tuple[Any, str | None]:
        """Raises nothing."""
        from google.protobuf.message import DecodeError

        if data is None:
            return None, None
        try:
            message = self._class.FromString(data)
            if not message.IsInitialized():
                lacks = ", ".join(message.FindInitializationErrors())
                return None, f"{self._name} without what it requires: {lacks}"
            return self._read(message), None
        except DecodeError as error:
            return None, f"no {self._name}: {str(error).rpartition(': ')[2]}"
        except MessageError as error:
            return None, str(error)


_decoders: dict[tuple[bytes, str], Decoder] = {}
"""Of this process: Spark uses a Python worker for many batches."""


def decoder_of(schema: bytes, name: str) -> Decoder:
    """A decoder that lives as long as the process. Raises SchemaError."""
    if (schema, name) not in _decoders:
        _decoders[schema, name] = Decoder(schema, name)
    return _decoders[schema, name]


def encoded(schema: bytes, name: str, value: Mapping[str, Any]) -> bytes:
    """A message of what JSON has of it, for the records that a file has itself. Raises
    MessageError."""
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
        # Fields that a newer writer added are passed over; of ours none may be.
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
    """Of proto2 the library looks at no text, and gives the bytes where it is none."""
    if not isinstance(value, str):
        raise MessageError("a text is not UTF-8")
    return value


_PLAIN: Mapping[str, Read] = {"STRING": _text, "DECIMAL(20,0)": Decimal}


def _micros(stamp: Any) -> int:
    if not (_FIRST_S <= stamp.seconds <= _LAST_S and 0 <= stamp.nanos < 1_000_000_000):
        raise MessageError(f"no time: {stamp.seconds} seconds and {stamp.nanos} nanoseconds")
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1000


def arrow_of(kind: Type) -> pa.DataType:
    """Arrow's type of what a Decoder gives, as Spark has it of the columns."""
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


class ProtobufValues:
    """`format: protobuf`. `schema`: a FileDescriptorSet; `name`: of a message in it."""

    def __init__(self, schema: bytes, name: str) -> None:
        self._schema, self._name = schema, name

    def parse(self, data: Column) -> Column:
        import pyarrow as pa
        from pyspark.sql.pandas.functions import arrow_udf

        schema, name = self._schema, self._name
        record = decoder_of(schema, name).type
        both = f"{_VALUE} {record.sql}, {_WHY} STRING"

        def parse(column: pa.Array) -> pa.Array:
            decode = decoder_of(schema, name)
            pairs = [decode(data) for data in column.to_pylist()]
            values = pa.array([value for value, _ in pairs], arrow_of(decode.type))
            reasons = pa.array([why for _, why in pairs], pa.string())
            return pa.StructArray.from_arrays([values, reasons], [_VALUE, _WHY])

        # Spark takes its kind from these, and warns of one that is said; its stubs want that.
        parse.__annotations__ = {"column": pa.Array, "return": pa.Array}
        made: Any = arrow_udf
        column: Column = made(parse, both)(data)
        return column

    def is_good(self, data: Column, parsed: Column) -> Column:
        return data.isNotNull() & parsed.getField(_WHY).isNull()

    def result(self, parsed: Column) -> Column:
        return parsed.getField(_VALUE)

    def reason(self, data: Column, parsed: Column) -> Column:
        return parsed.getField(_WHY)

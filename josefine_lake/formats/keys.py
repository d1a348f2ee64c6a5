"""The key columns of a tombstone, from its record's key: a tombstone has no value that has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from josefine_arrow.formats import value_by_value
from josefine_arrow.formats.avro.primitives import AvroError
from josefine_arrow.formats.avro.reader import reader_of
from josefine_arrow.formats.avro.schema import SchemaError, parse
from josefine_arrow.formats.confluent.framing import FramingError, split
from josefine_arrow.formats.confluent.schema_references import NoSchemaError
from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_lake.config.table_topic import KeyFormat, TableTopic
from josefine_lake.formats.registry import looked_up, opened

NULL_KEY = "a record without value and key deletes no row"
_BARE = re.compile(rb"[-+]?[0-9][0-9.eE+-]*|true|false")
"""Texts that JSON has without quotes."""
_COMPARED = (
    pa.types.is_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_decimal,
    pa.types.is_date, pa.types.is_timestamp, pa.types.is_boolean,
)  # fmt: skip
"""The types of keys: those of which equal values are one value."""


def key_type(table: TableTopic, row: pa.StructType) -> pa.StructType:
    """The key columns of a row. Raises ValueError if they cannot be keys."""
    fields = []
    for name in table.keys:
        at = row.get_field_index(name)
        if at < 0:
            raise ValueError(
                f"'josefine.table.keys': a value has no column {name}; it has: "
                f"{', '.join(field.name for field in row)}"
            )
        if not any(is_kind(row[at].type) for is_kind in _COMPARED):
            raise ValueError(f"'josefine.table.keys': {name} is {row[at].type}, which is no key")
        fields.append(row[at])
    return pa.struct(fields)


class Keys:
    """The decoder of records' keys."""

    def __init__(self, table: TableTopic, kind: pa.StructType, env: Mapping[str, str]) -> None:
        """`kind`: the key columns. Raises ValueError."""
        self.type = kind
        if table.key_format is KeyFormat.AVRO:
            if not table.registry:
                raise ValueError(
                    "'josefine.table.key.format' avro needs 'josefine.table.schema.registry'"
                )
            read = _AvroKeys(table, kind, env)
            self._decode: Any = partial(value_by_value.one_by_one, read=read, kind=kind)
        elif table.key_format is KeyFormat.TEXT:
            if len(kind) != 1:
                raise ValueError(
                    "'josefine.table.key.format' text is for one column of 'josefine.table.keys'"
                )
            self._json = JsonDecoder(kind)
            self._decode = self._texts
        else:
            # A converter with `schemas.enable=true` puts the key into `payload`.
            self._json = JsonDecoder(pa.struct([pa.field("payload", kind), *kind]))
            self._decode = self._objects

    def decode(self, keys: Any) -> tuple[Any, Any]:
        """(the key columns of each key, the reasons): exactly one of the two is null. Raises
        OSError if a registry does not answer."""
        found, reasons = self._decode(keys)
        why = reasons.to_pylist()
        rows = found.to_pylist()
        for at, row in enumerate(rows):
            if why[at] is None:
                missing = [name for name, value in (row or {}).items() if value is None]
                why[at] = NULL_KEY if row is None else None
                why[at] = f"key: {missing[0]} is null" if missing else why[at]
            else:
                why[at] = f"key: {why[at]}"
            rows[at] = row if why[at] is None else None
        return pa.array(rows, self.type), pa.array(why, pa.string())

    def _objects(self, keys: Any) -> tuple[Any, Any]:
        found, reasons = self._json.decode(keys)
        payload, *alone = found.flatten()
        rows = [
            inside if inside is not None else row
            for inside, row in zip(
                payload.to_pylist(),
                pa.StructArray.from_arrays(alone, fields=list(self.type)).to_pylist(),
                strict=True,
            )
        ]
        valid = found.is_valid().to_pylist()
        rows = [row if is_there else None for row, is_there in zip(rows, valid, strict=True)]
        return pa.array(rows, self.type), reasons

    def _texts(self, keys: Any) -> tuple[Any, Any]:
        is_text = pa.types.is_string(self.type[0].type)
        name = json.dumps(self.type[0].name)
        objects = [None if key is None else _object(name, key, is_text) for key in keys.to_pylist()]
        return self._json.decode(pa.array(objects, pa.binary()))


def _object(name: str, key: bytes, is_text: bool) -> bytes:
    """A JSON object of one column; a key that is not UTF-8 stays as it is, for its reason."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key
    bare = not is_text and _BARE.fullmatch(key)
    return f"{{{name}: {text if bare else json.dumps(text)}}}".encode()


class _AvroKeys:
    """Bytes to (key columns, reason), by the writers' schemas. Mutable: the known ones."""

    def __init__(self, table: TableTopic, kind: pa.StructType, env: Mapping[str, str]) -> None:
        self._registry = opened(table, env)
        self._kind = kind
        self._readers: dict[int, Any] = {}

    def __call__(self, data: bytes) -> tuple[Any, str | None]:
        try:
            number, data = split(data)
            value = self._reader(number)(data)
        except (AvroError, FramingError, NoSchemaError, SchemaError) as error:
            return None, str(error)
        if not isinstance(value, dict):
            if len(self._kind) != 1:
                return None, "expected a record with the key columns"
            value = {self._kind[0].name: value}
        found = {field.name: value.get(field.name) for field in self._kind}
        try:
            pa.array([found], self._kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            return None, str(error)
        return found, None

    def _reader(self, number: int) -> Any:
        if number not in self._readers:
            schema = looked_up(self._registry, number)
            writer = parse(schema.text, schema.referenced)
            self._readers[number] = reader_of(writer, writer)
        return self._readers[number]

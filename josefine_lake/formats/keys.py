"""The key columns of a tombstone, from its record's key: a tombstone has no value that has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.formats import value_by_value
from josefine_arrow.formats.avro.primitives import AvroError
from josefine_arrow.formats.avro.reader import reader_of
from josefine_arrow.formats.avro.schema import SchemaError, parse
from josefine_arrow.formats.confluent.framing import FramingError, split
from josefine_arrow.formats.confluent.schema_references import NoSchemaError
from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_arrow.formats.value_by_value import flags
from josefine_lake.config.table_topic import KeyFormat, TableTopic
from josefine_lake.formats.registry import looked_up, opened

NULL_KEY = "a record without value and key deletes no row"
_BARE = re.compile(rb"[-+]?[0-9][0-9.eE+-]*|true|false")
"""Texts that JSON has without quotes."""
_QUOTED = (
    pa.types.is_string, pa.types.is_binary, pa.types.is_date, pa.types.is_timestamp,
)  # fmt: skip
"""The types of keys that JSON has in quotes."""
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
            self._json = JsonDecoder(kind)
            self._wrapped = JsonDecoder(pa.struct([pa.field("payload", kind)]))
            self._decode = self._objects

    def decode(self, keys: Any) -> tuple[Any, Any]:
        """(the key columns of each key, the reasons): exactly one of the two is null. Raises
        OSError if a registry does not answer."""
        found, reasons = self._decode(keys)
        columns = found.flatten()
        why = pc.binary_join_element_wise("key: ", reasons, "")
        for field, column in zip(self.type, columns, strict=True):
            missing = pc.and_(pc.and_(found.is_valid(), why.is_null()), column.is_null())
            why = pc.if_else(missing, f"key: {field.name} is null", why)
        why = pc.if_else(pc.and_(found.is_null(), why.is_null()), NULL_KEY, why)
        rows = pa.StructArray.from_arrays(columns, fields=list(self.type), mask=why.is_valid())
        return rows, why

    def _objects(self, keys: Any) -> tuple[Any, Any]:
        rows, reasons = self._json.decode(keys)
        # Another key may have a column `payload` too: then it is no object of these columns.
        inside = self._wrapped.decode(keys)[0].flatten()[0]
        is_inside = inside.is_valid()
        where = np.arange(len(rows)) + len(rows) * flags(is_inside)
        reasons = pc.if_else(is_inside, pa.scalar(None, pa.string()), reasons)
        return pa.concat_arrays([rows, inside]).take(pa.array(where)), reasons

    def _texts(self, keys: Any) -> tuple[Any, Any]:
        is_quoted = any(is_kind(self.type[0].type) for is_kind in _QUOTED)
        name = json.dumps(self.type[0].name)
        objects = [
            None if key is None else _object(name, key, is_quoted) for key in keys.to_pylist()
        ]
        return self._json.decode(pa.array(objects, pa.binary()))


def _object(name: str, key: bytes, is_quoted: bool) -> bytes:
    """A JSON object of one column; a key that is not UTF-8 stays as it is, for its reason."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key
    bare = not is_quoted and _BARE.fullmatch(key)
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

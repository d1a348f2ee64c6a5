"""Reader of whole columns of Avro records: field by field, each for all records at once.

It has the plain types: a record is left to `reader` if a check fails, and all records of a schema
if it has arrays, maps or a rare conversion. So a value is either the one that `reader` returns, or
it is left to it; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.formats.avro.cursor import Cursor, gathered
from josefine_arrow.formats.avro.primitives import AvroError
from josefine_arrow.formats.avro.reader import default_of, fits, fitting_branch
from josefine_arrow.formats.avro.schema import SchemaError, Type

ReadColumn = Callable[[Cursor], Any]
"""Reads one value of each record: an Arrow array."""

_DECIMAL_BYTES_MAX = 8
"""A decimal of more bytes is left to `reader`."""


class LeftError(Exception):
    """A schema that is left to `reader`."""


def columns_reader(writer: Type, reader: Type, arrow: Callable[[Type], Any]) -> ReadColumn | None:
    """The reader of a record's columns; None: `reader` reads them all. `arrow`: the Arrow type of a
    type. Raises AvroError if the schemas do not match."""
    try:
        return _Builder(arrow).read(writer, reader)
    except (LeftError, SchemaError):
        return None


class _Builder:
    def __init__(self, arrow: Callable[[Type], Any]) -> None:
        self._arrow = arrow

    def read(self, writer: Type, reader: Type) -> ReadColumn:
        """Raises AvroError, LeftError."""
        if writer.kind == "union":
            return self._union(writer, reader)
        if reader.kind == "union":
            fitting = fitting_branch(writer, reader, "")
            if writer.kind != "null":
                return self.read(writer, fitting)
            kind = self._arrow(reader)  # the column's, not that of null alone
            return lambda cursor: pa.nulls(len(cursor), kind)
        if not fits(writer, reader):
            raise AvroError("other types")
        if reader.kind in ("array", "map"):
            raise LeftError
        if reader.kind == "record":
            return self._record(writer, reader)
        if reader.kind == "enum":
            return _enum([s if s in reader.symbols else reader.default for s in writer.symbols])
        return self._plain(writer, reader)

    def _record(self, writer: Type, reader: Type) -> ReadColumn:
        if not reader.fields:
            raise LeftError  # an Arrow struct of no columns forgets how many rows it has
        kind = self._arrow(reader)
        wanted = {name: each for each in reader.fields for name in (*each.aliases, each.name)}
        steps: list[tuple[str | None, ReadColumn]] = []
        found: set[str] = set()
        # In the writer's order, because that is the order of the bytes; also what nobody reads.
        for each in writer.fields:
            target = wanted.get(each.name)
            if target is None or target.name in found:
                steps.append((None, self.read(each.type, each.type)))
            else:
                found.add(target.name)
                steps.append((target.name, self.read(each.type, target.type)))
        defaults = {
            each.name: pa.scalar(default_of(each, each.name), self._arrow(each.type))
            for each in reader.fields
            if each.name not in found
        }

        def read(cursor: Cursor) -> Any:
            columns = {}
            for name, step in steps:
                column = step(cursor)
                if name is not None:
                    columns[name] = column
            for name, value in defaults.items():
                columns[name] = pa.repeat(value, len(cursor))
            ordered = [columns[field.name] for field in kind]
            return pa.StructArray.from_arrays(ordered, fields=list(kind))

        return read

    def _union(self, writer: Type, reader: Type) -> ReadColumn:
        branches: list[ReadColumn | None] = []
        for each in writer.branches:
            try:
                branches.append(self.read(each, reader))
            except AvroError:
                branches.append(None)
        nulls = [at for at, each in enumerate(writer.branches) if each.kind == "null"]
        values = [at for at, each in enumerate(branches) if each is not None and at not in nulls]
        nulls = [at for at in nulls if branches[at] is not None]
        if len(values) != 1 or len(nulls) > 1:
            raise LeftError
        (value,) = values
        step = branches[value]
        assert step is not None
        return _nullable(value, nulls[0] if nulls else -1, step)

    def _plain(self, writer: Type, reader: Type) -> ReadColumn:
        if reader.logical == "decimal":
            return _decimals(writer, self._arrow(reader), reader.digits)
        if reader.kind in ("string", "bytes", "fixed"):
            if reader.logical == "uuid" and writer.kind == "fixed":
                raise LeftError
            if writer.kind == "string" and reader.kind == "bytes":
                raise LeftError  # it has to be UTF-8 all the same
            return _texts(self._arrow(reader), writer.size if writer.kind == "fixed" else None)
        if reader.kind == "null":
            return lambda cursor: pa.nulls(len(cursor))
        if reader.kind == "boolean":
            return _booleans
        if writer.kind in ("float", "double"):
            return _floats(writer.kind, self._arrow(reader))
        in_millis = "timestamp" in reader.logical and (writer.logical or reader.logical).endswith(
            "-millis"
        )
        return _numbers(writer.kind, self._arrow(reader), 1000 if in_millis else 1)


def _nullable(value: int, null: int, step: ReadColumn) -> ReadColumn:
    """A union of one type and perhaps null, by their places in it."""

    def read(cursor: Cursor) -> Any:
        which = cursor.long()
        has = which == value
        cursor.good &= has | (which == null) if null >= 0 else has
        if has.all():
            return step(cursor)
        rows = np.flatnonzero(has)
        part = cursor.part(rows)
        found = step(part)
        cursor.join(rows, part)
        places = np.zeros(len(cursor), np.int64)
        places[rows] = np.arange(len(rows))
        return found.take(pa.array(places, mask=~has))

    return read


def _numbers(written: str, kind: pa.DataType, factor: int) -> ReadColumn:
    low, high = (-(2**31), 2**31 - 1) if written == "int" else (-(2**63), 2**63 - 1)
    low, high = max(low, -((2**63) // factor)), min(high, (2**63 - 1) // factor)

    def read(cursor: Cursor) -> Any:
        found = cursor.long()
        cursor.good &= (found >= low) & (found <= high)
        if pa.types.is_floating(kind):
            return _array(found.astype(np.float64).astype(f"f{kind.bit_width // 8}"), kind)
        return _array((found * factor).astype(f"i{kind.bit_width // 8}"), kind)

    return read


def _floats(written: str, kind: pa.DataType) -> ReadColumn:
    size = 4 if written == "float" else 8

    def read(cursor: Cursor) -> Any:
        found = cursor.bytes(size).view(f"<f{size}")[:, 0]
        # A signaling NaN would warn.
        with np.errstate(invalid="ignore"):
            return _array(found.astype(f"f{kind.bit_width // 8}"), kind)

    return read


def _booleans(cursor: Cursor) -> Any:
    found = cursor.byte()
    cursor.good &= found <= 1
    return _bools(found == 1)


def _bools(found: Any) -> Any:
    packed = pa.py_buffer(np.packbits(found, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(found), [None, packed])


def _texts(kind: pa.DataType, fixed: int | None) -> ReadColumn:
    def read(cursor: Cursor) -> Any:
        start, size = cursor.span() if fixed is None else _fixed(cursor, fixed)
        texts, ends = gathered(cursor.data, start, size)
        if pa.types.is_string(kind) and len(texts) and texts.max() > 127:
            return _unicode(cursor, texts, ends)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts)]
        return pa.Array.from_buffers(kind, len(size), buffers)

    return read


def _fixed(cursor: Cursor, size: int) -> tuple[Any, Any]:
    cursor.good &= size <= cursor.end - cursor.at
    sizes = np.where(cursor.good, size, 0)
    start = cursor.at
    cursor.at = start + sizes
    return start, sizes


def _unicode(cursor: Cursor, texts: Any, ends: Any) -> Any:
    """Texts that are not all ASCII: those that are not UTF-8 are left to `reader`."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts)]
    found = pa.Array.from_buffers(pa.binary(), len(cursor), buffers)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        above = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(texts > 127, out=above[1:])
        is_ascii = above[ends[1:]] == above[ends[:-1]]
        cursor.good &= is_ascii
        kept = pc.if_else(_bools(is_ascii), found, pa.scalar(b"", pa.binary()))
        return kept.cast(pa.string())


def _decimals(writer: Type, kind: pa.DataType, digits: int) -> ReadColumn:
    fixed = writer.size if writer.kind == "fixed" else None
    limit = min(10**digits, 2**63) - 1

    def read(cursor: Cursor) -> Any:
        start, size = cursor.span() if fixed is None else _fixed(cursor, fixed)
        cursor.good &= size <= _DECIMAL_BYTES_MAX
        value, last = np.zeros(len(size), np.int64), len(cursor.data) - 1
        for at in range(_DECIMAL_BYTES_MAX):
            rows = np.flatnonzero(size > at)
            found = cursor.data[np.minimum(start[rows] + at, last)].astype(np.int64)
            # Big-endian; the first byte has the sign.
            value[rows] = found - ((found & 0x80) << 1) if at == 0 else (value[rows] << 8) | found
        cursor.good &= (value <= limit) & (value >= -limit)
        words = np.stack([value, value >> 63], axis=1)
        return pa.Array.from_buffers(kind, len(size), [None, pa.py_buffer(words)])

    return read


def _enum(symbols: Sequence[str | None]) -> ReadColumn:
    names = pa.array(symbols, pa.string())
    known = np.array([each is not None for each in symbols])

    def read(cursor: Cursor) -> Any:
        which = cursor.long()
        cursor.good &= (which >= 0) & (which < len(symbols))
        which = np.where(cursor.good, which, 0)
        cursor.good &= known[which]
        return names.take(pa.array(which))

    return read


def _array(numbers: Any, kind: pa.DataType) -> Any:
    buffer = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])

"""The decoder of JSON objects into a struct column, by compiled kernels.

A value is decoded only when the result of Spark's `from_json` is certain, read strictly (no single
quotes, no NaN); otherwise the row is null. Without numba every row is null.
"""

import warnings
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from josefine_arrow.cache.kernels import import_kernels

ROWS_MAX = 65_536
"""Rows per record batch and per call of the kernel."""

CELLS_MAX = 1 << 22
"""Output words of 8 bytes per call of the kernel. Each row has words for every field, even if a
small value contains few of many fields."""

_WORDS = {
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.date32(): "DATE",
}
"""The kernels' names of types without bounds."""


class JsonDecoder:
    """Decodes values as objects of one struct type. It has no state of single values.

    The fields' types: string, bool, signed integers, float64, date32, decimal128 of at most 18
    digits, microseconds in UTC, and structs of these.
    """

    def __init__(self, kind: pa.StructType) -> None:
        self._type = kind
        self._kernels = _loops()
        if self._kernels is not None:
            self._fields = _Fields(kind, self._kernels)
            self._powers = _powers(self._kernels)
            self._stack = np.zeros(self._kernels.DEPTH_MAX, dtype=np.int64)

    def appended(self, batch: Any, name: str) -> Iterator[Any]:
        """The record batch with the objects of its column `value` as the last column `name`, in one
        or more pieces."""
        field, size = pa.field(name, self._type), self._rows_max()
        for at in range(0, batch.num_rows, size):
            part = batch.slice(at, size)
            yield part.append_column(field, self.read(part.column("value")))

    def read(self, values: Any) -> Any:
        """One object per binary value; null where the result is not certain."""
        if self._kernels is None or len(values) == 0:
            return pa.nulls(len(values), self._type)
        size = self._rows_max()
        parts = [self._read(values.slice(at, size)) for at in range(0, len(values), size)]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _rows_max(self) -> int:
        if self._kernels is None:
            return ROWS_MAX
        cells = self._fields.words + self._fields.texts * self._kernels.SPAN_ROWS
        return int(max(1, min(ROWS_MAX, CELLS_MAX // max(1, cells))))

    def _read(self, values: Any) -> Any:
        k, fields, rows = self._kernels, self._fields, len(values)
        valid, ends, data = values.buffers()
        data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        ends = np.frombuffer(ends, np.int32)[values.offset : values.offset + rows + 1]
        given = np.ones(rows, np.uint8)
        if valid is not None:  # not by `to_numpy`, which imports pandas
            bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
            given = bits[values.offset : values.offset + rows]
        out = _Out(fields, rows, k)
        fields.table[:, k.SEEN] = -1
        schema = (fields.table, fields.names, self._powers)
        table, names, powers = (_address(each) for each in schema)
        k.parse(
            _address(data),
            _address(ends),
            _address(given),
            rows,
            (table, len(fields.table), names, powers),
            _address(self._stack),
            (_address(out.words), _address(out.spans), _address(out.taken)),
        )
        return _Columns(k, data, out, fields).column(0, self._type)


class _Fields:
    """The schema in the kernels' form: a table with a row per field, and the names."""

    def __init__(self, kind: pa.StructType, k: Any) -> None:
        found = [("", kind)]
        children: list[tuple[int, int]] = []
        for _, each in found:  # grows during the loop: breadth first, so that siblings are adjacent
            inner = list(each) if pa.types.is_struct(each) else []
            children.append((len(found), len(inner)))
            found.extend((field.name, field.type) for field in inner)
        names = [name.encode() for name, _ in found]
        self.table = np.zeros((len(found), k.FIELD_COLUMNS), dtype=np.int64)
        self.words = self.texts = 0
        """Number of fields with a fixed size, and of string fields."""
        starts = accumulate((len(name) for name in names), initial=0)
        for row, (_, each), name, start, inside in zip(
            self.table, found, names, starts, children, strict=False
        ):
            row[[k.CHILD, k.CHILDREN]] = inside
            row[[k.NAME, k.NAME_SIZE]] = start, len(name)
            self._type_of(row, each, k)
        self.names = np.frombuffer(b"".join(names), np.uint8)

    def _type_of(self, row: Any, kind: Any, k: Any) -> None:
        if pa.types.is_struct(kind):
            row[k.KIND] = k.STRUCT
            return
        if pa.types.is_string(kind):
            row[[k.KIND, k.SLOT]] = k.STRING, self.texts
            self.texts += 1
            return
        row[k.SLOT] = self.words
        self.words += 1
        if pa.types.is_decimal128(kind):
            limit = 10**kind.precision - 1
            row[[k.KIND, k.LOW, k.HIGH, k.SCALE]] = k.DECIMAL, -limit, limit, kind.scale
        elif pa.types.is_signed_integer(kind):
            limit = 1 << (kind.bit_width - 1)
            row[[k.KIND, k.LOW, k.HIGH]] = k.INTEGER, -limit, limit - 1
        else:
            row[k.KIND] = getattr(k, _WORDS[kind])


class _Out:
    """The output buffers of the kernel."""

    def __init__(self, fields: _Fields, rows: int, k: Any) -> None:
        self.words = np.zeros((fields.words, rows), dtype=np.int64)
        self.spans = np.zeros((fields.texts * k.SPAN_ROWS, rows), dtype=np.int64)
        self.taken = np.zeros((len(fields.table), rows), dtype=np.uint8)


class _Columns:
    """Builds Arrow arrays from the filled buffers."""

    def __init__(self, k: Any, data: Any, out: _Out, fields: _Fields) -> None:
        self._k, self._data, self._out, self._fields = k, data, out, fields

    def column(self, field: int, kind: Any) -> Any:
        """The array of a field, of this Arrow type."""
        k, rows = self._k, self._out.taken.shape[1]
        row = self._fields.table[field]
        taken = self._out.taken[field]
        nulls = rows - int(np.count_nonzero(taken))
        valid = pa.py_buffer(np.packbits(taken, bitorder="little")) if nulls else None
        if pa.types.is_struct(kind):
            first = int(row[k.CHILD])
            children = [self.column(first + at, kind.field(at).type) for at in range(len(kind))]
            return pa.Array.from_buffers(kind, rows, [valid], nulls, children=children)
        if pa.types.is_string(kind):
            return pa.Array.from_buffers(kind, rows, [valid, *self._texts(int(row[k.SLOT]))], nulls)
        numbers = _as_stored(self._out.words[row[k.SLOT]], kind)
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(numbers)], nulls)

    def _texts(self, slot: int) -> tuple[Any, Any]:
        k = self._k
        spans = self._out.spans[slot * k.SPAN_ROWS : (slot + 1) * k.SPAN_ROWS]
        ends = np.zeros(spans.shape[1] + 1, dtype=np.int32)
        texts = np.empty(int(spans[k.SIZE].sum()), dtype=np.uint8)
        rows = spans.shape[1]
        k.gather(_address(self._data), _address(spans), rows, _address(ends), _address(texts))
        return pa.py_buffer(ends), pa.py_buffer(texts)


def _as_stored(numbers: Any, kind: Any) -> Any:
    """64-bit integers in Arrow's memory layout of this type."""
    if pa.types.is_boolean(kind):
        return np.packbits(numbers != 0, bitorder="little")
    if pa.types.is_decimal(kind):
        return np.stack([numbers, numbers >> 63], axis=1)  # 128 bits, the lower ones first
    if pa.types.is_float64(kind):
        return numbers  # their bits
    return numbers.astype(f"i{kind.bit_width // 8}", copy=False)


def _loops() -> Any:
    """The compiled kernels; None, with a warning, if numba is missing or not importable."""
    try:
        return import_kernels("josefine_arrow.formats.json.kernels")
    except (ImportError, OSError, RuntimeError) as error:
        warnings.warn(f"numba is not usable ({error}): JSON is left to Spark", stacklevel=2)
        return None


def _powers(k: Any) -> Any:
    """The table of powers for `double_of`: for each power of ten, the upper 64 bits of its power of
    five, rounded down, and their left shift plus 1024."""
    found = []
    for power in range(k.POWER_MIN, k.POWER_MAX + 1):
        five = 5 ** abs(power)
        size = five.bit_length()
        shift = 64 - size if power >= 0 else 63 + size
        top = (five << 64 >> size) if power >= 0 else (1 << shift) // five
        found.append((top, shift + 1024))
    return np.array(found, dtype=np.uint64)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])

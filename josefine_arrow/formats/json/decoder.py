"""The decoder of JSON objects into a struct column: each value is decoded or has its reason.

Kernels take the plain values, `value_reader` takes the rest, with the same result. Without numba it
takes all of them.
"""

import warnings
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from josefine_arrow.cache.kernels import import_kernels
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.raw_values import is_json
from josefine_arrow.formats.json.value_reader import ObjectReader
from josefine_arrow.formats.value_by_value import BYTES_MAX, bits, flags, in_slices, with_remaining
from josefine_arrow.schema.times import fixed_offset

ROWS_MAX = 65_536
"""Rows per record batch and per call of the kernel."""

CELLS_MAX = 1 << 22
"""Output words of 8 bytes per call of the kernel. Each row has words for every field, even if a
small value contains few of many fields."""

_WORDS = {
    pa.float64(): "DOUBLE",
    pa.float32(): "FLOAT",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "LOCAL",
    pa.date32(): "DATE",
}
"""The kernels' names of types without bounds."""


class JsonDecoder:
    """Decodes values as objects of one struct type. It has no state of single values.

    The fields' types are those of `schema.names.sql_name`; `pa.json_()` is any JSON, as its text.
    """

    def __init__(self, kind: pa.StructType, options: JsonOptions | None = None) -> None:
        self.type = storage_type(kind)
        """That of the objects."""
        options = options or JsonOptions()
        self._reader = ObjectReader(kind, options)
        self.kernels = loops()
        if self.kernels is not None:
            self._fields = _Fields(kind, options, self.kernels)
            self._powers = _powers(self.kernels)
            self._stack = np.zeros(self.kernels.DEPTH_MAX, dtype=np.int64)

    def appended(self, batch: Any, name: str, reason: str) -> Iterator[Any]:
        """The record batch with the objects of its column `value` as the column `name` and the
        reasons as the last column, in one or more pieces."""
        fields, size = (pa.field(name, self.type), pa.field(reason, pa.string())), self.rows_max
        for at in range(0, batch.num_rows, size):
            part = batch.slice(at, size)
            for field, column in zip(fields, self._decode(part.column("value")), strict=True):
                part = part.append_column(field, column)
            yield part

    def decode(self, values: Any) -> tuple[Any, Any]:
        """(one object per binary value, the reasons). Exactly one of the two is null for a value,
        both for null."""
        return in_slices(values, self.rows_max, self._decode, self.type)

    @property
    def rows_max(self) -> int:
        """Rows of one call, as many as the output of so many fields may have."""
        if self.kernels is None:
            return ROWS_MAX
        cells = self._fields.words + self._fields.texts * self.kernels.SPAN_ROWS
        return int(max(1, min(ROWS_MAX, CELLS_MAX // max(1, cells))))

    def _decode(self, values: Any) -> tuple[Any, Any]:
        plain = None if self.kernels is None or not len(values) else self.plain(values)
        return with_remaining(plain, values, self._reader.read, self.type)

    def plain(self, values: Any) -> Any:
        """The objects that the kernels decode, null for the other values. Needs numba."""
        k, fields, rows = self.kernels, self._fields, len(values)
        valid, ends, data = values.buffers()
        data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        ends = np.frombuffer(ends, np.int32)[values.offset : values.offset + rows + 1]
        given = np.ones(rows, np.uint8)
        if valid is not None:
            given = bits(valid, values.offset, rows)
        out = _Out(fields, rows, k)
        fields.table[:, k.SEEN] = -1  # no row has had a field yet
        schema = (fields.table, fields.names, self._powers)
        table, names, powers = (address(each) for each in schema)
        k.parse(
            address(data),
            address(ends),
            address(given),
            rows,
            (table, len(fields.table), names, powers),
            address(self._stack),
            (address(out.words), address(out.spans), address(out.taken)),
        )
        return _Columns(k, data, out, fields).objects(self.type)


class _Fields:
    """The schema in the kernels' form: a table with a row per field, and the names."""

    def __init__(self, kind: pa.StructType, options: JsonOptions, k: Any) -> None:
        self.raw: dict[int, _Elements | _Texts] = {}
        """The decoders of the fields that the kernels leave as text, by their rows in the table."""
        self._options = options
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
        for at, (row, (_, each), name, start, inside) in enumerate(
            zip(self.table, found, names, starts, children, strict=False)
        ):
            row[[k.CHILD, k.CHILDREN]] = inside
            row[[k.NAME, k.NAME_SIZE]] = start, len(name)
            self._type_of(at, row, each, k)
        self.names = np.frombuffer(b"".join(names), np.uint8)

    def _type_of(self, at: int, row: Any, kind: Any, k: Any) -> None:
        if pa.types.is_struct(kind):
            row[[k.KIND, k.STRICT]] = k.STRUCT, self._options.strict
        elif pa.types.is_string(kind):
            row[[k.KIND, k.SLOT]] = k.STRING, self._next_text()
        elif pa.types.is_decimal128(kind):
            limit = min(10**kind.precision, 1 << 63) - 1  # more is left to `value_reader`
            row[[k.KIND, k.LOW, k.HIGH, k.SCALE]] = k.DECIMAL, -limit, limit, kind.scale
            row[k.SLOT] = self._next_word()
        elif pa.types.is_signed_integer(kind):
            limit = 1 << (kind.bit_width - 1)
            row[[k.KIND, k.LOW, k.HIGH]] = k.INTEGER, -limit, limit - 1
            row[k.SLOT] = self._next_word()
        elif kind in _WORDS:
            row[[k.KIND, k.SLOT]] = getattr(k, _WORDS[kind]), self._next_word()
            offset = fixed_offset(self._options.time_zone)
            if offset is not None and offset % 60 == 0:
                row[[k.LOW, k.SCALE]] = 1, offset // 60
        else:
            row[[k.KIND, k.SLOT]] = k.RAW, self._next_text()
            is_nested = pa.types.is_list(kind) or pa.types.is_map(kind)
            self.raw[at] = (_Elements if is_nested else _Texts)(kind, self._options)

    def _next_word(self) -> int:
        self.words += 1
        return self.words - 1

    def _next_text(self) -> int:
        self.texts += 1
        return self.texts - 1


class _Texts:
    """Decodes values of a type that the kernels do not have, one by one."""

    def __init__(self, kind: pa.DataType, options: JsonOptions) -> None:
        self._type = storage_type(kind)
        self._read = ObjectReader(pa.struct([("", kind)]), options).read

    def decode(self, texts: Any, given: Any) -> tuple[Any, list[int]]:
        """(the values, the rows that do not fit) of the texts in these rows; null elsewhere."""
        found: list[Any] = [None] * len(texts)
        wrong = []
        for row in np.flatnonzero(given).tolist():
            value, _ = self._read(b'{"":%b}' % texts[row].as_buffer().to_pybytes())
            if value is None:
                wrong.append(row)
            else:
                found[row] = value.get("")
        return pa.array(found, self._type), wrong


class _Elements:
    """Decodes arrays and maps by their elements, each an object of its own."""

    def __init__(self, kind: pa.DataType, options: JsonOptions) -> None:
        self._type = storage_type(kind)
        self._is_map = pa.types.is_map(kind)
        if self._is_map:
            inside = pa.struct([("k", pa.string()), ("v", kind.item_type)])
        else:
            inside = pa.struct([("", kind.value_type)])
        self._decoder = JsonDecoder(inside, options)

    def decode(self, texts: Any, given: Any) -> tuple[Any, list[int]]:
        """(the values, the rows that do not fit) of the texts in these rows; null elsewhere."""
        split = self._split(texts)
        if split is None:  # `value_reader` takes these rows
            return pa.nulls(len(texts), self._type), np.flatnonzero(given).tolist()
        elements, ends = split
        objects, reasons = self._decoder.decode(elements)
        rows = np.repeat(np.arange(len(texts)), np.diff(ends))
        wrong = set(rows[flags(reasons.is_valid())].tolist())
        children = [objects.field(at) for at in range(objects.type.num_fields)]
        if self._is_map:
            wrong |= _rows_with_a_key_twice(rows, children[0], len(texts))
            # A key is null only in a row that does not fit; Arrow has no map with one.
            keys = children[0].fill_null("")
            entry = pa.struct([pa.field("key", pa.string(), nullable=False), self._type.item_field])
            children = [pa.StructArray.from_arrays([keys, children[1]], fields=list(entry))]
        buffers = [pa.py_buffer(np.packbits(given, bitorder="little")), pa.py_buffer(ends)]
        column = pa.Array.from_buffers(self._type, len(texts), buffers, children=children)
        return column, sorted(wrong)

    def _split(self, texts: Any) -> tuple[Any, Any] | None:
        """(one object for each element, the rows' ends among them); None if they are too large."""
        k, rows = self._decoder.kernels, len(texts)
        _, ends, data = texts.buffers()
        ends, data = np.frombuffer(ends, np.int32), np.frombuffer(data or b"\0", np.uint8)
        counts = np.zeros(rows + 1, np.int32)
        total = k.count(address(data), address(ends), rows, address(counts[1:]))
        size = int(ends[rows]) + total * k.ADDED_BYTES
        if size > BYTES_MAX:
            return None
        out, out_ends = np.empty(size + 1, np.uint8), np.zeros(total + 1, np.int32)
        split = (address(data), address(ends), rows, self._is_map)
        k.split(*split, address(out), address(out_ends))
        buffers = [None, pa.py_buffer(out_ends), pa.py_buffer(out)]
        elements = pa.Array.from_buffers(pa.binary(), total, buffers)
        return elements, np.cumsum(counts, dtype=np.int32)


def _rows_with_a_key_twice(rows: Any, keys: Any, count: int) -> set[int]:
    """`rows`: the row of each key, in order."""
    if len(keys) == 0:
        return set()
    indices = keys.dictionary_encode(null_encoding="encode").indices
    number = np.frombuffer(indices.buffers()[1], np.int32)[: len(keys)].astype(np.int64)
    each = np.sort(number * count + rows)
    return set((each[1:][each[1:] == each[:-1]] % count).tolist())


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
        self._raw: dict[int, Any] = {}
        """The columns of the fields that the kernels left as text, by field."""

    def objects(self, kind: Any) -> Any:
        """The array of the objects, null where a field that is left as text does not fit."""
        k, out = self._k, self._out
        for at, decoder in self._fields.raw.items():
            slot, rows = int(self._fields.table[at][k.SLOT]), out.taken.shape[1]
            texts = pa.Array.from_buffers(pa.binary(), rows, [None, *self._texts(slot)])
            self._raw[at], wrong = decoder.decode(texts, out.taken[at])
            out.taken[0, wrong] = 0
        return self.column(0, kind)

    def column(self, field: int, kind: Any) -> Any:
        """The array of a field, of this Arrow type."""
        k, rows = self._k, self._out.taken.shape[1]
        if field in self._raw:
            return self._raw[field]
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
        k.gather(address(self._data), address(spans), rows, address(ends), address(texts))
        return pa.py_buffer(ends), pa.py_buffer(texts)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The type of the decoded values: JSON as its text."""
    if is_json(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, storage_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), storage_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(storage_type(kind.value_type))
    return kind


def _as_stored(numbers: Any, kind: Any) -> Any:
    """64-bit integers in Arrow's memory layout of this type."""
    if pa.types.is_boolean(kind):
        return np.packbits(numbers != 0, bitorder="little")
    if pa.types.is_decimal(kind):
        return np.stack([numbers, numbers >> 63], axis=1)  # 128 bits, the lower ones first
    if pa.types.is_float64(kind):
        return numbers  # their bits
    if pa.types.is_float32(kind):
        return numbers.view(np.float64).astype(np.float32)
    return numbers.astype(f"i{kind.bit_width // 8}", copy=False)


def loops(module: str = "josefine_arrow.formats.json.kernels") -> Any:
    """The compiled kernels; None, with a warning, if numba is missing or not importable."""
    try:
        return import_kernels(module)
    except (ImportError, OSError, RuntimeError) as error:
        warnings.warn(
            f"numba is not usable ({error}): values are decoded by Python, slower", stacklevel=3
        )
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


def address(array: Any) -> int:
    """Where an array's memory begins."""
    return int(array.__array_interface__["data"][0])

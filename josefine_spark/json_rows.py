"""The values of a record batch that are JSON objects, as a struct column.

A row is taken only when it is certain what Spark's `from_json` makes of the value, read strictly
(no single quotes, no NaN): the column is null wherever it is not, and there Spark is to be asked.
So `coalesce(json, from_json(value, …))` is what `from_json(value, …)` is. Without numba no row is
taken.
"""

import warnings
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from josefine_spark.decode import import_kernels
from josefine_spark.json_types import COLUMN, INTEGER_BITS

ROWS_MAX = 65_536
"""Of one record batch, and read at a time."""

CELLS_MAX = 1 << 22
"""Words of 8 bytes that are kept of the rows read at a time. Each row has them for each field, also
where a small value names few of many fields."""

_OTHERS: dict[type[DataType], tuple[str, Any]] = {
    DoubleType: ("DOUBLE", pa.float64()),
    BooleanType: ("BOOLEAN", pa.bool_()),
    TimestampType: ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
    DateType: ("DATE", pa.date32()),
}
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def arrow_type(kind: DataType) -> Any:
    """The column's, as PySpark's own conversion has it (a test holds it)."""
    if isinstance(kind, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType)) for each in kind.fields])
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StringType):
        return pa.string()
    bits = INTEGER_BITS.get(type(kind))
    return _INTEGERS[bits] if bits is not None else _OTHERS[type(kind)][1]


class JsonRows:
    """Reads values as objects of one schema, whose types are all readable. Holds only what is the
    same for all of them."""

    def __init__(self, schema: StructType) -> None:
        self._type = arrow_type(schema)
        self._kernels = _loops()
        if self._kernels is not None:
            self._fields = _Fields(schema, self._kernels)
            self._powers = _powers(self._kernels)
            self._stack = np.zeros(self._kernels.DEPTH_MAX, dtype=np.int64)

    def beside(self, batch: Any) -> Iterator[Any]:
        """The record batch with the column behind the others, in as many pieces as it takes."""
        field, size = pa.field(COLUMN, self._type), self._rows_max()
        for at in range(0, batch.num_rows, size):
            part = batch.slice(at, size)
            yield part.append_column(field, self.read(part.column("value")))

    def read(self, values: Any) -> Any:
        """The objects of binary values, as many; null where a row is not taken."""
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
    """The schema as the loops take it: a table with a row for each field, and the names."""

    def __init__(self, schema: StructType, k: Any) -> None:
        found = [StructField(COLUMN, schema)]
        children: list[tuple[int, int]] = []
        for field in found:  # grows meanwhile: level by level, so that siblings are together
            inner = field.dataType.fields if isinstance(field.dataType, StructType) else []
            children.append((len(found), len(inner)))
            found.extend(inner)
        names = [field.name.encode() for field in found]
        self.table = np.zeros((len(found), k.FIELD_COLUMNS), dtype=np.int64)
        self.words = self.texts = 0
        """How many fields are of a fixed size, and how many are text."""
        starts = accumulate((len(name) for name in names), initial=0)
        for row, field, name, start, inside in zip(
            self.table, found, names, starts, children, strict=False
        ):
            row[[k.CHILD, k.CHILDREN]] = inside
            row[[k.NAME, k.NAME_SIZE]] = start, len(name)
            self._type_of(row, field.dataType, k)
        self.names = np.frombuffer(b"".join(names), np.uint8)

    def _type_of(self, row: Any, kind: DataType, k: Any) -> None:
        if isinstance(kind, StructType):
            row[k.KIND] = k.STRUCT
            return
        if isinstance(kind, StringType):
            row[[k.KIND, k.SLOT]] = k.STRING, self.texts
            self.texts += 1
            return
        row[k.SLOT] = self.words
        self.words += 1
        if isinstance(kind, DecimalType):
            limit = 10**kind.precision - 1
            row[[k.KIND, k.LOW, k.HIGH, k.SCALE]] = k.DECIMAL, -limit, limit, kind.scale
        elif type(kind) in INTEGER_BITS:
            limit = 1 << (INTEGER_BITS[type(kind)] - 1)
            row[[k.KIND, k.LOW, k.HIGH]] = k.INTEGER, -limit, limit - 1
        else:
            row[k.KIND] = getattr(k, _OTHERS[type(kind)][0])


class _Out:
    """What the loops fill."""

    def __init__(self, fields: _Fields, rows: int, k: Any) -> None:
        self.words = np.zeros((fields.words, rows), dtype=np.int64)
        self.spans = np.zeros((fields.texts * k.SPAN_ROWS, rows), dtype=np.int64)
        self.taken = np.zeros((len(fields.table), rows), dtype=np.uint8)


class _Columns:
    """Arrow's arrays of what was filled."""

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
    """64-bit integers as Arrow has this type in memory."""
    if pa.types.is_boolean(kind):
        return np.packbits(numbers != 0, bitorder="little")
    if pa.types.is_decimal(kind):
        return np.stack([numbers, numbers >> 63], axis=1)  # 128 bits, the lower ones first
    if pa.types.is_float64(kind):
        return numbers  # their bits
    return numbers.astype(f"i{kind.bit_width // 8}", copy=False)


def _loops() -> Any:
    """The compiled loops; None, told, where numba is missing or will not import."""
    try:
        return import_kernels("json_kernels")
    except (ImportError, OSError, RuntimeError) as error:
        warnings.warn(f"numba is not usable ({error}): JSON is left to Spark", stacklevel=2)
        return None


def _powers(k: Any) -> Any:
    """Of each power of ten that `double_of` knows the upper 64 bits of its power of five, rounded
    down, and by how much they are shifted up, 1024 more."""
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

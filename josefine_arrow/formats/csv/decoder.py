"""The decoder of CSV lines into a struct column: each line is decoded or has its reason.

Plain lines become JSON objects, which the kernels of JSON decode; `line_reader` takes the rest,
with the same result. Without numba it takes all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.formats.csv.line_reader import LineReader
from josefine_arrow.formats.json.decoder import JsonDecoder, address, loops
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.value_by_value import BYTES_MAX, in_slices, with_remaining


class CsvDecoder:
    """Decodes lines of one schema. It has no state of single lines."""

    def __init__(
        self, kind: pa.StructType, options: JsonOptions | None = None, separator: str = ","
    ) -> None:
        """`separator`: one character; the kernels take those of ASCII."""
        self.type = kind
        options = options or JsonOptions()
        self._read = LineReader(kind, options, separator).read
        self._separator = ord(separator)
        self.kernels = loops("josefine_arrow.formats.csv.kernels")
        if self.kernels is not None:
            named = pa.struct([(str(at), each.type) for at, each in enumerate(kind)])
            self._json = JsonDecoder(named, JsonOptions(time_zone=options.time_zone))
            self._kinds = np.array([_kind(each.type, self.kernels) for each in kind], np.uint8)

    def decode(self, values: Any) -> tuple[Any, Any]:
        """(one object per binary value, the reasons). Exactly one of the two is null for a value,
        both for null."""
        size = self._json.rows_max if self.kernels is not None else len(values)
        return in_slices(values, size, self._decode, self.type)

    def _decode(self, values: Any) -> tuple[Any, Any]:
        plain = None if self.kernels is None else self.plain(values)
        return with_remaining(plain, values, self._read, self.type)

    def plain(self, values: Any) -> Any:
        """The lines that the kernels decode, null for the others; None if they decode none."""
        k, rows, fields = self.kernels, len(values), len(self._kinds)
        _, ends, data = values.buffers()
        if rows == 0 or data is None or fields > k.FIELDS_MAX or self._separator > 127:
            return None
        data = np.frombuffer(data, np.uint8)
        ends = np.frombuffer(ends, np.int32)[values.offset : values.offset + rows + 1]
        size = int(ends[-1] - ends[0]) + rows * (2 + fields * k.ADDED_BYTES)
        if size > BYTES_MAX:
            return None
        out, out_ends = np.empty(size, np.uint8), np.zeros(rows + 1, np.int32)
        line = (address(data), address(ends), rows, self._separator, address(self._kinds), fields)
        k.to_objects(*line, address(out), address(out_ends))
        texts = [None, pa.py_buffer(out_ends), pa.py_buffer(out)]
        objects = self._json.plain(pa.Array.from_buffers(pa.binary(), rows, texts))
        children = [objects.field(at) for at in range(fields)]
        return pa.StructArray.from_arrays(
            children, fields=list(self.type), mask=pc.is_null(objects)
        )


def _kind(kind: pa.DataType, k: Any) -> int:
    if pa.types.is_boolean(kind):
        return int(k.BOOLEAN)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return int(k.NUMBER if is_number else k.TEXT)

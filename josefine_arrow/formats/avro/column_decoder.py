"""Decoder of a column of Avro records into a struct column: each has a value or its reason.

Records of plain types are read field by field, all records of a schema at once. `Decoder` takes the
rest one by one, with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from josefine_arrow.formats.avro.column_reader import ReadColumn
from josefine_arrow.formats.avro.cursor import Cursor
from josefine_arrow.formats.avro.decoder import Decoder
from josefine_arrow.formats.confluent.framing import HEADER_BYTES
from josefine_arrow.formats.value_by_value import bits, in_slices, with_remaining

ROWS_MAX = 65_536
"""Records of one call, which bounds the arrays of positions."""
SCHEMAS_MAX = 4
"""Schemas in one call: records of more are read one by one."""
ROWS_MIN = 16
"""Below so many records of a schema one by one is faster."""


class ColumnDecoder:
    """Decodes columns. `kind`: the records' type; `is_framed`: they have a registry's frame."""

    def __init__(self, decoder: Decoder, kind: pa.StructType, *, is_framed: bool) -> None:
        self.type = kind
        self._decoder, self._is_framed = decoder, is_framed

    def decode(self, values: Any) -> tuple[Any, Any]:
        """(one record per binary value, the reasons). Exactly one of the two is null for a value,
        both for null. Raises RegistryError."""
        return in_slices(values, ROWS_MAX, self._decode, self.type)

    def _decode(self, values: Any) -> tuple[Any, Any]:
        plain = self.plain(values) if len(values) >= ROWS_MIN else None
        return with_remaining(plain, values, self._decoder, self.type)

    def plain(self, values: Any) -> Any:
        """The records that are read at once, null for the others; None: none of them is. Raises
        RegistryError."""
        valid, ends, data = values.buffers()
        if data is None or not data.size:
            return None
        ends = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1]
        data = np.frombuffer(data, np.uint8)
        start, end = ends[:-1].astype(np.int64), ends[1:].astype(np.int64)
        given = np.ones(len(values), bool)
        if valid is not None:
            given = bits(valid, values.offset, len(values)).astype(bool)
        if not self._is_framed:
            rows = np.flatnonzero(given)
            return self._joined([self._part(None, rows, data, start, end)], len(values))
        # The frame: a zero byte and the schema's id, big-endian.
        given &= end - start >= HEADER_BYTES
        given[given] = data[start[given]] == 0
        rows = np.flatnonzero(given)
        numbers = np.zeros(len(rows), np.int64)
        for at in range(1, HEADER_BYTES):
            numbers = (numbers << 8) | data[start[rows] + at]
        known, counts = np.unique(numbers, return_counts=True)
        if len(known) > SCHEMAS_MAX:
            return None
        parts = [
            self._part(int(number), rows[numbers == number], data, start + HEADER_BYTES, end)
            for number, count in zip(known, counts, strict=True)
            if count >= ROWS_MIN
        ]
        return self._joined(parts, len(values))

    def _part(
        self, number: int | None, rows: Any, data: Any, start: Any, end: Any
    ) -> tuple[Any, Any] | None:
        """(the records that were read, their rows) of one schema; None: none."""
        read: ReadColumn | None = self._decoder.columns_by(number)
        if read is None or not len(rows):
            return None
        cursor = Cursor(data, start[rows], end[rows])
        found = read(cursor)
        good = cursor.good & (cursor.at == cursor.end)
        if good.all():
            return found, rows
        kept = np.flatnonzero(good)
        return found.take(pa.array(kept)), rows[kept]

    def _joined(self, parts: list[tuple[Any, Any] | None], count: int) -> Any:
        """The records of all parts in their rows, null elsewhere."""
        found = [each for each in parts if each is not None and len(each[1])]
        if not found:
            return None
        if len(found) == 1 and len(found[0][1]) == count:
            return found[0][0]
        places, is_there = np.zeros(count, np.int64), np.zeros(count, bool)
        places[np.concatenate([rows for _, rows in found])] = np.arange(
            sum(len(rows) for _, rows in found)
        )
        for _, rows in found:
            is_there[rows] = True
        records = pa.concat_arrays([each for each, _ in found])
        return records.take(pa.array(places, mask=~is_there))

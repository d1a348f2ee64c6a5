"""The columns of a table topic, and of its dead letters, from decoded record batches.

They are those of a pipeline with the same format, so that `pipeline run` can take the table over:
raw has the columns of a source without `decode` (with headers), json those of
`select value.*, timestamp as _time, topic as _topic, partition as _partition, offset as _offset`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.batches.columns import HEADERS_FIELD, arrow_schema
from josefine_arrow.formats.json.decoder import JsonDecoder
from josefine_arrow.schema.ddl_types import DdlError, struct_of
from josefine_lake.config.table_topic import Format, TableTopic

UTC = pa.timestamp("us", tz="UTC")
RECORD_FIELDS = (
    pa.field("_time", UTC),
    pa.field("_topic", pa.string()),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
)
_OF_RECORD = ("timestamp", "topic", "partition", "offset")
LETTERS_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", UTC),
        pa.field("reason", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        HEADERS_FIELD,
        pa.field("stage", pa.string()),
    ]
)
"""The columns of pipelines' dead-letter tables (`pipelines/formats/decode.py`)."""
NULL_VALUE = "the value is null"


class Columns:
    """Rows of one table: good ones in `schema`, the others as dead letters."""

    def __init__(self, table: TableTopic) -> None:
        """Raises ValueError for a schema that cannot be written."""
        self._decoder: JsonDecoder | None = None
        self._source = table.chain.sink
        self.schema: pa.Schema = arrow_schema(include_headers=True)
        self.offset_name = "offset"
        if table.format is Format.JSON:
            kind = _values_of(table.schema)
            self._decoder = JsonDecoder(kind)
            self.schema = pa.schema([*self._decoder.type, *RECORD_FIELDS])
            self.offset_name = "_offset"

    def rows(self, records: Any) -> tuple[Any, Any]:
        """(the good rows, the dead letters or None) of a record batch of the topic."""
        if self._decoder is None:
            return records, None
        values = records.column("value")
        objects, reasons = self._decoder.decode(values)
        letters = None
        if objects.null_count:
            good = objects.is_valid()
            letters = self._letters(records, reasons, pc.invert(good))
            objects, records = objects.filter(good), records.filter(good)
        columns = [*objects.flatten(), *(records.column(name) for name in _OF_RECORD)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), letters

    def _letters(self, records: Any, reasons: Any, bad: Any) -> Any:
        records, reasons = records.filter(bad), reasons.filter(bad)
        rows = records.num_rows
        columns = {
            "source": pa.repeat(pa.scalar(self._source, pa.string()), rows),
            "reason": reasons.fill_null(NULL_VALUE),
            "stage": pa.repeat(pa.scalar("decode", pa.string()), rows),
        }
        names = LETTERS_SCHEMA.names
        found = [columns[n] if n in columns else records.column(n) for n in names]
        return pa.RecordBatch.from_arrays(found, schema=LETTERS_SCHEMA)


def not_below(letters: Any, skip_below: dict[int, int]) -> Any:
    """The dead letters at or above the offset of their partition in `skip_below`."""
    keep = np.ones(letters.num_rows, dtype=bool)
    for partition, offset in skip_below.items():
        same = pc.equal(letters.column("partition"), partition)
        below = pc.less(letters.column("offset"), offset)
        keep &= ~np.array(pc.and_(same, below).to_pylist(), dtype=bool)
    return letters.filter(pa.array(keep))


def _values_of(ddl: str) -> pa.StructType:
    """The struct of a value. Raises ValueError."""
    try:
        kind = struct_of(ddl)
    except DdlError as error:
        raise ValueError(f"'josefine.table.schema': {error}") from error
    own = {field.name for field in RECORD_FIELDS}
    taken = next((each.name for each in kind if each.name.lower() in own), None)
    if taken is not None:
        raise ValueError(f"'josefine.table.schema': {taken} is a column of every table topic")
    for field in kind:
        if _has(field.type, (pa.json_(), pa.null())):
            raise ValueError(
                f"'josefine.table.schema': the table writer does not write the type of {field.name}"
                " yet; use STRING"
            )
    return kind


def _has(kind: pa.DataType, wanted: tuple[pa.DataType, ...]) -> bool:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return kind in wanted or any(_has(each, wanted) for each in inside)

"""The columns of a table topic, and of its dead letters, from decoded record batches.

They are those of a pipeline with the same format, so that `pipeline run` can take the table over:
raw has the columns of a source without `decode` (with headers), json, avro and protobuf those of
`select value.*, timestamp as _time, topic as _topic, partition as _partition, offset as _offset`,
debezium those of `select value.row.*, ...`, with `value.op as _op, value.deleted as _deleted` if
changes are appended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema

from josefine_arrow.batches.columns import HEADERS_FIELD, arrow_schema
from josefine_arrow.formats.value_by_value import flags
from josefine_lake.config.table_topic import Format, Mode, TableTopic
from josefine_lake.formats.dates import TOO_FAR, has_dates, too_far
from josefine_lake.formats.keys import NULL_KEY, Keys, key_type
from josefine_lake.formats.values import Decoded, Values
from josefine_lake.writer.changes import DELETED
from josefine_lake.writer.evolution import fields_of
from pipelines.model.schema_evolution import fields_of as inner_fields
from pipelines.model.table_columns import types_of

UTC = pa.timestamp("us", tz="UTC")
RECORD_FIELDS = (
    pa.field("_time", UTC),
    pa.field("_topic", pa.string()),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
)
OPERATION_FIELDS = (pa.field("_op", pa.string()), pa.field("_deleted", pa.bool_()))
"""Of appended changes: Debezium's operation, and whether it deleted the row."""
_OF_RECORD = ("timestamp", "topic", "partition", "offset")
TABLE_SCHEMA = arrow_schema(include_headers=True)
"""Of format raw."""
ARCHIVE_SCHEMA = arrow_schema(True, [*TABLE_SCHEMA.names, "leader_epoch"])
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
NO_KEY = "a record without key is of no row"


class Columns:
    """Rows of one table: good ones as files take them, the others as dead letters.

    `schema`: the table's columns. In mode upsert the rows of a file have the flag DELETED too."""

    def __init__(self, table: TableTopic, values: Values | None, env: Mapping[str, str]) -> None:
        """Raises ValueError for a schema that cannot be written."""
        self._values = values
        self._source = table.chain.sink
        self._keys: Keys | None = None
        self._upserts = table.mode is Mode.UPSERT
        self.schema: pa.Schema = ARCHIVE_SCHEMA if table.is_archive else TABLE_SCHEMA
        if values is not None:
            has_operations = values.has_operations and not self._upserts
            more = (*(OPERATION_FIELDS if has_operations else ()), *RECORD_FIELDS)
            _refuse_own(values, {DELETED, *(field.name for field in more)})
            self.schema = pa.schema([*values.type, *more])
        if self._upserts:
            # Not the record's own columns: a tombstone's key does not have them.
            of_row = pa.struct(list(self.schema)) if values is None else values.type
            kind = key_type(table, of_row)
            self._keys = None if values is None else Keys(table, kind, env)
        self._key_names = table.keys
        self._has_dates = values is not None and has_dates(values.type)
        self._file_schema = self.schema
        if self._upserts:
            self._file_schema = self.schema.append(pa.field(DELETED, pa.bool_()))

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of `rows`: `schema`, in mode upsert with the flag DELETED."""
        return self._file_schema

    @property
    def facts(self) -> dict[str, Any]:
        """The metadata of a commit about its columns, as a pipeline's commit has them."""
        kinds = types_of(fields_of(Schema.from_arrow(self.schema)))
        inside = inner_fields(kinds)
        return {"columns": [*kinds], **({"fields": inside} if inside else {})}

    def rows(self, records: Any) -> tuple[Any, Any]:
        """(the good rows, the dead letters or None) of a record batch of the topic. Raises OSError,
        NewerSchemaError for a registry."""
        if self._values is None:
            return self._raw(records)
        values = records.column("value")
        decoded = self._values.decode(values)
        objects, reasons, deleted = decoded.rows, decoded.reasons, decoded.deleted
        left_out = None
        if self._keys is not None:
            objects, reasons, deleted = self._keyed(self._keys, records, decoded)
        elif self._values.has_operations and values.null_count:
            # A tombstone follows Debezium's delete, for the log's compaction.
            left_out = values.is_null()
        if self._has_dates and (far := too_far(objects)) is not None:
            objects, reasons = _without(objects, far), pc.if_else(far, TOO_FAR, reasons)
        ops, letters = decoded.ops, None
        if objects.null_count:
            good = objects.is_valid()
            bad = pc.invert(good) if left_out is None else pc.and_not(pc.invert(good), left_out)
            letters = self._letters(records, reasons, bad) if pc.any(bad).as_py() else None
            objects, records = objects.filter(good), records.filter(good)
            deleted = None if deleted is None else deleted.filter(good)
            ops = None if ops is None else ops.filter(good)
        columns = objects.flatten()
        if self._values.has_operations and not self._upserts:
            columns += [ops, deleted]
        columns += [records.column(name) for name in _OF_RECORD]
        if self._upserts:
            columns.append(deleted)
        return pa.RecordBatch.from_arrays(columns, schema=self._file_schema), letters

    def _raw(self, records: Any) -> tuple[Any, Any]:
        if not self._upserts:
            return records, None
        letters, keys = None, records.column("key")
        if keys.null_count:
            reasons = pa.nulls(len(keys), pa.string()).fill_null(NO_KEY)
            letters = self._letters(records, reasons, keys.is_null())
            records = records.filter(keys.is_valid())
        columns = [*records.columns, records.column("value").is_null()]
        return pa.RecordBatch.from_arrays(columns, schema=self._file_schema), letters

    def _keyed(self, keys: Keys, records: Any, decoded: Decoded) -> tuple[Any, Any, Any]:
        """(rows, reasons, whether each deletes its row): a row without its key is bad, and a
        tombstone has the key alone."""
        rows, reasons, deleted = decoded.rows, decoded.reasons, decoded.deleted
        if deleted is None:
            deleted = pa.array(np.zeros(len(rows), bool))
        columns = dict(zip([field.name for field in rows.type], rows.flatten(), strict=True))
        for name in self._key_names:
            if not columns[name].null_count:
                continue
            missing = pc.and_(rows.is_valid(), columns[name].is_null())
            if pc.any(missing).as_py():
                reasons = pc.if_else(missing, f"the key column {name} is null", reasons)
                rows = _without(rows, missing)
        tombstones = records.column("value").is_null()
        if not pc.any(tombstones).as_py():
            return rows, reasons, deleted
        # A tombstone's row has the columns of its key, and null in all others.
        places = np.flatnonzero(flags(tombstones))
        found, why = keys.decode(records.column("key").filter(tombstones))
        parts = dict(zip(self._key_names, found.flatten(), strict=True))
        alone = pa.StructArray.from_arrays(
            [parts.get(f.name, pa.nulls(len(found), f.type)) for f in rows.type],
            fields=list(rows.type),
            mask=found.is_null(),
        )
        why = pc.if_else(pc.and_(why.is_null(), found.is_null()), NULL_KEY, why)
        where = np.arange(len(rows))
        where[places] = len(rows) + np.arange(len(places))
        where = pa.array(where)
        rows = pa.concat_arrays([rows, alone]).take(where)
        reasons = pa.concat_arrays([reasons, why]).take(where)
        return rows, reasons, pc.if_else(tombstones, True, deleted)

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


def order_of(table: TableTopic) -> tuple[str, str]:
    """The columns of offset and partition, by which changes of a key are compared."""
    return ("offset", "partition") if table.format is Format.RAW else ("_offset", "_partition")


def not_below(letters: Any, skip_below: dict[int, int]) -> Any:
    """The dead letters at or above the offset of their partition in `skip_below`."""
    keep = np.ones(letters.num_rows, dtype=bool)
    for partition, offset in skip_below.items():
        same = pc.equal(letters.column("partition"), partition)
        below = pc.less(letters.column("offset"), offset)
        keep &= ~np.array(pc.and_(same, below).to_pylist(), dtype=bool)
    return letters.filter(pa.array(keep))


def _without(rows: Any, which: Any) -> Any:
    """Rows with null where `which` is true."""
    where = np.arange(len(rows))
    where[flags(which)] = len(rows)
    return pa.concat_arrays([rows, pa.nulls(1, rows.type)]).take(pa.array(where))


def _refuse_own(values: Values, own: Collection[str]) -> None:
    """Raises ValueError for columns that a table of a topic cannot have."""
    taken = next((each.name for each in values.type if each.name.lower() in own), None)
    if taken is not None:
        raise ValueError(f"'josefine.table.schema': {taken} is a column of every table topic")

"""Preview of a source without Spark: its records as the connector would decode them.

None where only Spark can: checks on the source, formats that `consume --decode` does not read,
`committed_only`. Rows and types are written as Spark writes them, so that a caller sees no
difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pipelines.base.errors import RunError
from pipelines.inspect.preview import Preview
from pipelines.model.pipeline import Decode, Format, OnError, Pipeline, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from josefine_cli.kafka.decode import Read
    from pipelines.sources.local_records import Row

NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
KINDS = ("binary", "binary", "string", "int", "bigint", "timestamp", "int")
HEADERS = "array<struct<key:string,value:binary>>"


def preview_of_source(pipeline: Pipeline, node: str, rows: int, records: int) -> Preview | None:
    """`rows` rows at most, of `records` records of each partition; None: use Spark. Raises
    PipelineError."""
    source = pipeline.sources.get(node)
    if source is None or node in pipeline.sinks or not _is_plain(pipeline, source):
        return None
    from pipelines.sources.newest_records import newest_rows

    try:
        found = sorted(newest_rows(source, records), key=lambda row: (row[2], row[3], row[4]))
    except RunError:
        return None  # a damaged batch: the connector makes rows of it, or names it
    zone = pipeline.conf.get("spark.sql.session.timeZone", "UTC")
    sides = {
        name: _Side(name, how, zone)
        for name, how in (("key", source.decode_key), ("value", source.decode))
    }
    shown: list[dict[str, Any]] = []
    bad = Counter[str]()
    for row in found:
        read = _row(row, sides, zone)
        if isinstance(read, str):
            bad[read] += 1
        elif read is not None and len(shown) < rows:
            shown.append(read)
    kinds = dict(zip(NAMES, (*KINDS, HEADERS) if source.headers else KINDS, strict=False))
    columns = {**kinds, **{name: side.kind for name, side in sides.items() if side.kind}}
    return Preview(node=node, columns=columns, rows=tuple(shown), bad=dict(sorted(bad.items())))


def _is_plain(pipeline: Pipeline, source: Source) -> bool:
    if source.committed_only or any(each.on == source.name for each in pipeline.checks.values()):
        return False
    from josefine_cli.kafka.decode import reads_section

    return all(
        how is None or how.format is Format.STRING or reads_section(how)
        for how in (source.decode, source.decode_key)
    )


class _Side:
    """The decoder of keys or values. `kind`: the column's type; "" for bytes."""

    def __init__(self, name: str, how: Decode | None, zone: str) -> None:
        self._name, self._how, self._zone = name, how, zone
        self._type: pa.DataType | None = None
        self._read: Read | None = None
        self.kind = "string" if how else "binary"
        if how is not None and how.format is not Format.STRING:
            from josefine_arrow.schema.ddl_types import struct_of
            from josefine_cli.kafka.decode import section_reader

            self._type = struct_of(how.schema.text)
            self.kind = simple_name(self._type)
            self._read = section_reader(how, zone)

    def value(self, data: bytes | None) -> tuple[Any, str | None, bool]:
        """(value, reason, whether the record is left out)."""
        how = self._how
        if data is None:
            is_good = how is None or how.tombstones or self._name == "key"
            reason = None if is_good else f"the {self._name} is null"
        elif how is None:
            return data.decode(errors="replace"), None, False
        elif self._read is None or self._type is None:
            value, reason = _text(data)
            return self._settled(value, reason)
        else:
            text, reason = self._read(data)
            if text is None and reason is None:
                return None, None, True  # a record of another type
            value = None if text is None else as_spark_writes(json.loads(text), self._type)
            return self._settled(value, reason)
        return self._settled(None, reason)

    def _settled(self, value: Any, reason: str | None) -> tuple[Any, str | None, bool]:
        if reason is None or (self._how is not None and self._how.on_error is OnError.NULL):
            return value, None, False
        return None, f"key: {reason}" if self._name == "key" else reason, False


def _text(data: bytes) -> tuple[str | None, str | None]:
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, "not UTF-8 text"


def _row(row: Row, sides: Mapping[str, _Side], zone: str) -> dict[str, Any] | str | None:
    """A record as a row, or the reason why it is bad; None: it makes no row."""
    found: dict[str, Any] = dict(zip(NAMES, row, strict=False))
    reasons = []
    for name in ("value", "key"):
        found[name], reason, is_skipped = sides[name].value(found[name])
        if is_skipped:
            return None
        if reason is not None:
            reasons.append(reason)
    if reasons:
        return "; ".join(reasons)
    found["timestamp"] = _time(found["timestamp"].astimezone(ZoneInfo(zone)))
    return found | ({"headers": _headers(found["headers"])} if "headers" in found else {})


def _headers(headers: list[tuple[str, bytes | None]]) -> list[dict[str, str | None]]:
    import base64

    return [
        {"key": name, "value": None if value is None else base64.b64encode(value).decode()}
        for name, value in headers
    ]


def _time(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_spark_writes(value: Any, kind: pa.DataType) -> Any:
    """A value of `json_text` with times of six decimals, as the options of `to_json` ask for."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: as_spark_writes(value[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {name: as_spark_writes(each, kind.item_type) for name, each in value.items()}
    if pa.types.is_list(kind):
        return [as_spark_writes(each, kind.value_type) for each in value]
    if pa.types.is_timestamp(kind):
        return _time(datetime.fromisoformat(value))
    return value


def simple_name(kind: pa.DataType) -> str:
    """A type as Spark's `simpleString` has it: `struct<id:bigint>`."""
    import pyarrow as pa

    from josefine_arrow.schema.names import sql_name

    if pa.types.is_map(kind):
        return f"map<{simple_name(kind.key_type)},{simple_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{simple_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{each.name}:{simple_name(each.type)}' for each in kind)}>"
    return sql_name(kind).lower()

"""The topic configs of table topics: a topic with a location has a Delta table of its records.

The broker checks, stores and describes them; the table writer (`josefine tables run`) reads them
with DescribeConfigs and acts on them. Values that the writer cannot serve yet are refused here, so
that a topic never has a table other than the one its configs describe.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from josefine_broker.engine.metadata.config_texts import (
    Check,
    ConfigType,
    Value,
    at_least,
    between,
)

MIB = 1 << 20
TARGET_LAG_MS = 30_000
TARGET_FILE_BYTES = 128 * MIB
DEAD_LETTER_FAIL = "fail"
FORMATS = ("raw", "json")
"""The formats that the table writer decodes."""
_LATER_FORMATS = ("avro", "debezium", "protobuf")
_PIPELINE = "a pipeline can decode it (`josefine pipeline run`)"
_PLACE = re.compile(r"/.*[^/]|[a-z][a-z0-9]*://[^/]+/.*[^/]", re.DOTALL)
_OPEN, _CLOSE = "<(", ">)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The table of one topic."""

    location: str = ""
    """Path or URI of the table; empty: the topic has none."""
    format: str = "raw"
    schema: str = ""
    """Columns of the values, in Spark's DDL."""
    mode: str = "append"
    dead_letter: str = ""
    """Path or URI of the dead-letter table, or `fail`; empty: next to the table."""
    target_lag_ms: int = TARGET_LAG_MS
    target_file_bytes: int = TARGET_FILE_BYTES


class TableKey(NamedTuple):
    """One config: its name, type, field of TableSettings, validator and meaning."""

    name: str
    type: ConfigType
    attribute: str
    check: Check
    meaning: str


def _place(value: Value) -> None:
    """An absolute path or a URI: the writer's working directory is not the user's."""
    text = str(value)
    if text and not _PLACE.fullmatch(text):
        raise ValueError(
            "must be an absolute path or a URI, as in /lake/orders or s3://lake/orders"
        )


def _letters(value: Value) -> None:
    """`fail`, a place, or nothing."""
    if value != DEAD_LETTER_FAIL:
        try:
            _place(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {DEAD_LETTER_FAIL}") from None


def _format(value: Value) -> None:
    if value in _LATER_FORMATS:
        raise ValueError(f"the table writer does not decode {value} yet; {_PIPELINE}")
    if value not in FORMATS:
        raise ValueError(f"must be {' or '.join(FORMATS)}")


def _mode(value: Value) -> None:
    if value == "upsert":
        raise ValueError("the table writer only appends yet; a pipeline's sink can upsert")
    if value != "append":
        raise ValueError("must be append")


def _columns(value: Value) -> None:
    """Brackets that match, and a name and a type in each column. The table writer, which has the
    decoders, checks the types; it stops that table alone if one of them is unknown."""
    depth, column, text = 0, "", str(value)
    for letter in text + ("," if text else ""):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth < 0:
            raise ValueError(f"the bracket {letter} closes nothing")
        if letter != "," or depth:
            column += letter
            continue
        if len(column.split(maxsplit=1)) < 2:
            what = column.strip() or "nothing"
            raise ValueError(
                f"expected columns as in `id BIGINT, name STRING`, found `{what}` without a type"
            )
        column = ""
    if depth:
        raise ValueError("a bracket is not closed")


_STRING, _LONG = ConfigType.STRING, ConfigType.LONG

TABLE_KEYS: tuple[TableKey, ...] = (
    TableKey("josefine.table.location", _STRING, "location", _place,
        "Path or URI of the Delta table that `josefine tables run` keeps of this topic; empty:"
        " the topic has none."),
    TableKey("josefine.table.format", _STRING, "format", _format,
        "How a value becomes columns: raw (bytes, as they are) or json (by"
        " `josefine.table.schema`)."),
    TableKey("josefine.table.schema", _STRING, "schema", _columns,
        "Columns of the values, in Spark's DDL: `id BIGINT, tags ARRAY<STRING>`."),
    TableKey("josefine.table.mode", _STRING, "mode", _mode,
        "How records change the table; only append is served."),
    TableKey("josefine.table.dead.letter", _STRING, "dead_letter", _letters,
        "Table of the records that do not decode, or fail: they stop this table. Empty: the"
        " table's location with `_dead_letter` added."),
    TableKey("josefine.table.target.lag.ms", _LONG, "target_lag_ms", between(100, 86_400_000),
        "Largest time from the read of a record to the commit that has it."),
    TableKey("josefine.table.target.file.bytes", _LONG, "target_file_bytes", at_least(MIB),
        "Size of a data file after which it is committed before that time."),
)  # fmt: skip
"""One row per config."""

LATER: Mapping[str, str] = {
    "josefine.table.keys": "the table writer only appends yet: a pipeline's sink can upsert",
    "josefine.table.local.retention.max.bytes": "retention does not wait for the table yet",
}
"""Configs of table topics that are refused until they take effect, and why."""


def contradiction(table: TableSettings) -> str:
    """Why these settings cannot be together; empty if they can."""
    if table.format == "json" and not table.schema:
        return "'josefine.table.format' json needs 'josefine.table.schema', the columns of a value"
    if table.schema and table.format == "raw":
        return "'josefine.table.schema' has no effect with 'josefine.table.format' raw: set json"
    if table.location and table.location == table.dead_letter:
        return "'josefine.table.dead.letter' is the table's own location: choose another"
    return ""

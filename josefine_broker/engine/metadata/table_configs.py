"""The topic configs of table topics: a topic with a location has a Delta table of its records.

The broker checks, stores and describes them; the table writer (`josefine tables run`) reads them
with DescribeConfigs and acts on them. Values that the writer cannot serve yet are refused here, so
that a topic never has a table other than the one its configs describe.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from josefine_broker.base.store_urls import S3_SCHEMES, malformed
from josefine_broker.engine.metadata.config_texts import (
    Check,
    ConfigType,
    Value,
    anything,
    at_least,
    between,
    choice,
)

MIB = 1 << 20
TARGET_LAG_MS = 30_000
TARGET_FILE_BYTES = 128 * MIB
DELETED_RETENTION_MS = 7 * 24 * 3_600_000
"""Delta's own retention of removed files: a reader of an older version may still use them."""
DEAD_LETTER_FAIL = "fail"
FORMATS = ("raw", "json", "avro", "protobuf", "debezium")
"""The formats that the table writer decodes."""
MODES = ("append", "upsert")
_WIDEN = "the table writer widens no type yet, and adds columns with add"
_USER = "JOSEFINE_SCHEMA_REGISTRY_USER"
"""The writer's environment variable with `name:password`."""
_REGISTRY = re.compile(r"https?://[^/@\s]+(/[^@\s?#]*)?")
_PLACE = re.compile(r"/.*[^/]|[a-z][a-z0-9]*://[^/]+/.*[^/]", re.DOTALL)
_AVRO_FILE, _PROTOBUF_FILE = ".avsc", ".desc"
_FILES = (_AVRO_FILE, _PROTOBUF_FILE)
_OPEN, _CLOSE = "<(", ">)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The table of one topic."""

    location: str = ""
    """Path or URI of the table; empty: the topic has none."""
    format: str = "raw"
    schema: str = ""
    """Columns of the values in Spark's DDL, an Avro schema, or the path of a schema file."""
    registry: str = ""
    message: str = ""
    evolution: str = "none"
    mode: str = "append"
    keys: tuple[str, ...] = ()
    """The columns that identify a row, of mode upsert."""
    key_format: str = ""
    """Of records' keys, which tombstones are read by; empty: by the format of the values."""
    dead_letter: str = ""
    """Path or URI of the dead-letter table, or `fail`; empty: next to the table."""
    target_lag_ms: int = TARGET_LAG_MS
    target_file_bytes: int = TARGET_FILE_BYTES
    deleted_retention_ms: int = DELETED_RETENTION_MS


class TableKey(NamedTuple):
    """One config: its name, type, field of TableSettings, validator and meaning."""

    name: str
    type: ConfigType
    attribute: str
    check: Check
    meaning: str


def check_place(value: Value) -> None:
    """An absolute path or a URI: the writer's working directory is not the user's."""
    text = str(value)
    if text and not _PLACE.fullmatch(text):
        raise ValueError(
            "must be an absolute path or a URI, as in /lake/orders or s3://lake/orders"
        )
    if wrong := malformed(text):
        raise ValueError(f"it {wrong}")


def _letters(value: Value) -> None:
    """`fail`, a place, or nothing."""
    if value != DEAD_LETTER_FAIL:
        try:
            check_place(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {DEAD_LETTER_FAIL}") from None


def _registry(value: Value) -> None:
    """An address without a user: everybody who may describe the topic sees it."""
    text = str(value)
    if "@" in text:
        raise ValueError(f"must have no user: set it as {_USER} where the table writer runs")
    if text and not _REGISTRY.fullmatch(text):
        raise ValueError("must be an address such as http://registry:8081")


def _evolution(value: Value) -> None:
    if value == "widen":
        raise ValueError(f"must be none or add: {_WIDEN}")
    choice("none", "add")(value)


def _names(value: Value) -> None:
    """Each once, none empty."""
    assert isinstance(value, tuple)
    if not all(value):
        raise ValueError("must be columns as in `id,region`, found one without a name")
    if len(set(value)) < len(value):
        raise ValueError("must name each column once")


def _schema(value: Value) -> None:
    """What can be checked without knowing the format."""
    text = str(value)
    if text.startswith("{"):
        try:
            json.loads(text)
        except ValueError as error:
            raise ValueError(f"the Avro schema is not JSON: {error}") from None
        except RecursionError:
            raise ValueError("the Avro schema has types within types too deeply") from None
    elif _is_file(text):
        if not text.startswith("/"):
            raise ValueError("a schema file must be an absolute path, as in /schemas/order.avsc")
    else:
        _columns(value)


def _is_file(schema: str) -> bool:
    return schema.endswith(_FILES) and "," not in schema and "<" not in schema


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


def _retention(value: Value) -> None:
    """Delta's minimum, so that no reader of a version within it misses a file."""
    assert isinstance(value, int)
    if value != -1 and value < DELETED_RETENTION_MS:
        raise ValueError(f"must be -1 or at least {DELETED_RETENTION_MS}, a week as Delta has it")


_STRING, _LONG = ConfigType.STRING, ConfigType.LONG

TABLE_KEYS: tuple[TableKey, ...] = (
    TableKey("josefine.table.location", _STRING, "location", check_place,
        "Path or URI of the Delta table that `josefine tables run` keeps of this topic; empty:"
        " the topic has none."),
    TableKey("josefine.table.format", _STRING, "format", choice(*FORMATS),
        "How a value becomes columns: raw (bytes, as they are), json, avro, protobuf or debezium"
        " (the row of a change), by `josefine.table.schema` or the registry."),
    TableKey("josefine.table.schema", _STRING, "schema", _schema,
        "Columns of the values, in Spark's DDL: `id BIGINT, tags ARRAY<STRING>`; of avro an Avro"
        " schema or the path of an .avsc file, of protobuf that of a .desc file. Empty: the"
        " newest schema that the registry has for subject TOPIC-value."),
    TableKey("josefine.table.schema.registry", _STRING, "registry", _registry,
        "Address of the schema registry whose ids the values have (Confluent's frame); empty: the"
        f" values have no frame. The user is in the writer's environment, as {_USER}."),
    TableKey("josefine.table.schema.evolution", _STRING, "evolution", _evolution,
        "What happens if the schema has columns that the table lacks: none (the table stops) or"
        " add (they are added)."),
    TableKey("josefine.table.message", _STRING, "message", anything,
        "Full name of the Protobuf message; empty: the first one of the registry's schema."),
    TableKey("josefine.table.mode", _STRING, "mode", choice(*MODES),
        "How records change the table: append (each is a row) or upsert (the latest one of each"
        " key is a row, and a tombstone deletes it)."),
    TableKey("josefine.table.keys", ConfigType.LIST, "keys", _names,
        "Columns that identify a row, of mode upsert; of format raw `key`."),
    TableKey("josefine.table.key.format", _STRING, "key_format",
        choice("", "json", "text", "avro"),
        "How the record key of a tombstone has the columns of `josefine.table.keys`: json (an"
        " object), text (the one column) or avro. Empty: avro for values in Avro with a"
        " registry, json for others."),
    TableKey("josefine.table.dead.letter", _STRING, "dead_letter", _letters,
        "Table of the records that do not decode, or fail: they stop this table. Empty: the"
        " table's location with `_dead_letter` added."),
    TableKey("josefine.table.target.lag.ms", _LONG, "target_lag_ms", between(100, 86_400_000),
        "Largest time from the read of a record to the commit that has it."),
    TableKey("josefine.table.target.file.bytes", _LONG, "target_file_bytes", at_least(MIB),
        "Size of a data file after which it is committed before that time."),
    TableKey("josefine.table.deleted.file.retention.ms", _LONG, "deleted_retention_ms",
        _retention,
        "Retention of data files that are no longer in the table, as compactions and merges leave"
        " them: then they are deleted. The table's `delta.deletedFileRetentionDuration` counts if"
        " it is longer. -1: they are never deleted."),
)  # fmt: skip
"""One row per config."""

LATER: Mapping[str, str] = {
    "josefine.table.local.retention.max.bytes": "retention waits without a bound of its own: watch"
    " josefine_archive_waiting_bytes",
}
"""Configs of table topics that are refused until they take effect, and why."""


def contradiction(table: TableSettings) -> str:
    """Why these settings cannot be together; empty if they can."""
    if table.location and table.location == table.dead_letter:
        return "'josefine.table.dead.letter' is the table's own location: choose another"
    letters = "" if table.dead_letter == DEAD_LETTER_FAIL else table.dead_letter
    return (
        unwritten("josefine.table.location", table.location)
        or unwritten("josefine.table.dead.letter", letters)
        or _of_schema(table)
        or _of_message(table)
        or _of_keys(table)
    )


def unwritten(name: str, place: str) -> str:
    """Why no table writer writes to a place; empty if one does. Not a rule of the single value:
    a topic that has it from an earlier version keeps it, and its table is shown as stopped."""
    scheme = place.partition("://")[0]
    if not place or place.startswith("/") or scheme in S3_SCHEMES:
        return ""
    return (
        f"'{name}' is in {scheme}://, and table writers write to folders and S3 alone: set "
        "/FOLDER or s3://BUCKET/FOLDER, or write this table with a pipeline"
    )


def _of_schema(table: TableSettings) -> str:
    named = f"'josefine.table.format' {table.format}"
    schema, registry = "'josefine.table.schema'", "'josefine.table.schema.registry'"
    is_avro = table.schema.startswith("{") or table.schema.endswith(_AVRO_FILE)
    is_columns = bool(table.schema) and not is_avro and not _is_file(table.schema)
    if table.format == "raw" and table.schema:
        return f"{schema} has no effect with {named}: set json"
    if table.format in ("raw", "json") and table.registry:
        return f"{registry} has no effect with {named}"
    if table.format == "json" and not table.schema:
        return f"{named} needs {schema}, the columns of a value"
    if table.format == "json" and not is_columns:
        return f"{schema} of {named} is columns, as in `id BIGINT, name STRING`"
    if table.format != "raw" and not (table.schema or table.registry):
        return f"{named} needs {schema} or {registry}"
    if table.format == "avro" and table.schema and not is_avro:
        return f"{schema} of {named} is an Avro schema or the path of an {_AVRO_FILE} file"
    if table.format == "protobuf" and table.schema and not table.schema.endswith(_PROTOBUF_FILE):
        return f"{schema} of {named} is the path of a {_PROTOBUF_FILE} file, as protoc writes"
    if table.format == "debezium" and table.registry and is_columns:
        return f"{registry} has no effect with a {schema} of columns, which is of JSON"
    return ""


def _of_message(table: TableSettings) -> str:
    if table.format == "protobuf" and table.schema and not table.message:
        return "'josefine.table.message' is needed with a descriptor file: the message's full name"
    if table.format != "protobuf" and table.message:
        return f"'josefine.table.message' has no effect with 'josefine.table.format' {table.format}"
    return ""


def _of_keys(table: TableSettings) -> str:
    keys = "'josefine.table.keys'"
    if table.mode != "upsert":
        return f"{keys} has no effect without 'josefine.table.mode' upsert" if table.keys else ""
    if not table.keys:
        return f"'josefine.table.mode' upsert needs {keys}, the columns that identify a row"
    if table.format == "raw" and table.keys != ("key",):
        return f"{keys} of 'josefine.table.format' raw is key: the rows have no other columns"
    if table.key_format == "text" and len(table.keys) > 1:
        return f"'josefine.table.key.format' text is for one column of {keys}"
    if table.key_format == "avro" and not table.registry:
        return "'josefine.table.key.format' avro needs 'josefine.table.schema.registry'"
    return ""

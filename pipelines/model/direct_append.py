"""The decision whether files can be appended to a Delta table by a commit that Spark does not make.

Spark checks and rewrites rows while it writes them into a table: constraints, generated and
identity columns, column mapping, row ids, partitions. A direct append adds Parquet files of the
rows as they are, so a table that asks for any of that is written by Spark. Everything that is not
known to ask for nothing does. Pure.
(Delta's PROTOCOL.md: protocol evolution, table features, writer version requirements.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from josefine_journal.log_retention import why_not_cleaned
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Sink
from pipelines.model.table_columns import Fields

FREE_FEATURES = {
    "appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants",
    "timestampNtz",
}  # fmt: skip
"""The table features that ask nothing of an append, unless a property or a column uses them."""
FREE_PROPERTIES = {
    "delta.appendOnly",
    "delta.checkpointInterval",
    "delta.checkpointRetentionDuration",
    "delta.dataSkippingNumIndexedCols",
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
}
"""Delta's properties that ask nothing of the files; names without `delta.` are the user's."""
FREE_SETTINGS = {
    "spark.databricks.delta.lastCommitVersionInSession",
    "spark.databricks.delta.snapshotPartitions",
}
"""Settings of Delta in Spark that change nothing of the files, the table or the log. Delta itself
sets the first one, at each commit that Spark makes."""
INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
_INDEXED_DEFAULT = 32
_DELTA = "delta."
_SETTINGS = (
    "spark.databricks.delta.",
    "spark.delta.",  # such as another store of the log
    # Bounds of another calendar; the second one is an older name of the first.
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.legacy.parquet.datetimeRebaseModeInWrite",
)
_WRITER_FEATURES, _READER_FEATURES, _GENERATED = 7, 3, 4
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./+=@-]*", re.ASCII)
_PLAIN_TYPES = {
    "array", "map", "struct",
    "binary", "boolean", "byte", "date", "double", "float", "integer", "long", "short", "string",
    "timestamp", "timestamp_ntz",
}  # fmt: skip
_NOT_IN_NAMES = set(" ,;{}()\n\t=")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The demands of a table on its writers: protocol and metadata."""

    reader: int
    writer: int
    features: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    columns: Fields = ()

    @property
    def indexed_columns(self) -> int:
        """Of how many columns, the first ones, there are statistics; -1: of all."""
        text = self.properties.get(INDEXED_COLUMNS, "")
        return int(text) if re.fullmatch(r"-1|\d{1,9}", text) else _INDEXED_DEFAULT


def why_not_here(sink: Sink, path: str, settings: Iterable[str]) -> str:
    """Why no table of this sink gets direct appends; "" if they may. `path`: the folder;
    `settings`: the names of Spark's settings."""
    if not _PLAIN_PATH.fullmatch(path):
        return "it is not in a folder of this machine with a plain name"
    words = ("constraints", "cluster_by", "partition_by", "wishes")
    asked = next((word for word in words if getattr(sink, word)), None)
    if asked is not None:
        return f"the file asks for `{asked}`"
    used = (s for s in settings if s.startswith(_SETTINGS) and s not in FREE_SETTINGS)
    name = next(used, None)
    return f"{name} is set" if name is not None else ""


def why_not_created(rows: Fields) -> str:
    """Why a table with the columns of `rows` is created by Spark; "" if a commit may do it."""
    for path, kind, metadata in _parts((), rows):
        wrong = _why_column(path, kind, metadata)
        if wrong:
            return wrong
        if kind == "timestamp_ntz":
            return f"{_told(path)} needs a table feature"
    return ""


def why_not_appended(table: TableRules, rows: Fields) -> str:
    """Why rows with these columns are appended by Spark; "" if files of them are valid files of the
    table as they are."""
    wrong = _why_protocol(table)
    if wrong:
        return wrong
    if table.partitions:
        return f"it is partitioned by {', '.join(table.partitions)}"
    wrong = _why_properties(table.properties)
    if wrong:
        return wrong
    for path, kind, metadata in _parts((), table.columns):
        wrong = _why_column(path, kind, metadata)
        if wrong:
            return wrong
    return _why_columns(table.columns, rows) or _why_order(table, rows)


def _why_protocol(table: TableRules) -> str:
    is_listed = table.writer == _WRITER_FEATURES
    if table.reader not in ((1, _READER_FEATURES) if is_listed else (1,)):
        return f"its readers need version {table.reader} of the protocol"
    if not is_listed and table.writer > _GENERATED:
        return f"its writers need version {table.writer} of the protocol"
    asked = sorted(table.features - FREE_FEATURES)
    return f"it has the feature {asked[0]}" if asked else ""


def _why_properties(properties: Mapping[str, str]) -> str:
    for name in properties:
        # Delta enforces `Delta.Constraints.x`, too.
        if name.lower().startswith(_DELTA) and name not in FREE_PROPERTIES:
            return f"its property {name} is set"
    return why_not_cleaned(properties)


def _why_order(table: TableRules, rows: Fields) -> str:
    """The columns with statistics are the first ones of a file, and have to be the table's: Arrow's
    data set of delta-rs takes a bound that is missing for null, and finds no row of the file."""
    count = table.indexed_columns
    indexed, mine = ({*islice(_leaves(each), max(count, 0))} for each in (table.columns, rows))
    if indexed != mine:
        return f"the first {count} of its columns, which have statistics, are others in the rows"
    return ""


def _why_columns(have: Fields, rows: Fields) -> str:
    there = {each["name"]: each for each in have}
    for each in rows:
        found = there.pop(each["name"], None)
        if found is None:
            return f"it has no column {each['name']}"
        if _bare(found["type"]) != _bare(each["type"]):
            return f"its column {each['name']} has another type"
        needs = {path for path, nullable in _nullables(found) if not nullable}
        if not needs <= {path for path, nullable in _nullables(each) if not nullable}:
            return f"its column {each['name']} takes no null"
    return f"its column {next(iter(there))} is not in the rows" if there else ""


def _why_column(path: tuple[str, ...], kind: Type, metadata: Mapping[str, Any]) -> str:
    if metadata.keys() - {"comment"}:
        return f"{_told(path)} has {min(metadata.keys() - {'comment'})}"
    if _NOT_IN_NAMES & set(path[-1]):
        return f"{_told(path)} has a name that needs column mapping"
    name = kind if isinstance(kind, str) else str(kind["type"])
    if name in _PLAIN_TYPES or name.startswith("decimal("):
        return ""
    return f"{_told(path)} is of type {name}"


def _told(path: tuple[str, ...]) -> str:
    return f"its column {'.'.join(path)}"


def _parts(
    above: tuple[str, ...], fields: Fields
) -> Iterator[tuple[tuple[str, ...], Type, Mapping[str, Any]]]:
    """(path, type, metadata) of all columns, and of the parts of their types."""
    for each in fields:
        yield from _part((*above, each["name"]), each["type"], each.get("metadata") or {})


def _leaves(fields: Fields, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The columns without parts; a list or map is one."""
    for each in fields:
        path, kind = (*above, each["name"]), each["type"]
        if not isinstance(kind, str) and kind["type"] == "struct":
            yield from _leaves(kind["fields"], path)
        else:
            yield path


def _part(
    path: tuple[str, ...], kind: Type, metadata: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Type, Mapping[str, Any]]]:
    yield path, kind, metadata
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield from _parts(path, kind["fields"])
    for of in ("elementType", "keyType", "valueType"):
        if of in kind:
            yield from _part((*path, of), kind[of], {})


def _bare(kind: Type) -> Any:
    """The type without nullability and metadata; a struct's fields in their order."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return [(each["name"], _bare(each["type"])) for each in kind["fields"]]
    inside = ("elementType", "keyType", "valueType")
    return (kind["type"], *(_bare(kind[of]) for of in inside if of in kind))


def _nullables(each: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """(path, whether it takes a null) of a column and the parts of its type."""
    yield (each["name"],), bool(each.get("nullable", True))
    yield from _inner_nullables((each["name"],), each["type"])


def _inner_nullables(path: tuple[str, ...], kind: Type) -> Iterator[tuple[tuple[str, ...], bool]]:
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        for each in kind["fields"]:
            inner = (*path, each["name"])
            yield inner, bool(each.get("nullable", True))
            yield from _inner_nullables(inner, each["type"])
    contains = {"elementType": "containsNull", "keyType": "", "valueType": "valueContainsNull"}
    for of, flag in contains.items():
        if of in kind:
            inner = (*path, of)
            yield inner, bool(kind.get(flag, True)) if flag else True
            yield from _inner_nullables(inner, kind[of])

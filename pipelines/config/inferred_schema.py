"""The schema of JSON records that were seen, and a pipeline file that reads such records.

A column is of the narrowest type that holds every value seen: BIGINT, DOUBLE, BOOLEAN, STRING,
ARRAY or STRUCT. Where values differ in kind it is STRING, which holds the text of any JSON value.
Dates stay text: a format is a decision of the file's author.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.base.quoting import quoted

BIGINT_MAX = 2**63 - 1
NUMBERS = ("BIGINT", "DOUBLE")
DEPTH_MAX = 16
"""Of nested objects and arrays; what is deeper is text."""

PLACES = {"_time": "timestamp", "_topic": "topic", "_partition": "partition", "_offset": "offset"}
"""Column that the example adds → the source's column; left out where the record has that name."""

YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
"""Keys that YAML takes for another value than text."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
Kind = str | dict[str, "Kind"] | list["Kind"] | None
"""A type's name, an object's fields, an array's element, or None: no value yet but null."""


def kind_of(value: Any, depth: int = 0) -> Kind:
    """The type of one JSON value, as `json.loads` returns it."""
    if value is None:
        return None
    if isinstance(value, bool):  # before int, which it is in Python
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -BIGINT_MAX - 1 <= value <= BIGINT_MAX else "STRING"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, str) or depth == DEPTH_MAX:
        return "STRING"
    if isinstance(value, list):
        element: Kind = None
        for each in value:
            element = common(element, kind_of(each, depth + 1))
        return [element]
    return {name: kind_of(each, depth + 1) for name, each in value.items()}


def common(one: Kind, other: Kind) -> Kind:
    """The narrowest type of values of both."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if one in NUMBERS and other in NUMBERS:
        return "DOUBLE"
    if isinstance(one, list) and isinstance(other, list):
        return [common(one[0], other[0])]
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: common(one.get(name), other.get(name)) for name in {**one, **other}}
    return "STRING"


def columns_of(values: Iterable[bytes | None]) -> tuple[dict[str, Kind], int]:
    """(the columns of the JSON objects among the values, how many values are not such)."""
    seen: dict[str, Kind] = {}
    others = 0
    for value in values:
        record = _object(value)
        if record is None:
            others += 1
            continue
        kind = common(seen, kind_of(record))
        if isinstance(kind, dict):  # an empty object has no columns to add
            seen = kind
    return _without_case_twins(seen), others


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_case_twins(columns: Mapping[str, Kind]) -> dict[str, Kind]:
    """Columns are the same to Spark if only their case differs: the first one stays."""
    kept: dict[str, Kind] = {}
    folded: set[str] = set()
    for name, kind in columns.items():
        if name.lower() not in folded:
            folded.add(name.lower())
            kept[name] = _nested(kind)
    return kept


def _nested(kind: Kind) -> Kind:
    if isinstance(kind, list):
        return [_nested(kind[0])]
    return _without_case_twins(kind) if isinstance(kind, dict) else kind


def ddl(columns: Mapping[str, Kind]) -> str:
    """The columns as DDL text: `id BIGINT, items ARRAY<STRING>`."""
    return ", ".join(f"{_name(name)} {_type(kind)}" for name, kind in columns.items())


def _type(kind: Kind) -> str:
    if isinstance(kind, list):
        return f"ARRAY<{_type(kind[0])}>"
    if isinstance(kind, dict) and kind:
        fields = ", ".join(f"{_name(name)}: {_type(each)}" for name, each in kind.items())
        return f"STRUCT<{fields}>"
    return kind if isinstance(kind, str) else "STRING"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def pipeline_text(topic: str, bootstrap: str, columns: Mapping[str, Kind], seen: str) -> str:
    """The file of a pipeline from the topic into one Delta table. `seen`: of what records the
    schema is, for its comment."""
    name = re.sub(r"[^a-z0-9]+", "_", topic.lower()).strip("_") or "records"
    if not name[0].isalpha() or name in YAML_WORDS:
        name = f"topic_{name}"
    # Spark compares names without case: a column of the record keeps its name, ours goes.
    taken = {column.lower() for column in columns}
    added = [f"{source} as {name}" for name, source in PLACES.items() if name not in taken]
    selected = ", ".join(["value.*", *added])
    return f"""\
# From topic {topic} into a Delta table, each record once. Change it, then:
#   josefine pipeline lint FILE     # offline: keywords, columns, folders, settings
#   josefine pipeline run FILE
version: 1
name: {name}                          # in the table's transactions: keep it

spark:
  master: "local[2]"
  checkpoint: data/lake/checkpoints/{name}

sources:
  records:
    type: josefine
    bootstrap: ${{BOOTSTRAP:-{bootstrap}}}
    topics: [{json.dumps(topic)}]
    start: earliest
    decode:
      value:
        format: json
        # Of {seen}. A record that does not fit is a dead letter.
        schema: {json.dumps(ddl(columns), ensure_ascii=False)}
        on_error: dead_letter

transforms:
  rows: {{ inputs: [records], sql: "select {selected} from records" }}

sinks:
  {name}: {{ type: delta, inputs: [rows], path: data/lake/{name}, mode: append }}

dead_letter: {{ type: delta, path: data/lake/{name}_dead_letter }}

trigger: {{ available_now: true }}      # read what is there, then end; or every: 5s
"""

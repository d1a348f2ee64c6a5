"""Every word a pipeline file may contain, and the ones planned but not built yet.

Literal tables: section → word → what is expected there, and section → words refused by name with
"not supported yet". `validate.py` reads values by these tables and `json_schema.py` tells them to
editors; nothing else defines a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a word's value is."""

    VERSION = auto()
    TEXT = auto()
    TEXTS = auto()  # a list of texts, at least one, none twice
    CHOICE = auto()  # one of `choices`
    FLAG = auto()
    COUNT = auto()  # a whole number above 0
    DURATION = auto()  # 500ms, 5s, 2m, 1h
    SETTINGS = auto()  # a table of name: text, number or flag
    AGGREGATES = auto()  # a table of column: count(*), sum(x), ...
    SECTION = auto()  # a table with the words of section `of`
    NAMED = auto()  # a table of name: a table with the words of section `of`
    ENVIRONMENTS = auto()  # a table of name: what differs there, in the words of section `of`


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word: what is told to a user who wrote something else, and how its value is read."""

    expected: str
    kind: Kind
    of: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


WORDS: Mapping[str, Mapping[str, Word]] = {
    "": {
        "version": Word(expected="1", kind=Kind.VERSION, required=True),
        "name": Word(
            expected="a name like orders_to_lake; it names the transactions in the Delta logs",
            kind=Kind.TEXT,
            required=True,
        ),
        "vars": Word(expected="a table of name: value", kind=Kind.SETTINGS),
        "spark": Word(
            expected="a table with master, conf, checkpoint",
            kind=Kind.SECTION,
            of="spark",
            required=True,
        ),
        "environments": Word(
            expected="a table of name: what differs there", kind=Kind.ENVIRONMENTS
        ),
        "sources": Word(
            expected="a table of name: source", kind=Kind.NAMED, of="source", required=True
        ),
        "transforms": Word(expected="a table of name: transform", kind=Kind.NAMED, of="transform"),
        "sinks": Word(expected="a table of name: sink", kind=Kind.NAMED, of="sink", required=True),
        "dead_letter": Word(
            expected="a table with type, path", kind=Kind.SECTION, of="dead_letter"
        ),
        "trigger": Word(
            expected="a table with either available_now: true or every: 5s",
            kind=Kind.SECTION,
            of="trigger",
            required=True,
        ),
    },
    "spark": {
        "master": Word(expected='a Spark master such as "local[2]"', kind=Kind.TEXT),
        "conf": Word(expected="a table of Spark settings", kind=Kind.SETTINGS),
        "checkpoint": Word(
            expected="a folder; each sink keeps its checkpoint in a folder below it",
            kind=Kind.TEXT,
            required=True,
        ),
    },
    "source": {
        "type": Word(expected="josefine", kind=Kind.CHOICE, choices=("josefine",), required=True),
        "bootstrap": Word(expected="host:port[,host:port]", kind=Kind.TEXT, required=True),
        "topics": Word(expected="a list of topic names", kind=Kind.TEXTS),
        "pattern": Word(expected="a regular expression for whole topic names", kind=Kind.TEXT),
        "start": Word(
            expected="earliest or latest", kind=Kind.CHOICE, choices=("earliest", "latest")
        ),
        "on_data_loss": Word(
            expected="fail or skip_and_record",
            kind=Kind.CHOICE,
            choices=("fail", "skip_and_record"),
        ),
        "limit": Word(expected="a table with rows", kind=Kind.SECTION, of="limit"),
        "headers": Word(expected="true or false", kind=Kind.FLAG),
        "decode": Word(expected="a table with value", kind=Kind.SECTION, of="decode"),
    },
    "limit": {"rows": Word(expected="the number of records of a batch, at most", kind=Kind.COUNT)},
    "decode": {
        "value": Word(
            expected="a table with format, schema, on_error",
            kind=Kind.SECTION,
            of="decode value",
            required=True,
        )
    },
    "decode value": {
        "format": Word(expected="json", kind=Kind.CHOICE, choices=("json",), required=True),
        "schema": Word(
            expected='columns as in SQL, such as "id BIGINT, amount DOUBLE", or a file name ending '
            "in .ddl, relative to this file",
            kind=Kind.TEXT,
            required=True,
        ),
        "on_error": Word(
            expected="dead_letter or fail", kind=Kind.CHOICE, choices=("dead_letter", "fail")
        ),
        "strict": Word(expected="true or false", kind=Kind.FLAG),
    },
    "transform": {
        "inputs": Word(expected="a list of sources or transforms", kind=Kind.TEXTS, required=True),
        "sql": Word(
            expected="a SELECT over the inputs, by their names", kind=Kind.TEXT, required=True
        ),
    },
    "sink": {
        "type": Word(expected="delta", kind=Kind.CHOICE, choices=("delta",), required=True),
        "inputs": Word(
            expected="a list with one source or transform", kind=Kind.TEXTS, required=True
        ),
        "path": Word(expected="the folder of the Delta table", kind=Kind.TEXT),
        "table": Word(expected="the name of the Delta table in Spark's catalog", kind=Kind.TEXT),
        "mode": Word(
            expected="append or merge",
            kind=Kind.CHOICE,
            choices=("append", "merge"),
            required=True,
        ),
        "keys": Word(expected="a list of columns", kind=Kind.TEXTS),
        "aggregate": Word(
            expected="a table of column: count(*), count(x), sum(x), min(x) or max(x)",
            kind=Kind.AGGREGATES,
        ),
        "schema_evolution": Word(
            expected="none, add or widen", kind=Kind.CHOICE, choices=("none", "add", "widen")
        ),
    },
    "dead_letter": {
        "type": Word(expected="delta", kind=Kind.CHOICE, choices=("delta",), required=True),
        "path": Word(expected="the folder of the Delta table", kind=Kind.TEXT, required=True),
    },
    "trigger": {
        "available_now": Word(expected="true", kind=Kind.FLAG),
        "every": Word(expected="a duration such as 500ms, 5s, 2m", kind=Kind.DURATION),
    },
}
"""Section → word → what belongs there."""

EXACTLY_ONE: Mapping[str, tuple[str, str]] = {
    "source": ("topics", "pattern"),
    "sink": ("path", "table"),
    "trigger": ("available_now", "every"),
}
"""Section → two words of which exactly one is there."""

LATER: Mapping[str, tuple[str, ...]] = {
    "": ("checks", "restart", "metrics", "tests"),
    "source": (
        "assign",
        "stop",
        "split",
        "isolation",
        "commit_group",
    ),
    "limit": ("bytes", "min_rows", "max_delay"),
    "decode": ("key",),
    "decode value": ("registry",),
    "transform": ("python",),
    "sink": ("order_by", "cluster_by", "optimize", "delivery", "topic", "key"),
    "dead_letter": ("table", "threshold"),
    "trigger": ("once",),
}
"""Section → words of the planned vocabulary that this version refuses by name."""

LATER_VALUES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("source", "type"): ("kafka", "delta", "file", "rate", "memory"),
    ("source", "start"): ("table",),
    ("sink", "type"): ("josefine",),
    ("sink", "mode"): ("upsert", "scd2"),
    ("decode value", "format"): ("avro", "protobuf", "raw"),
}
"""(section, word) → values of the planned vocabulary that this version refuses by name."""

"""Every word a pipeline file may contain, and the ones planned but not built yet.

Literal tables: section → word → what is expected there, and section → words refused by name with
"not supported yet". `validate.py` reads values by these tables; nothing else defines a word.
"""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, Mapping[str, str]] = {
    "": {
        "version": "1",
        "name": "a name like orders_to_lake; it names the transactions in the Delta logs",
        "vars": "a table of name: value",
        "spark": "a table with master, conf, checkpoint",
        "sources": "a table of name: source",
        "transforms": "a table of name: transform",
        "sinks": "a table of name: sink",
        "dead_letter": "a table with type, path",
        "trigger": "a table with either available_now: true or every: 5s",
    },
    "spark": {
        "master": 'a Spark master such as "local[2]"',
        "conf": "a table of Spark settings",
        "checkpoint": "a folder; each sink keeps its checkpoint in a folder below it",
    },
    "source": {
        "type": "josefine",
        "bootstrap": "host:port[,host:port]",
        "topics": "a list of topic names",
        "pattern": "a regular expression for whole topic names",
        "start": "earliest or latest",
        "limit": "a table with rows",
        "headers": "true or false",
        "decode": "a table with value",
    },
    "limit": {"rows": "the number of records of a batch, at most"},
    "decode": {"value": "a table with format, schema, on_error"},
    "decode value": {
        "format": "json",
        "schema": 'columns as in SQL, such as "id BIGINT, amount DOUBLE", or a file name ending in '
        ".ddl, relative to this file",
        "on_error": "dead_letter or fail",
    },
    "transform": {
        "inputs": "a list of sources or transforms",
        "sql": "a SELECT over the inputs, by their names",
    },
    "sink": {
        "type": "delta",
        "inputs": "a list with one source or transform",
        "path": "the folder of the Delta table",
        "table": "the name of the Delta table in Spark's catalog",
        "mode": "append or merge",
        "keys": "a list of columns",
        "aggregate": "a table of column: count(*), count(x), sum(x), min(x) or max(x)",
    },
    "dead_letter": {"type": "delta", "path": "the folder of the Delta table"},
    "trigger": {"available_now": "true", "every": "a duration such as 500ms, 5s, 2m"},
}
"""Section → word → what a value must look like, as told to a user who wrote something else."""

LATER: Mapping[str, tuple[str, ...]] = {
    "": ("environments", "checks", "restart", "metrics", "tests"),
    "source": (
        "assign",
        "stop",
        "split",
        "on_data_loss",
        "isolation",
        "commit_group",
    ),
    "limit": ("bytes", "min_rows", "max_delay"),
    "decode": ("key",),
    "decode value": ("registry",),
    "transform": ("python",),
    "sink": ("order_by", "schema_evolution", "cluster_by", "optimize", "delivery", "topic", "key"),
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

"""The keywords of pipeline files.

Literal tables: section → keyword → what is expected there. `validate.py` reads values by these
tables and `json_schema.py` exports them to editors. Nothing else defines a keyword, except
`source_keywords.py` and `transform_keywords.py`, which have those of sources and transforms.
"""

from __future__ import annotations

from collections.abc import Mapping

from josefine_arrow.formats.json.options import ACCEPT
from pipelines.config.feature_keywords import FEATURE_WORDS, OF_TABLES, OPTIMIZE
from pipelines.config.keyword import Kind, ModeWords, Word
from pipelines.config.source_keywords import SOURCES
from pipelines.config.transform_keywords import TRANSFORMS

_DECODED: Mapping[str, Word] = {
    "format": Word(
        expected="json, csv, avro, protobuf, debezium, string or raw",
        kind=Kind.CHOICE,
        choices=("json", "csv", "avro", "protobuf", "debezium", "string", "raw"),
        required=True,
    ),
    "schema": Word(
        expected='columns as in SQL, such as "id BIGINT, amount DOUBLE", or a file name ending '
        "in .ddl, relative to this file; of avro its schema as JSON, or a file ending in .avsc; "
        "of protobuf a file of descriptors, as protoc writes it; of debezium the row's columns, or "
        "Avro's schema of the envelope",
        kind=Kind.TEXT,
    ),
    "message": Word(expected="the full name of a message, such as shop.Order", kind=Kind.TEXT),
    "registry": Word(
        expected="the address of a schema registry, such as http://localhost:8081", kind=Kind.TEXT
    ),
    "separator": Word(expected="the character between fields, such as ;", kind=Kind.TEXT),
    "on_error": Word(
        expected="dead_letter, fail or null",
        kind=Kind.CHOICE,
        choices=("dead_letter", "fail", "null"),
    ),
    "strict": Word(expected="true or false", kind=Kind.FLAG),
    "accept": Word(expected=f"a list of {', '.join(ACCEPT)}", kind=Kind.TEXTS),
}
"""The keywords that a value and a key have in common."""

WORDS: Mapping[str, Mapping[str, Word]] = {
    "": {
        "version": Word(expected="1", kind=Kind.VERSION, required=True),
        "name": Word(
            expected="a name like orders_to_lake; it names the transactions in the Delta logs",
            kind=Kind.TEXT,
            required=True,
        ),
        "vars": Word(expected="a mapping of name: value", kind=Kind.SETTINGS),
        "params": Word(
            expected="a mapping of name: text, number or flag, which SQL names as :name",
            kind=Kind.SETTINGS,
        ),
        "spark": Word(
            expected="a mapping with master, conf, checkpoint",
            kind=Kind.SECTION,
            of="spark",
            required=True,
        ),
        "environments": Word(
            expected="a mapping of name: what differs there", kind=Kind.ENVIRONMENTS
        ),
        "sources": Word(
            expected="a mapping of name: source", kind=Kind.NAMED, of="source", required=True
        ),
        "transforms": Word(
            expected="a mapping of name: transform", kind=Kind.NAMED, of="transform"
        ),
        "checks": Word(expected="a mapping of name: check", kind=Kind.NAMED, of="check"),
        "sinks": Word(
            expected="a mapping of name: sink", kind=Kind.NAMED, of="sink", required=True
        ),
        "dead_letter": Word(
            expected="a mapping with type, path or table", kind=Kind.SECTION, of="dead_letter"
        ),
        "trigger": Word(
            expected="a mapping with one of available_now: true, once: true, every: 5s",
            kind=Kind.SECTION,
            of="trigger",
        ),
        "restart": Word(
            expected="a mapping with attempts, backoff", kind=Kind.SECTION, of="restart"
        ),
        "metrics": Word(
            expected="a mapping with prometheus, table, log", kind=Kind.SECTION, of="metrics"
        ),
        "tests": Word(
            expected="a list of mappings with name, given, expect", kind=Kind.TABLES, of="test"
        ),
    },
    "spark": {
        "master": Word(expected='a Spark master such as "local[2]"', kind=Kind.TEXT),
        "conf": Word(expected="a mapping of Spark settings", kind=Kind.SETTINGS),
        "checkpoint": Word(
            expected="a folder; each sink has its checkpoint in a subfolder",
            kind=Kind.TEXT,
            required=True,
        ),
    },
    **SOURCES,
    "decode": {
        "value": Word(
            expected="a mapping with format, schema, on_error",
            kind=Kind.SECTION,
            of="decode value",
        ),
        "key": Word(
            expected="a mapping with format, schema, on_error", kind=Kind.SECTION, of="decode key"
        ),
    },
    "decode value": {
        **_DECODED,
        "tombstones": Word(expected="true or false", kind=Kind.FLAG),
        "explode": Word(
            expected="true or false: whether a value is a JSON array of rows", kind=Kind.FLAG
        ),
        "type": Word(
            expected="the full name of the Avro record that is read, such as com.shop.Order; of "
            "JSON the title of its schema",
            kind=Kind.TEXT,
        ),
        "other_types": Word(
            expected="dead_letter or skip: what becomes of records of other types",
            kind=Kind.CHOICE,
            choices=("dead_letter", "skip"),
        ),
        "documents": Word(
            expected="true: the changes are of MongoDB, with documents as JSON texts",
            kind=Kind.FLAG,
        ),
    },
    "decode key": {
        **_DECODED,
        "format": Word(
            expected="json, csv, avro, protobuf, string or raw",
            kind=Kind.CHOICE,
            choices=("json", "csv", "avro", "protobuf", "string", "raw"),
            required=True,
        ),
    },
    **TRANSFORMS,
    "check": {
        "on": Word(
            expected="the source or transform whose rows it looks at", kind=Kind.TEXT, required=True
        ),
        "expr": Word(
            expected="a condition over that node's columns, true of good rows",
            kind=Kind.TEXT,
            required=True,
        ),
        "action": Word(
            expected="warn, drop, dead_letter or fail",
            kind=Kind.CHOICE,
            choices=("warn", "drop", "dead_letter", "fail"),
            required=True,
        ),
        "max_ratio": Word(
            expected="the part of a batch's rows that may fail it, from 0 to 1", kind=Kind.RATIO
        ),
    },
    "sink": {
        "type": Word(
            expected="delta, iceberg or josefine",
            kind=Kind.CHOICE,
            choices=("delta", "iceberg", "josefine"),
            required=True,
        ),
        "inputs": Word(
            expected="a list with one source or transform", kind=Kind.TEXTS, required=True
        ),
        "path": Word(
            expected="the folder of the Delta table, or of several: lake/{topic} has one for each "
            "topic, lake/{country} one for each value of that column",
            kind=Kind.TEXT,
        ),
        "max_tables": Word(
            expected="how many tables a `path` such as lake/{topic} may make", kind=Kind.COUNT
        ),
        "table": Word(
            expected="the name of the Delta table in Spark's catalog; of type iceberg the "
            "table's namespace and name, such as shop.orders",
            kind=Kind.TEXT,
        ),
        "catalog": Word(
            expected="a mapping with warehouse, uri, credential", kind=Kind.SECTION, of="catalog"
        ),
        "topic": Word(expected="the name of an existing topic", kind=Kind.TEXT),
        "bootstrap": Word(expected="host:port[,host:port], where not the source's", kind=Kind.TEXT),
        "security": Word(
            expected="as a source's, where not the source's", kind=Kind.SECTION, of="security"
        ),
        "key": Word(
            expected="the column that is the records' key, or a list of columns, whose key is a "
            "JSON object",
            kind=Kind.COLUMNS,
        ),
        "tombstone_when": Word(
            expected="a condition over the input's columns, true of changes that are tombstones",
            kind=Kind.TEXT,
        ),
        "delivery": Word(
            expected="exactly_once or at_least_once",
            kind=Kind.CHOICE,
            choices=("exactly_once", "at_least_once"),
        ),
        "mode": Word(
            expected="append, merge, upsert or scd2; of a topic append or update",
            kind=Kind.CHOICE,
            choices=("append", "merge", "upsert", "scd2", "update"),
        ),
        "keys": Word(expected="a list of columns", kind=Kind.TEXTS),
        "aggregate": Word(
            expected="a mapping of column: count(*), count(x), sum(x), min(x) or max(x)",
            kind=Kind.AGGREGATES,
        ),
        "order_by": Word(
            expected="the column, or a list of columns, that order the rows of a key, latest last",
            kind=Kind.COLUMNS,
        ),
        "delete_when": Word(
            expected="a condition over the input's columns, true of rows that delete their key",
            kind=Kind.TEXT,
        ),
        "on_delete": Word(expected="remove or mark", kind=Kind.CHOICE, choices=("remove", "mark")),
        "unavailable": Word(
            expected="keep, null or dead_letter: what becomes of a value that a change does not "
            "have, such as a large unchanged one",
            kind=Kind.CHOICE,
            choices=("keep", "null", "dead_letter"),
        ),
        "placeholder": Word(
            expected="the connector's unavailable.value.placeholder, if it is not the default",
            kind=Kind.TEXT,
        ),
        "on_error": Word(
            expected="dead_letter or fail: what becomes of a record for which a transform, a check "
            "or the table's arithmetic fails",
            kind=Kind.CHOICE,
            choices=("dead_letter", "fail"),
        ),
        "deduplicate": Word(
            expected="a mapping with keys, time, within", kind=Kind.SECTION, of="deduplicate"
        ),
        "schema_evolution": Word(
            expected="none, add or widen", kind=Kind.CHOICE, choices=("none", "add", "widen")
        ),
        "constraints": Word(
            expected="a mapping of name: condition over the table's columns, true of each row",
            kind=Kind.SETTINGS,
        ),
        **OF_TABLES,
        "optimize": Word(
            expected="a mapping with every, within, zorder_by, file_size",
            kind=Kind.SECTION,
            of="optimize",
        ),
        "fresh": Word(
            expected="how old the oldest record may be that the table lacks, such as 30s: "
            "batches and compaction follow from it, in place of `trigger`",
            kind=Kind.DURATION,
        ),
        "file": Word(
            expected="the size of the table's files, such as 128MB: small ones are compacted",
            kind=Kind.TEXT,
        ),
        "vacuum": Word(
            expected="a mapping with every, keep, within", kind=Kind.SECTION, of="vacuum"
        ),
    },
    "catalog": {
        "warehouse": Word(
            expected="the folder of the Iceberg tables; with uri the name that the catalog has "
            "for it",
            kind=Kind.TEXT,
        ),
        "uri": Word(
            expected="the address of a REST catalog; without it the catalog is an SQLite file "
            "next to the warehouse",
            kind=Kind.TEXT,
        ),
        "credential": Word(
            expected="what the REST catalog asks for, as ${secret:env:NAME}", kind=Kind.TEXT
        ),
    },
    "deduplicate": {
        "keys": Word(expected="a list of columns", kind=Kind.TEXTS, required=True),
        "time": Word(expected="a column of type TIMESTAMP", kind=Kind.TEXT),
        "within": Word(
            expected="how far apart by `time` two copies of a row may be, such as 24h",
            kind=Kind.DURATION,
        ),
    },
    "features": FEATURE_WORDS,
    "optimize": OPTIMIZE,
    "vacuum": {
        "every": Word(
            expected="a number of batches such as 1000 batches", kind=Kind.BATCHES, required=True
        ),
        "keep": Word(
            expected="how long files stay that the table has no more, 168h at least",
            kind=Kind.DURATION,
        ),
        "within": Word(expected="how long it may take, such as 60s", kind=Kind.DURATION),
    },
    "dead_letter": {
        "type": Word(expected="delta", kind=Kind.CHOICE, choices=("delta",), required=True),
        "path": Word(expected="the folder of the Delta table", kind=Kind.TEXT),
        "table": Word(expected="the name of the Delta table in Spark's catalog", kind=Kind.TEXT),
        "threshold": Word(
            expected="a mapping with ratio, window", kind=Kind.SECTION, of="threshold"
        ),
    },
    "threshold": {
        "ratio": Word(
            expected="the part of the records that may be dead letters, from 0 to 1",
            kind=Kind.RATIO,
            required=True,
        ),
        "window": Word(
            expected="of the last so many batches, such as 10 batches",
            kind=Kind.BATCHES,
            required=True,
        ),
    },
    "restart": {
        "attempts": Word(
            expected="how often a failed run is started again without a batch in between",
            kind=Kind.COUNT,
            required=True,
        ),
        "backoff": Word(
            expected="a pause such as 5s, or 1s..60s: each pause is twice the previous one",
            kind=Kind.PAUSES,
        ),
    },
    "metrics": {
        "prometheus": Word(
            expected="where a run listens for Prometheus, host:port such as 127.0.0.1:9404",
            kind=Kind.TEXT,
        ),
        "table": Word(
            expected="the folder of a Delta table on this machine, such as /data/progress",
            kind=Kind.TEXT,
        ),
        "log": Word(expected="json", kind=Kind.CHOICE, choices=("json",)),
    },
    "trigger": {
        "available_now": Word(expected="true", kind=Kind.FLAG),
        "once": Word(expected="true", kind=Kind.FLAG),
        "every": Word(expected="a duration such as 500ms, 5s, 2m", kind=Kind.DURATION),
    },
    "test": {
        "name": Word(expected="what the test shows, in words", kind=Kind.TEXT, required=True),
        "given": Word(
            expected="a mapping of source: list of records",
            kind=Kind.NAMED_TABLES,
            of="record",
            required=True,
        ),
        "expect": Word(
            expected="a mapping of sink, transform, check or dead_letter: what is there then",
            kind=Kind.NAMED,
            of="expectation",
            required=True,
        ),
    },
    "record": {
        "key": Word(expected="as the value", kind=Kind.ANY),
        "value": Word(
            expected="a text, or a table or list, which becomes JSON, or what is decoded",
            kind=Kind.ANY,
        ),
        "topic": Word(expected="a topic of the source", kind=Kind.TEXT),
        "partition": Word(expected="a whole number from 0 on", kind=Kind.NUMBER),
        "offset": Word(expected="a whole number from 0 on", kind=Kind.NUMBER),
        "timestamp": Word(expected="a time such as 2026-01-01T00:00:00Z", kind=Kind.TEXT),
        "headers": Word(expected="a mapping of name: text", kind=Kind.SETTINGS),
        "batch": Word(expected="a whole number from 1 on", kind=Kind.NUMBER),
    },
    "expectation": {
        "rows": Word(expected="a list of mappings of column: value", kind=Kind.TABLES),
        "columns": Word(expected="all or subset", kind=Kind.CHOICE, choices=("all", "subset")),
        "count": Word(expected="a whole number from 0 on", kind=Kind.NUMBER),
    },
}
"""Section → keyword → what is expected there."""

EXACTLY_ONE: Mapping[str, tuple[str, ...]] = {
    "source": ("topics", "pattern", "assign"),
    "sink": ("path", "table"),
    "dead_letter": ("path", "table"),
    "transform": ("sql", "python"),
    "trigger": ("available_now", "once", "every"),
}
"""Section → keywords of which exactly one must be present."""

MODES: Mapping[str, ModeWords] = {
    "append": ModeWords(allowed=("deduplicate",)),
    "merge": ModeWords(required=("keys", "aggregate")),
    "upsert": ModeWords(
        required=("keys", "order_by"),
        allowed=("delete_when", "on_delete", "unavailable", "placeholder"),
    ),
    "scd2": ModeWords(
        required=("keys", "order_by"), allowed=("delete_when", "unavailable", "placeholder")
    ),
    "update": ModeWords(),
}
"""Mode of a sink → its own keywords; those of other modes are refused."""

_OF_ANY_SINK = ("type", "inputs", "mode")
_OF_TOPICS = ("topic", "bootstrap", "security", "key", "tombstone_when")
_OF_OTHERS = (*_OF_TOPICS, "catalog")
SINK_TYPES: Mapping[str, ModeWords] = {
    "delta": ModeWords(
        required=("mode",),
        allowed=tuple(w for w in WORDS["sink"] if w not in (*_OF_ANY_SINK, *_OF_OTHERS)),
    ),
    "iceberg": ModeWords(required=("table", "catalog", "mode"), allowed=("schema_evolution",)),
    "josefine": ModeWords(required=("topic",), allowed=("delivery", "mode", *_OF_TOPICS[1:])),
}
"""Type of a sink → its own keywords; those of other types are refused."""

FORMATS: Mapping[str, ModeWords] = {
    "json": ModeWords(
        required=("schema",),
        allowed=(
            "registry",
            "strict",
            "accept",
            "explode",
            "on_error",
            "tombstones",
            "type",
            "other_types",
        ),
    ),
    "csv": ModeWords(
        required=("schema",), allowed=("separator", "accept", "on_error", "tombstones")
    ),
    "avro": ModeWords(
        required=("schema",),
        allowed=("registry", "on_error", "tombstones", "type", "other_types"),
    ),
    "protobuf": ModeWords(
        required=("schema", "message"),
        allowed=("registry", "on_error", "tombstones", "other_types"),
    ),
    "debezium": ModeWords(
        required=("schema",),
        allowed=("registry", "strict", "accept", "on_error", "tombstones", "documents"),
    ),
    "string": ModeWords(allowed=("on_error", "tombstones")),
    "raw": ModeWords(),
}
"""Format of a value or key → its own keywords; those of other formats are refused."""

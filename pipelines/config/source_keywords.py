"""The keywords of a source: literal tables, which `keywords.py` includes."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.config.keyword import Kind, ModeWords, Word

SOURCES: Mapping[str, Mapping[str, Word]] = {
    "source": {
        "type": Word(
            expected="josefine, kafka, file, rate, memory or delta",
            kind=Kind.CHOICE,
            choices=("josefine", "kafka", "file", "rate", "memory", "delta"),
            required=True,
        ),
        "bootstrap": Word(expected="host:port[,host:port]", kind=Kind.TEXT),
        "security": Word(
            expected="a mapping with protocol and what it needs: ca, username, password ...",
            kind=Kind.SECTION,
            of="security",
        ),
        "topics": Word(expected="a list of topic names", kind=Kind.TEXTS),
        "pattern": Word(expected="a regular expression for whole topic names", kind=Kind.TEXT),
        "assign": Word(
            expected="a mapping of topic: a list of its partitions that are read, such as [0, 2]",
            kind=Kind.PARTITIONS,
        ),
        "path": Word(
            expected="a folder whose files are read line by line, or a pattern of files; of type "
            "delta the folder of the table",
            kind=Kind.TEXT,
        ),
        "table": Word(expected="the name of the Delta table in Spark's catalog", kind=Kind.TEXT),
        "stream": Word(
            expected="true, for a Delta table whose new rows are a stream", kind=Kind.FLAG
        ),
        "changes": Word(
            expected="true, for a stream of the table's change data feed", kind=Kind.FLAG
        ),
        "on_change": Word(
            expected="fail, ignore_deletes or skip_changes",
            kind=Kind.CHOICE,
            choices=("fail", "ignore_deletes", "skip_changes"),
        ),
        "schema": Word(
            expected="the table's columns that are used, as in SQL, or the name of a .ddl file",
            kind=Kind.TEXT,
        ),
        "rows_per_second": Word(expected="a whole number above 0", kind=Kind.COUNT),
        "records": Word(
            expected="a list of mappings with key, value", kind=Kind.TABLES, of="record"
        ),
        "start": Word(
            expected="earliest, latest, table, or a mapping with one of timestamp, ago, last, "
            "group, offsets",
            kind=Kind.CHOICE,
            choices=("earliest", "latest", "table"),
            of="start",
        ),
        "stop": Word(
            expected="latest, null, or a mapping with one of timestamp, ago, group, offsets",
            kind=Kind.CHOICE,
            choices=("latest", "null"),
            of="stop",
        ),
        "isolation": Word(
            expected="read_uncommitted or read_committed",
            kind=Kind.CHOICE,
            choices=("read_uncommitted", "read_committed"),
        ),
        "on_data_loss": Word(
            expected="fail or skip_and_record",
            kind=Kind.CHOICE,
            choices=("fail", "skip_and_record"),
        ),
        "archive": Word(
            expected="auto, broker or off",
            kind=Kind.CHOICE,
            choices=("auto", "broker", "off"),
        ),
        "limit": Word(
            expected="a mapping with rows, bytes, files, min_rows, max_delay",
            kind=Kind.SECTION,
            of="limit",
        ),
        "split": Word(expected="a mapping with rows, min_tasks", kind=Kind.SECTION, of="split"),
        "headers": Word(expected="true or false", kind=Kind.FLAG),
        "commit_group": Word(
            expected="the consumer group whose offsets show lag tools how far all sinks are",
            kind=Kind.TEXT,
        ),
        "decode": Word(expected="a mapping with value, key", kind=Kind.SECTION, of="decode"),
    },
    "security": {
        "protocol": Word(
            expected="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
            kind=Kind.CHOICE,
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            required=True,
        ),
        "ca": Word(
            expected="a PEM file of the trusted authorities; by default the system's",
            kind=Kind.TEXT,
        ),
        "certificate": Word(
            expected="a PEM file of the pipeline's own certificate", kind=Kind.TEXT
        ),
        "key": Word(
            expected="a PEM file of its key, where that is not in the same file", kind=Kind.TEXT
        ),
        "key_password": Word(
            expected="that of its key: ${secret:env:NAME}, file:/path or env:NAME", kind=Kind.TEXT
        ),
        "verify_host": Word(expected="true or false", kind=Kind.FLAG),
        "mechanism": Word(
            expected="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
            kind=Kind.CHOICE,
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        ),
        "username": Word(expected="a user of the brokers", kind=Kind.TEXT),
        "password": Word(
            expected="the user's: ${secret:env:NAME}, file:/path or env:NAME", kind=Kind.TEXT
        ),
        "token": Word(
            expected="where the token of OAUTHBEARER is: file:/path or env:NAME", kind=Kind.TEXT
        ),
    },
    "start": {
        "timestamp": Word(expected="a time such as 2026-01-01T00:00:00Z", kind=Kind.TEXT),
        "ago": Word(expected="a duration such as 10m", kind=Kind.DURATION),
        "last": Word(expected="a number of records of each partition", kind=Kind.COUNT),
        "group": Word(expected="a consumer group", kind=Kind.TEXT),
        "offsets": Word(
            expected="a mapping of topic: a mapping of partition: offset", kind=Kind.OFFSETS
        ),
        "version": Word(
            expected="the number of the first commit of a Delta table that is read",
            kind=Kind.NUMBER,
        ),
    },
    "stop": {
        "timestamp": Word(expected="a time such as 2026-01-01T00:00:00Z", kind=Kind.TEXT),
        "ago": Word(expected="a duration such as 10m", kind=Kind.DURATION),
        "group": Word(expected="a consumer group", kind=Kind.TEXT),
        "offsets": Word(
            expected="a mapping of topic: a mapping of partition: offset", kind=Kind.OFFSETS
        ),
    },
    "limit": {
        "rows": Word(expected="the number of records of a batch, at most", kind=Kind.COUNT),
        "bytes": Word(expected="the size of a batch, at most, such as 64MiB", kind=Kind.TEXT),
        "files": Word(expected="a Delta table's files of a batch, at most", kind=Kind.COUNT),
        "min_rows": Word(expected="the number of records that a batch waits for", kind=Kind.COUNT),
        "max_delay": Word(
            expected="how long a batch waits for them, such as 15m", kind=Kind.DURATION
        ),
    },
    "split": {
        "rows": Word(expected="the number of records of a task, at most", kind=Kind.COUNT),
        "min_tasks": Word(expected="the number of tasks of a batch, at least", kind=Kind.COUNT),
    },
}
"""Section → keyword → what is expected: `source` and its sections except `decode`."""

_OF_STREAMS = ("start", "limit", "decode")

_OF_BROKERS = ModeWords(
    required=("bootstrap",),
    allowed=(
        "security",
        "topics",
        "pattern",
        "assign",
        "isolation",
        "on_data_loss",
        "archive",
        "split",
        "headers",
        "commit_group",
        "stop",
        *_OF_STREAMS,
    ),
)

TYPES: Mapping[str, ModeWords] = {
    "josefine": _OF_BROKERS,
    "kafka": _OF_BROKERS,
    "file": ModeWords(required=("path",), allowed=_OF_STREAMS),
    "rate": ModeWords(required=("rows_per_second",), allowed=_OF_STREAMS),
    "memory": ModeWords(required=("records",), allowed=("headers", *_OF_STREAMS)),
    "delta": ModeWords(
        required=("schema",),
        allowed=("path", "table", "stream", "changes", "on_change", "start", "limit"),
    ),
}
"""Type of a source → its own keywords; those of other types are refused."""

"""The keywords of transforms: section → keyword → what is expected there (`keywords.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.config.keyword import Kind, Word

TRANSFORMS: Mapping[str, Mapping[str, Word]] = {
    "transform": {
        "inputs": Word(expected="a list of sources or transforms", kind=Kind.TEXTS, required=True),
        "sql": Word(expected="a SELECT over the inputs, by their names", kind=Kind.TEXT),
        "python": Word(
            expected="FILE.py:FUNCTION, the file relative to this one",
            kind=Kind.TEXT,
        ),
        "state": Word(
            expected="a mapping with keys, schema, timers, ttl; of a class in `python`, which has "
            "a state",
            kind=Kind.SECTION,
            of="state",
        ),
        "watermark": Word(
            expected="a mapping of input: column, delay; of SQL that groups by windows of time",
            kind=Kind.NAMED,
            of="watermark",
        ),
    },
    "state": {
        "keys": Word(
            expected="a list of columns, whose values have a state each",
            kind=Kind.TEXTS,
            required=True,
        ),
        "schema": Word(
            expected='the columns of the rows that the class gives, such as "k STRING, n INT"',
            kind=Kind.TEXT,
            required=True,
        ),
        "timers": Word(
            expected="event_time, processing_time or none",
            kind=Kind.CHOICE,
            choices=("event_time", "processing_time", "none"),
        ),
        "ttl": Word(
            expected="how long a value stays that is not written again, such as 24h",
            kind=Kind.DURATION,
        ),
    },
    "watermark": {
        "column": Word(expected="a column of type TIMESTAMP", kind=Kind.TEXT, required=True),
        "delay": Word(
            expected="how much later than others a row may come by `column`, such as 10m",
            kind=Kind.DURATION,
            required=True,
        ),
    },
}

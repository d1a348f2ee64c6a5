"""The manual's table of words holds exactly the words that a file may contain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.config.keywords import WORDS

MANUAL = Path("docs/reference/pipelines/index.md").read_text(encoding="utf-8")

SPANS = {
    section: re.findall(r"`([^`]+)`", row)
    for section, row in (
        (match[1], match[0])
        for match in re.finditer(r"^\| `([^`]+)`.*$", MANUAL, flags=re.MULTILINE)
    )
}
"""First span of a table's row → all its spans."""

ROWS: dict[str, tuple[str, ...]] = {
    "": ("version: 1", "name", "vars", "spark.master", "dead_letter", "trigger"),
    "spark": ("spark.master",),
    "source": (
        "sources.NAME",
        "sources.NAME.decode.value",
        "type: file",
        "type: delta",
        "stream: true",
    ),
    "security": ("sources.NAME.security",),
    "start": ("sources.NAME.start", "stream: true"),
    "stop": ("sources.NAME.stop",),
    "limit": ("sources.NAME", "stream: true"),
    "split": ("sources.NAME",),
    "decode": ("sources.NAME.decode.value", "sources.NAME.decode.key"),
    "decode value": ("sources.NAME.decode.value",),
    "decode key": ("sources.NAME.decode.key",),
    "transform": ("transforms.NAME",),
    "state": ("transforms.NAME",),
    "watermark": ("transforms.NAME",),
    "check": ("checks.NAME",),
    "sink": (
        "sinks.NAME",
        "mode: append",
        "mode: merge",
        "mode: upsert",
        "mode: scd2",
        "sinks.NAME.constraints",
        "type: josefine",
        "type: iceberg",
    ),
    "catalog": ("type: iceberg",),
    "deduplicate": ("mode: append",),
    "features": ("sinks.NAME.features",),
    "optimize": ("sinks.NAME",),
    "vacuum": ("sinks.NAME",),
    "dead_letter": ("dead_letter",),
    "threshold": ("dead_letter",),
    "restart": ("restart",),
    "metrics": ("metrics",),
    "trigger": ("trigger",),
    "test": ("tests",),
    "record": ("tests.given",),
    "expectation": ("tests.expect",),
}
"""Section of the vocabulary → the rows that tell of its words."""


def told(section: str) -> set[str]:
    """Every word in the code spans of the section's rows."""
    return {
        word for row in ROWS[section] for span in SPANS[row] for word in re.findall(r"\w+", span)
    }


def test_every_section_has_its_rows():
    assert set(ROWS) == set(WORDS)


@pytest.mark.parametrize("section", sorted(WORDS))
def test_the_manual_tells_of_every_word(section):
    everywhere = told(section) | (
        {w for s in SPANS for w in re.findall(r"\w+", s)} if not section else set()
    )

    assert set(WORDS[section]) <= everywhere

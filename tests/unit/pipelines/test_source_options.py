"""What a source of a file asks of the connector about unreadable record batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.config.validate import read_pipeline
from pipelines.model.pipeline import Source
from pipelines.sources.josefine import batch_options_of, options_of

FILE = """\
version: 1
name: p
spark: { checkpoint: /ck }
sources:
  raw:
    type: josefine
    bootstrap: b:1
    topics: [orders]
    start: earliest
    %(decode)s
transforms: { rows: { inputs: [raw], sql: "select value from raw" } }
sinks: { rows: { type: delta, inputs: [rows], path: /t, mode: append } }
dead_letter: { type: delta, path: /dead }
trigger: { available_now: true }
"""
VALUE = 'decode: { value: { format: json, schema: "n INT", on_error: %s } }'


def source_of(tmp_path: Path, decode: str) -> Source:
    file = tmp_path / "p.yaml"
    file.write_text(FILE % {"decode": decode})
    return read_pipeline(file, {}).sources["raw"]


@pytest.mark.parametrize(
    ("decode", "asked"),
    [
        (VALUE % "dead_letter", "asRow"),
        (VALUE % "fail", None),
        (VALUE % "null", None),
        ("headers: true", None),
    ],
)
def test_unreadable_batches_are_rows_only_where_they_become_dead_letters(
    tmp_path: Path, decode: str, asked: str | None
) -> None:
    source = source_of(tmp_path, decode)

    assert batch_options_of(source).get("unreadableBatches") == asked
    # An exported pipeline has no dead letters.
    assert "unreadableBatches" not in options_of(source)

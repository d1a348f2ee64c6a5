"""`fresh` and `file` of a sink: what is read and what is refused."""

from __future__ import annotations

import pytest

from pipelines.config.freshness import with_targets
from pipelines.config.sink import sink_of
from tests.unit.pipelines.config.sections import said, section


def sink(text: str):
    plain = "type: delta\ninputs: [a]\npath: /t\nmode: append\n"
    reader = section(plain + text, "sink")
    return with_targets(sink_of("s", section(plain, "sink")), reader), said(reader)


def test_freshness_and_the_size_of_files_are_those_of_the_file():
    found, problems = sink("fresh: 30s\nfile: 128MB")

    assert (found.fresh_ms, found.file_bytes, problems) == (30_000, 128 << 20, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fresh: 1s", "fresh: a batch with its commit takes about a second: expected 2s at least"),
        ("file: 1KB", "file: expected 1MB at least"),
        (
            "file: 8MB\noptimize: { every: 9 batches }",
            "file: `file` decides when to compact: leave out `file` or `optimize`",
        ),
    ],
)
def test_targets_that_no_run_can_hold_or_that_contradict_are_refused(text, problem):
    assert sink(text)[1] == [problem]

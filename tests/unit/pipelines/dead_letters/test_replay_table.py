"""The number of the newest replay is that of the table's last commit."""

from __future__ import annotations

import json

import pytest

from pipelines.dead_letters.replay_table import ReplayTable
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.local_hadoop import LocalHadoop


@pytest.fixture
def table(tmp_path):
    """Makes the table of source `raw`, after commits by (app, replay)."""
    pipeline, _, _ = read(GOOD + f"dead_letter: {{ type: delta, path: {tmp_path}/dead }}\n")
    log = tmp_path / "dead_replayed" / "_delta_log"

    def of(*commits):
        log.mkdir(parents=True, exist_ok=True)
        for version, (app, number) in enumerate(commits):
            meta = {"josefine": 1, "start": {}, "end": {}, "topic_ids": {}, "batch": -1}
            info = {"operation": "WRITE", "userMetadata": json.dumps(meta)}
            lines = [{"commitInfo": info}, {"txn": {"appId": app, "version": number}}]
            text = "\n".join(map(json.dumps, lines))
            (log / f"{version:020d}.json").write_text(text)
        return ReplayTable(LocalHadoop(), pipeline, pipeline.sources["raw"], "run")

    return of


def test_a_source_without_a_replay_starts_with_none(table, tmp_path):
    found = table()

    assert (found.newest, found.told) == (0, f"{tmp_path}/dead_replayed")


MINE, OTHER = "josefine:orders:replays.raw", "josefine:orders:replays.other"


@pytest.mark.parametrize(
    ("commits", "newest"), [([(MINE, 1), (MINE, 2), (OTHER, 7)], 2), ([(OTHER, 7)], 0)]
)
def test_the_newest_replay_is_the_last_one_of_this_source(table, commits, newest):
    assert table(*commits).newest == newest

"""A replay of a pipeline that has no dead letters."""

from __future__ import annotations

from pipelines.dead_letters.replay import replays
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.local_hadoop import LocalHadoop


def do(replay):
    raise AssertionError("there is nothing to replay")


def test_without_a_table_of_dead_letters_no_source_is_replayed(tmp_path):
    with_table, _, _ = read(GOOD + f"dead_letter: {{ type: delta, path: {tmp_path}/dead }}\n")
    without, _, _ = read(GOOD)

    assert replays(LocalHadoop(), with_table, (), do) == []
    assert replays(LocalHadoop(), without, (), do) == []

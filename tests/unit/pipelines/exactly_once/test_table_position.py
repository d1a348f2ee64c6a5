"""Positions in a Delta table: exact in both directions, in the order in which Delta reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Start, reconcile
from pipelines.exactly_once.offset_chain import Batch, Skip, Stop, Tip, Verdict, decide
from pipelines.exactly_once.table_position import (
    TABLE,
    VERSION,
    checkpoint_of,
    delta_offset,
    is_of_table,
    position_of,
    position_since,
)
from pipelines.sources.kinds import ANY_KIND
from pipelines.storage.files import FolderFiles


def offset(version: int, index: int, *, first: bool = False, table: str = "t1") -> dict:
    return {
        "sourceVersion": 1,
        "reservoirId": table,
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": first,
    }


@given(st.integers(0, 10**9), st.integers(-1, 10**8), st.booleans())
def test_position_names_the_offset_that_it_came_from(version, index, first):
    said = offset(version, index, first=first)
    at = position_of(said)
    assert json.loads(delta_offset(at.ends[TABLE], "t1")) == said


def test_positions_are_in_the_order_of_reading():
    read = [offset(4, 0, first=True), offset(4, 7, first=True), offset(5, -1), offset(5, 3)]
    ends = [position_of(each).ends[TABLE] for each in read]
    assert ends == sorted(set(ends))


@pytest.mark.parametrize("index", [-20, -19, -2, 500_000_000])
def test_unknown_index_is_refused(index):
    with pytest.raises(ValueError, match="is unknown"):
        position_of(offset(1, index))


def test_offsets_of_topics_are_not_taken_for_those_of_a_table():
    assert not is_of_table({"topic": {"0": 1}})
    assert not is_of_table({"reservoirId": {"0": 1}})
    assert is_of_table(offset(0, -1))


def test_another_table_is_refused_as_a_recreated_topic():
    tip = Tip(reached=position_of(offset(3, -1)), txn_version=1)
    end = position_of(offset(4, -1, table="t2"))
    stop = decide(Batch(start=tip.reached.ends, end=end), tip)
    assert isinstance(stop, Stop)
    assert stop.verdict is Verdict.TOPIC_RECREATED


@pytest.mark.parametrize("written", range(1, 6))
def test_a_crash_between_two_files_of_the_checkpoint_loses_and_doubles_nothing(
    tmp_path: Path, written
):
    """With any of the files the table's end stays the start; an open batch 0 is skipped."""
    tip = Tip(reached=position_of(offset(3, 2)), txn_version=1)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    files = CheckpointFiles(FolderFiles(), str(tmp_path), ANY_KIND.parse)
    for name, text in checkpoint_of(tip.reached, "q")[:written]:
        files.write(name, text)

    there = files.read()
    settled = reconcile(there, tip)
    assert isinstance(settled, Start)
    assert settled.at == tip.reached.ends
    if there is not None and there.planned is not None:
        assert isinstance(decide(files.batch(there.planned.batch), tip), Skip)


def test_checkpoint_of_another_position_is_refused(tmp_path: Path):
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    files = CheckpointFiles(FolderFiles(), str(tmp_path), ANY_KIND.parse)
    for name, text in checkpoint_of(position_of(offset(3, 2)), "q"):
        files.write(name, text)
    stop = reconcile(files.read(), Tip(reached=position_of(offset(3, 1)), txn_version=1))
    assert isinstance(stop, Stop)
    assert stop.verdict is Verdict.TABLE_BEHIND


@pytest.mark.parametrize(
    ("since_ms", "commits", "found"),
    [
        (0, {0: 10, 1: 20}, 0),
        (10, {0: 10, 1: 20}, 0),
        (11, {0: 10, 1: 20}, VERSION),
        (21, {0: 10, 1: 20}, 2 * VERSION),
        (11, {3: 10, 4: 20}, 4 * VERSION),
        (21, {3: 10, 4: 20}, 2 * VERSION),
        # A file that was copied is older or newer than the commits around it.
        (15, {0: 10, 1: 20, 2: 12, 3: 30}, VERSION),
    ],
)
def test_stream_starts_at_the_first_commit_that_is_not_older(since_ms, commits, found):
    assert position_since(since_ms, commits, 2 * VERSION) == found


def test_stream_does_not_start_where_commits_may_be_missing():
    """The log was cleaned: version 2 may have been late enough, too."""
    assert "starts with version 3" in str(position_since(5, {3: 10, 4: 20}, 5 * VERSION))


def test_position_before_a_version_that_is_not_there_is_after_the_files_of_the_one_before():
    """Delta's change data feed loads the version at which it continues, also without a row."""
    at = position_of(offset(5, -1))
    texts = dict(checkpoint_of(at, "q", is_last=True))
    written = json.loads(texts["offsets/1"].splitlines()[-1])

    assert (written["reservoirVersion"], written["isStartingVersion"]) == (4, False)
    assert position_of(written) == at
    # Inside a version, which is there, Delta continues as it is.
    inside = position_of(offset(5, 3))
    assert checkpoint_of(inside, "q", is_last=True) == checkpoint_of(inside, "q")

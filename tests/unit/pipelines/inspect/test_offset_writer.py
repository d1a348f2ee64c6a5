"""A sink's new end is committed after the end that was shown, or not at all."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ChainError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.offset_moves import Move, setting
from pipelines.inspect.offset_writer import put
from pipelines.inspect.sink_status import all_sides
from tests.unit.pipelines.inspect.test_offset_moves import tip
from tests.unit.pipelines.inspect.test_status import IDS, TOPICS, A, Lake
from tests.unit.pipelines.local_hadoop import LocalHadoop


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def sides_of(lake):
    pipeline = read_pipeline(lake.file, {})
    (sides,) = all_sides(pipeline, lambda source: TOPICS)
    return pipeline, sides


def no_session():
    raise AssertionError("nothing needs a commit")


def move_to(offset, start=10):
    move = setting(tip({A: start}), {A: offset}, IDS)
    assert isinstance(move, Move)
    return move


def test_where_nothing_moves_only_the_checkpoint_is_set_aside(lake):
    lake.commit(10)
    lake.checkpoint(12)
    pipeline, sides = sides_of(lake)

    aside = put(pipeline, sides, move_to(10), no_session)

    assert aside is not None
    assert aside.startswith(str(lake.folder / "ck"))
    assert not (lake.folder / "ck" / "orders.lake").exists()


def test_where_another_writer_has_committed_meanwhile_nothing_is_changed(lake):
    lake.commit(10)
    lake.checkpoint(10)
    pipeline, sides = sides_of(lake)
    lake.commit(15)

    with pytest.raises(ChainError, match="lake"):
        put(pipeline, sides, move_to(4), LocalHadoop)

    assert (lake.folder / "ck" / "orders.lake").exists()


def test_a_sink_without_a_table_has_no_end_to_put(lake):
    pipeline, sides = sides_of(lake)

    with pytest.raises(RunError, match=r"sink `lake`: there is no table .*/lake to put it in"):
        put(pipeline, sides, move_to(4, start=0), LocalHadoop)

"""Status and offsets of a sink with rows of a state: nothing sets its checkpoint aside."""

from __future__ import annotations

import pytest

from tests.unit.pipelines.exactly_once.test_watermarks import WINDOWS
from tests.unit.pipelines.inspect.test_offset_moves import offsets, topics_are
from tests.unit.pipelines.inspect.test_status import TOPICS, Lake

STAYS = "cannot be followed: that would set its checkpoint aside, and its state is there"


@pytest.fixture
def lake(tmp_path, monkeypatch):
    topics_are(monkeypatch, TOPICS)
    made = Lake(tmp_path)
    text = WINDOWS.replace("/ck", str(tmp_path / "ck")).replace("/lake", str(tmp_path / "lake"))
    made.file.write_text(text)
    return made


def test_a_sink_whose_checkpoint_has_its_state_would_go_on(lake):
    lake.commit(12, batch=0)
    lake.checkpoint(12)
    lake.write("ck/orders.lake/state/0/0/1.delta", "")

    assert lake.status().stops == ""


def test_without_its_state_it_would_stop_and_no_trust_settles_it(lake, capsys):
    lake.commit(12, batch=0)

    assert lake.status().stops.startswith("its table is there and its state is gone")
    code, lines, _ = offsets(lake, capsys, "reconcile", "--execute", "--trust", "table")
    assert code == 1
    assert lines[0].startswith("lake: would stop: its table is there and its state is gone")
    assert "nothing was changed" not in lines[0]


def test_its_table_is_put_nowhere_else(lake, capsys):
    lake.commit(12, batch=0)
    lake.checkpoint(12)
    lake.write("ck/orders.lake/state/0/0/1.delta", "")

    code, lines, _ = offsets(lake, capsys, "set", "--to", "earliest", "--execute")

    assert code == 1
    assert lines[1].strip() == STAYS
    assert (lake.folder / "ck/orders.lake/state").is_dir()


def test_a_table_of_another_batch_than_its_state_would_stop(lake, capsys):
    """Also where the offsets of both agree, of which no trust is asked."""
    lake.commit(12, batch=4)
    lake.checkpoint(12)
    lake.write("ck/orders.lake/state/0/0/1.delta", "")

    code, lines, _ = offsets(lake, capsys, "reconcile", "--trust", "checkpoint")

    assert code == 1
    assert lines[0].startswith("lake: would stop: the table has more than the checkpoint planned")

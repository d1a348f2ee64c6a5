"""Spark's checkpoint of one sink, over files in memory."""

from __future__ import annotations

import pytest

from pipelines.base.errors import RunError
from pipelines.exactly_once.checkpoint import CheckpointFiles
from tests.unit.pipelines.memory import MemoryFiles, offset_text, parse_offset_text, wal_text

A = ("t", 0)


def checkpoint(offsets: dict[int, int], commits: list[int]) -> tuple[CheckpointFiles, MemoryFiles]:
    files = MemoryFiles()
    for batch, end in offsets.items():
        text = wal_text(offset_text({A: end}, {A: 2}, {"t": "id"}))
        files.texts[f"/ck/s/offsets/{batch}"] = text
        files.texts[f"/ck/s/offsets/.{batch}.crc"] = "crc"
    for batch in commits:
        files.texts[f"/ck/s/commits/{batch}"] = "v1\n{}"
    files.texts["/ck/s/metadata"] = '{"id":"query-1"}'
    return CheckpointFiles(files, "/ck/s", parse_offset_text), files


def test_a_folder_without_batches_is_no_checkpoint():
    assert checkpoint({}, [])[0].read() is None


def test_the_newest_planned_and_committed_batches_are_read():
    state = checkpoint({9: 90, 10: 100}, [9])[0].read()

    assert state is not None
    assert state.planned is not None
    assert state.committed is not None
    assert (state.planned.batch, dict(state.planned.end.ends)) == (10, {A: 100})
    assert (state.committed.batch, dict(state.committed.end.ends)) == (9, {A: 90})


def test_a_committed_batch_without_offsets_is_damage():
    for offsets in ({}, {0: 5}):
        state = checkpoint(offsets, [0, 1])[0].read()

        assert state is not None
        assert state.damaged == "commits/1 is there, offsets/1 is not"


def test_what_a_checkpoint_continues_is_read_until_its_first_batch_is_committed():
    files, memory = checkpoint({0: 10}, [])
    files.continues({A: 2})
    assert (state := files.read()) is not None
    assert (state.continues, state.damaged) == ({A: 2}, "")

    for torn in ("", "{", '{"t": 2}', '{"t": {"0": null}}'):
        memory.texts["/ck/s/continues.json"] = torn
        assert (state := files.read()) is not None
        assert state.damaged == "continues.json is not what was written"
    memory.texts["/ck/s/commits/0"] = "v1\n{}"
    assert (state := files.read()) is not None
    assert (state.continues, state.damaged) == ({}, "")


def test_a_batch_starts_where_the_one_before_ended():
    files, _ = checkpoint({0: 10, 1: 25}, [])

    assert files.batch(1).start == {A: 10}
    assert files.batch(1).end.ends == {A: 25}


def test_batch_0_starts_at_its_recorded_first_offset():
    batch = checkpoint({0: 10}, [])[0].batch(0)

    assert batch.start == {}
    assert batch.starts[A] == 2


def test_a_batch_whose_start_nobody_knows_is_refused():
    files, _ = checkpoint({5: 10}, [])

    with pytest.raises(RunError, match="offsets/4 is not there"):
        files.batch(5)
    with pytest.raises(RunError, match="offsets/6 is not there"):
        files.batch(6)


@pytest.mark.parametrize("text", ["", "v1\n{}", "v2\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}\n[]"])
def test_an_offset_log_of_another_shape_is_refused(text):
    files, memory = checkpoint({0: 10}, [])
    memory.texts["/ck/s/offsets/0"] = text

    with pytest.raises(RunError, match="/ck/s/offsets/0"):
        files.batch(0)


def test_a_checkpoint_is_set_aside_under_a_free_name():
    files, memory = checkpoint({0: 10}, [0])

    assert files.set_aside() == "/ck/s.set-aside-1"
    assert files.read() is None
    memory.texts["/ck/s/offsets/0"] = "again"
    assert files.set_aside() == "/ck/s.set-aside-2"
    assert memory.texts["/ck/s.set-aside-2/offsets/0"] == "again"


def test_what_a_kill_left_of_the_first_offsets_is_swept_and_nothing_else():
    there, files = checkpoint({0: 10}, [])
    left = "/ck/s/offsets/.0.1dcffc94.tmp"
    before = dict(files.texts)
    files.texts[left] = "half"

    there.sweep()

    assert files.texts == before

"""The chain of an Iceberg sink against a real catalog of PyIceberg: kills, races, expiry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import RunError
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip, Verdict, decide
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.iceberg.catalog import SingleAttempt
from tests.unit.pipelines.iceberg_lab import (
    TP,
    IcebergLab,
    LocalFiles,
    batch_of,
    end_of,
    upto,
)


@pytest.fixture
def lab(tmp_path: Path) -> IcebergLab:
    return IcebergLab(tmp_path)


class DiedError(BaseException):
    """In place of a kill."""


def others_commit(lab: IcebergLab, number: int) -> None:
    """A commit of another writer."""
    import pyarrow as pa

    lab.table().append(pa.table({"n": pa.array([number], pa.int64())}))


def commits_with(monkeypatch: pytest.MonkeyPatch, *failures: Any) -> None:
    """The next commits of sinks fail so: before it where it is an exception's class, after it
    where it is an exception; None commits."""
    due, commit = [*failures], SingleAttempt.commit_table

    def commit_table(self: Any, *arguments: Any) -> Any:
        failure = due.pop(0) if due else None
        if isinstance(failure, type):
            raise failure("before the commit")
        found = commit(self, *arguments)
        if failure is not None:
            raise failure
        return found

    monkeypatch.setattr(SingleAttempt, "commit_table", commit_table)


def expire(lab: IcebergLab, snapshots: list[int]) -> None:
    lab.table().maintenance.expire_snapshots().by_ids(snapshots).commit()


def ids(lab: IcebergLab) -> list[int]:
    return [each.snapshot_id for each in lab.table().snapshots()]


def test_rows_and_offsets_are_in_one_commit_that_the_next_run_goes_on_from(lab):
    chain = lab.loaded("r1")
    assert batch_of(chain, 0, 5)
    assert batch_of(chain, 5, 7, batch_id=1)

    after = lab.loaded("r2")

    assert lab.numbers() == [*range(7)]
    assert (end_of(after), len(lab.table().snapshots())) == ((2, 7), 2)
    assert not batch_of(after, 5, 7), "a replayed batch is skipped"


def test_a_batch_without_rows_commits_its_offsets(lab):
    chain = lab.loaded("r1")
    batch_of(chain, 0, 0)

    assert end_of(lab.chain("r2")) == (1, 0)
    assert lab.files() == []


def test_files_of_a_run_that_died_before_its_commit_are_removed_by_the_next_commit(lab):
    first = lab.loaded("r1")
    batch_of(first, 0, 3)
    first.half_write(range(3, 6))
    assert lab.files() == ["0000000001-r1", "0000000002-r1"]

    second = lab.loaded("r2")
    second.sweep()
    assert "0000000002-r1" in lab.files(), "the other run may be committing it yet"
    batch_of(second, 3, 6)

    assert lab.files() == ["0000000001-r1", "0000000002-r2"]
    assert lab.numbers() == [*range(6)]


def test_files_that_a_run_leaves_by_dying_after_its_first_commit_are_removed_at_the_next_start(
    lab, monkeypatch
):
    first = lab.loaded("r1")
    first.half_write(range(3))
    second = lab.loaded("r2")
    monkeypatch.setattr(second, "sweep", lambda: None)
    batch_of(second, 0, 3)
    assert lab.files() == ["0000000001-r1", "0000000001-r2"]

    lab.loaded("r3").sweep()

    assert lab.files() == ["0000000001-r2"]


def test_a_kill_after_the_commit_leaves_a_batch_that_the_next_run_skips(lab, monkeypatch):
    chain = lab.loaded("r1")
    commits_with(monkeypatch, None, DiedError())
    batch_of(chain, 0, 3)
    with pytest.raises(DiedError):
        batch_of(chain, 3, 6, batch_id=1)

    after = lab.loaded("r2")

    assert end_of(after) == (2, 6)
    assert not batch_of(after, 3, 6)
    assert lab.numbers() == [*range(6)]


def test_a_lost_answer_of_a_commit_that_is_there_is_no_second_commit(lab, monkeypatch):
    chain = lab.loaded("r1")
    commits_with(monkeypatch, CommitStateUnknownException("the answer was lost"))

    batch_of(chain, 0, 3)

    assert (end_of(lab.chain("r2")), lab.numbers()) == ((1, 3), [0, 1, 2])


def test_a_lost_request_is_sent_again(lab, monkeypatch):
    chain = lab.loaded("r1")
    commits_with(monkeypatch, CommitStateUnknownException, ConnectionError)

    batch_of(chain, 0, 3)

    assert (end_of(lab.chain("r2")), lab.numbers()) == ((1, 3), [0, 1, 2])
    assert lab.pauses == [1.0, 2.0]


def test_a_catalog_that_does_not_answer_for_a_while_is_asked_again(lab, monkeypatch):
    chain, due = lab.loaded("r1"), [ConnectionError("refused")] * 2

    def load_table(self: Any, name: Any) -> Any:
        if due:
            raise due.pop()
        return self._catalog.load_table(name)

    monkeypatch.setattr(SingleAttempt, "load_table", load_table, raising=False)

    batch_of(chain, 0, 3)

    assert (lab.numbers(), lab.pauses) == ([0, 1, 2], [1.0, 2.0])


def test_a_table_that_was_dropped_ends_the_run_with_a_sentence(lab):
    chain = lab.loaded("r1")
    lab.table().catalog.drop_table("shop.orders")

    with pytest.raises(RunError, match=r"sink `out`: shop\.orders cannot be read: Table does not"):
        batch_of(chain, 0, 3)


def test_moving_an_end_asks_for_no_spark(lab):
    """`offsets set` has no session."""
    batch_of(lab.loaded("r1"), 0, 3)
    chain = lab.loaded("r2")
    chain._files = pytest.fail
    assert chain.tip is not None
    back = TopicOffsets(ends={TP: 1}, topic_ids={"in": "id-in"})

    chain.move(Commit(start=chain.tip.reached.ends, end=back, txn_version=2))

    assert end_of(lab.chain("r3")) == (2, 1)


def test_files_whose_write_failed_with_its_machine_are_written_again(lab, monkeypatch):
    write, due = LocalFiles.write, [RuntimeError("Python worker exited unexpectedly (crashed)")]

    def failing(self: Any, rows: Any, folder: str) -> Any:
        paths = write(self, range(100, 106), folder) if due else write(self, rows, folder)
        for each in due:
            due.remove(each)
            raise each
        return paths

    monkeypatch.setattr(LocalFiles, "write", failing)

    batch_of(lab.loaded("r1"), 0, 3)

    assert (lab.numbers(), lab.pauses) == ([0, 1, 2], [1.0])


def test_a_commit_of_another_writer_that_comes_between_costs_an_attempt_and_no_row(
    lab, monkeypatch
):
    chain = lab.loaded("r1")
    batch_of(chain, 0, 3)
    attempt, meanwhile = chain._attempt, [100]

    def raced(*arguments: Any) -> None:
        # After the look, before the commit: `chain.table` is the one that was looked at.
        table = chain.table
        while meanwhile:
            others_commit(lab, meanwhile.pop())
        assert chain.table is table
        attempt(*arguments)

    monkeypatch.setattr(chain, "_attempt", raced)

    batch_of(chain, 3, 6, batch_id=1)

    assert lab.numbers() == [*range(6), 100]
    assert (end_of(lab.chain("r2")), len(lab.pauses)) == ((2, 6), 1)


def test_a_commit_of_another_run_of_the_sink_that_comes_between_stops_this_run(lab, monkeypatch):
    """PyIceberg by itself would put this commit on top of the other one."""
    mine, theirs = lab.loaded("r1"), lab.loaded("r2")
    attempt, meanwhile = mine._attempt, [theirs]

    def raced(*arguments: Any) -> None:
        while meanwhile:
            batch_of(meanwhile.pop(), 0, 4)
        attempt(*arguments)

    monkeypatch.setattr(mine, "_attempt", raced)

    with pytest.raises(StoppedError) as caught:
        batch_of(mine, 0, 5)
    assert caught.value.stop.verdict is Verdict.LOST_RACE
    assert lab.numbers() == [0, 1, 2, 3]


def test_a_run_that_lost_the_race_writes_no_file(lab):
    old, new = lab.loaded("r1"), lab.loaded("r2")
    batch_of(new, 0, 4)

    with pytest.raises(StoppedError):
        batch_of(old, 0, 5)
    assert lab.files() == ["0000000001-r2"]


def test_a_table_that_takes_no_commit_ends_the_run_with_a_sentence(lab, monkeypatch):
    chain = lab.loaded("r1")
    monkeypatch.setattr(
        SingleAttempt, "commit_table", lambda *_: (_ for _ in ()).throw(ValueError("no room"))
    )

    with pytest.raises(RunError, match=r"sink `out`: a commit into shop\.orders failed: no room"):
        batch_of(chain, 0, 3)


def test_the_walk_passes_the_commits_of_other_writers(lab):
    batch_of(lab.loaded("r1"), 0, 3)
    for number in (100, 101):
        others_commit(lab, number)

    assert end_of(lab.chain("r2")) == (1, 3)


def test_a_rollback_leads_to_the_offsets_of_the_rows_that_the_table_has_again(lab):
    chain = lab.loaded("r1")
    batch_of(chain, 0, 3)
    first = ids(lab)[0]
    batch_of(chain, 3, 6, batch_id=1)
    lab.table().manage_snapshots().rollback_to_snapshot(first).commit()

    after = lab.loaded("r2")

    assert end_of(after) == (2, 3), "its number is above the one that was rolled back"
    batch_of(after, 3, 6)
    assert (end_of(lab.chain("r3")), lab.numbers()) == ((3, 6), [*range(6)])
    assert "0000000002-r1" in lab.files(), "a snapshot of the past still names it"


def test_a_rollback_before_the_first_commit_of_a_run_stops_it(lab):
    """It has started already, from what the table had."""
    chain = lab.loaded("one")
    batch_of(chain, 0, 3)
    first = lab.table().current_snapshot().snapshot_id
    batch_of(chain, 3, 5, 1)
    after = lab.loaded("two")
    lab.table().manage_snapshots().rollback_to_snapshot(first).commit()

    with pytest.raises(StoppedError) as stopped:
        batch_of(after, 5, 8)

    assert stopped.value.stop.verdict is Verdict.TABLE_BEHIND
    assert end_of(lab.loaded("three"))[1] == 3


@pytest.mark.parametrize("is_between", [False, True])
def test_a_rollback_during_a_run_stops_it(lab, monkeypatch, is_between):
    """The next start reads again what is missing, unless a later commit hides that."""
    chain = lab.loaded("one")
    batch_of(chain, 0, 3)
    first, attempt = lab.table().current_snapshot().snapshot_id, chain._attempt
    batch_of(chain, 3, 5, 1)
    due = [lab.table().manage_snapshots().rollback_to_snapshot(first)]

    def raced(*arguments: Any) -> None:
        while due:
            due.pop().commit()
        attempt(*arguments)

    if is_between:
        monkeypatch.setattr(chain, "_attempt", raced)
    else:
        due.pop().commit()

    with pytest.raises(StoppedError) as stopped:
        batch_of(chain, 5, 8, 2)

    assert stopped.value.stop.verdict is Verdict.TABLE_BEHIND
    assert lab.numbers() == [0, 1, 2]
    # Of the run after it, whose number is that of the commit that is gone.
    again = lab.loaded("two")
    assert end_of(again)[1] == 3
    batch_of(again, 3, 6)
    batch_of(again, 6, 8, 1)
    assert lab.numbers() == [*range(8)]


def test_an_expired_commit_is_found_again_while_the_table_has_its_files(lab):
    chain = lab.loaded("r1")
    batch_of(chain, 0, 3)
    without_rows = decide(upto(5, 3), chain.tip)
    assert isinstance(without_rows, Commit)
    chain.append([], without_rows, 1)
    for number in (100, 101):
        others_commit(lab, number)
    expire(lab, ids(lab)[:-1])

    assert end_of(lab.chain("r2")) == (2, 5)


def rewritten(lab: IcebergLab) -> None:
    """As a compaction leaves it: none of our manifests is there."""
    table = lab.table()
    table.overwrite(table.scan().to_arrow())


def test_an_expired_commit_whose_files_were_rewritten_stops_the_start_with_its_offsets(lab):
    batch_of(lab.loaded("r1"), 0, 3)
    rewritten(lab)
    others_commit(lab, 100)
    expire(lab, ids(lab)[:-1])

    found = lab.chain("r2").load()

    assert isinstance(found, Unreadable)
    assert found.txn_version == 1
    assert "was expired" in found.hint
    assert '"end": {"in": {"0": 3}}' in found.hint


def test_an_expired_commit_is_believed_when_the_oldest_snapshot_in_sight_follows_on_it(lab):
    """With the parent's id kept, as the other engines keep it."""
    from pipelines.sinks.iceberg.snapshots import last_tip

    batch_of(lab.loaded("r1"), 0, 3)
    rewritten(lab)
    metadata = lab.table().metadata
    kept = [each for each in metadata.snapshots if each.summary["josefine.app-id"] is None]
    first, *_ = kept
    assert first.parent_snapshot_id == metadata.snapshots[0].snapshot_id
    newer = metadata.model_copy(update={"snapshots": kept})

    found = last_tip(newer, "josefine:p:out", list)

    assert isinstance(found, Tip)
    assert found.reached.ends == {TP: 3}


def test_a_rollback_that_expiry_hides_is_not_taken_for_the_rows_being_there(lab):
    """The property says 6, the table has the rows of 3."""
    chain = lab.loaded("r1")
    batch_of(chain, 0, 3)
    first = ids(lab)[0]
    batch_of(chain, 3, 6, batch_id=1)
    lab.table().manage_snapshots().rollback_to_snapshot(first).commit()
    others_commit(lab, 100)
    expire(lab, ids(lab)[:-1])

    assert isinstance(lab.chain("r2").load(), Unreadable)


def test_a_new_name_goes_on_where_the_old_one_ended_and_the_old_one_does_not(lab):
    batch_of(lab.loaded("r1", sink="old"), 0, 4)
    new = lab.chain("r2")
    assert new.load() is None

    new.take_over(new.others()[0])

    assert end_of(new)[1] == 4
    assert isinstance(lab.chain("r3", sink="old").load(), HandedOn)
    assert new.others() == []


def test_a_conflict_of_pyiceberg_is_ours():
    class Raced:
        def commit_table(self, *_: Any) -> None:
            raise CommitFailedException("raced")

    from pipelines.sinks.iceberg.catalog import ConflictError

    with pytest.raises(ConflictError):
        SingleAttempt(Raced()).commit_table(None, (), ())  # type: ignore[arg-type]

"""Fence, swap and rollback on real Delta tables: one commit each, with rows and offsets."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import RunError
from pipelines.deploy.swap import Wanted, fence, newest_step, prepare, rollback, swap
from pipelines.exactly_once.deployed import DEPLOYED, mark_of, replaced_by_deploy
from tests.unit.pipelines.deploy.chained import IDS, P, append, committer, filled, log_at, rows

WANT = Wanted(end=None, facts={}, since=0, replaced="old-print")


@pytest.fixture
def tables(tmp_path):
    live, shadow = tmp_path / "lake", tmp_path / "lake__shadow_d1"
    filled(live, "old", 30)
    filled(shadow, "new", 30, step=7)
    return live, shadow


def swapped(live: Path, shadow: Path, want: Wanted = WANT) -> int | None:
    fence(log_at(live), committer())
    return swap(log_at(live), log_at(shadow), want, committer())


def test_a_swap_is_one_commit_with_the_rows_and_the_offsets_of_the_shadow(tables):
    live, shadow = tables
    before = DeltaTable(str(live)).version()

    version = swapped(live, shadow)

    tip, newest = log_at(live).tip()
    assert version == newest == before + 2  # the fence and the swap
    assert rows(live) == [(n, "new") for n in range(30)]
    assert (tip.reached.ends, tip.reached.topic_ids) == ({P: 30}, IDS)
    assert mark_of(tip.said, DEPLOYED).replaced == "old-print"
    assert tip.said["mode"] == "append"
    assert mark_of(tip.said).before == before + 1
    append(live, range(30, 35), "new")
    assert len(rows(live)) == 35


def test_texts_in_the_log_may_have_any_character(tmp_path):
    """U+2028 ends no action, and the bounds of a file are read as they were written."""
    live, shadow = tmp_path / "lake", tmp_path / "lake__shadow_d1"
    kinds = "old\u2028", "\u0085new\U00020bb7"
    for path, kind in zip((live, shadow), kinds, strict=True):
        filled(path, kind, 10)

    swapped(live, shadow)

    found = DeltaTable(str(live)).to_pyarrow_dataset().to_table(filter=ds.field("kind") == kinds[1])
    assert found.num_rows == len(rows(live)) == 10
    assert rollback(log_at(live), "new-print", committer()) is not None
    assert rows(live) == [(n, kinds[0]) for n in range(10)]


def test_the_files_of_the_shadow_stay_when_it_is_removed(tables):
    live, shadow = tables
    swapped(live, shadow)

    for file in shadow.rglob("*.parquet"):
        file.unlink()

    assert len(rows(live)) == 30


@pytest.mark.parametrize("repeats", [True, False], ids=["this version", "an older version"])
def test_a_rollback_restores_rows_and_offsets_of_before_also_under_load(tables, repeats):
    live, shadow = tables
    table_id = DeltaTable(str(live)).metadata().id
    swapped(live, shadow)
    append(live, range(30, 45), "new", repeats=repeats)

    version = rollback(log_at(live), "new-print", committer())

    tip, newest = log_at(live).tip()
    assert version == newest
    assert rows(live) == [(n, "old") for n in range(30)]
    assert tip.reached.ends == {P: 30}
    assert mark_of(tip.said, DEPLOYED).replaced == "new-print"
    assert tip.txn_version == 3 + 1 + 1 + 1 + 1  # batches, fence, swap, batch, rollback
    assert DeltaTable(str(live)).metadata().id == table_id
    append(live, range(30, 40), "old")
    assert rows(live) == [(n, "old") for n in range(40)]
    assert rollback(log_at(live), "new-print", committer()) is None  # repeated after a kill


def test_a_fence_is_repeated_only_after_another_commit(tables):
    live, _ = tables

    first = fence(log_at(live), committer())
    again = fence(log_at(live), committer())
    append(live, range(30, 40), "old")
    later = fence(log_at(live), committer())

    assert (first.txn_version, again.txn_version, later.txn_version) == (4, 4, 6)
    assert later.reached.ends == {P: 40}
    assert newest_step(log_at(live)) is None


def test_a_commit_of_the_old_run_after_the_fence_prevents_the_swap(tables):
    live, shadow = tables
    fence(log_at(live), committer())
    append(live, range(30, 40), "old")

    assert swap(log_at(live), log_at(shadow), WANT, committer()) is None
    assert rows(live) == [(n, "old") for n in range(40)]


def test_a_delete_by_a_person_since_the_comparison_prevents_the_swap(tables):
    live, shadow = tables
    fence(log_at(live), committer())
    DeltaTable(str(live)).delete("id = 3")

    with pytest.raises(RunError, match=r"others changed rows.*version 4 \(DELETE\).*repeat"):
        swap(log_at(live), log_at(shadow), WANT, committer())

    assert len(rows(live)) == 29


def test_an_optimize_meanwhile_does_not_prevent_it(tables):
    live, shadow = tables
    fence(log_at(live), committer())
    DeltaTable(str(live)).optimize.compact()

    assert swap(log_at(live), log_at(shadow), WANT, committer()) == 5
    assert rows(live) == [(n, "new") for n in range(30)]
    rollback(log_at(live), "", committer())
    assert rows(live) == [(n, "old") for n in range(30)]


def test_a_shadow_that_is_gone_empties_no_table(tables, tmp_path):
    live, _ = tables
    fence(log_at(live), committer())

    for want in (WANT, Wanted(end=TopicOffsets(ends={P: 30}), facts={}, since=0)):
        with pytest.raises(RunError, match="the shadow table is gone"):
            swap(log_at(live), log_at(tmp_path / "none"), want, committer())

    assert len(rows(live)) == 30


def test_a_missing_table_gets_the_shadow_as_its_first_version(tables, tmp_path):
    _, shadow = tables

    version = swap(log_at(tmp_path / "fresh"), log_at(shadow), WANT, committer())

    assert version == 0
    assert len(rows(tmp_path / "fresh")) == 30
    assert rollback(log_at(tmp_path / "fresh"), "", committer()) is None


def test_a_rollback_names_the_deploy_that_it_cannot_take_back(tables):
    live, shadow = tables
    swapped(live, shadow)

    with pytest.raises(RunError, match=r"newest deploy is d1, of other files than these \(d2\)"):
        rollback(log_at(live), "", committer("d2"))


def test_a_rollback_refuses_when_vacuum_has_deleted_its_files(tables):
    live, shadow = tables
    old = {Path(uri).name for uri in DeltaTable(str(live)).file_uris()}
    swapped(live, shadow)
    (live / sorted(old)[0]).unlink()

    with pytest.raises(RunError, match="VACUUM has deleted 1 files of version 3, such as"):
        rollback(log_at(live), "", committer())

    assert rows(live) == [(n, "new") for n in range(30)]


def test_the_state_is_the_same_from_a_checkpoint_as_from_the_log(tables):
    live, shadow = tables
    swapped(live, shadow)
    by_log = log_at(live).state()
    DeltaTable(str(live)).create_checkpoint()
    for file in sorted((live / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()

    by_checkpoint = log_at(live).state()

    assert by_checkpoint.files.keys() == by_log.files.keys()
    for file, add in by_log.files.items():
        same = by_checkpoint.files[file]
        assert (same["size"], same["partitionValues"]) == (add["size"], add["partitionValues"])
        assert json.loads(same["stats"])["numRecords"] == json.loads(add["stats"])["numRecords"]
    assert by_checkpoint.metadata["schemaString"] == by_log.metadata["schemaString"]
    with pytest.raises(RunError, match="version 2 cannot be read: its log entry was deleted"):
        log_at(live).state(2)


@pytest.mark.parametrize("polls", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_polls_during_swaps_and_rollbacks_see_old_or_new_rows_never_a_mixture(tables, polls):
    """The table is swapped and taken back without a pause while two threads read it."""
    live, shadow = tables
    seen: Counter[frozenset[tuple[str, int]]] = Counter()
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            counted = Counter(kind for _, kind in rows(live))
            seen[frozenset(counted.items())] += 1

    readers = [threading.Thread(target=poll) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        deadline_s = time.monotonic() + 100
        while seen.total() < polls and time.monotonic() < deadline_s:
            assert swapped(live, shadow) is not None
            assert rollback(log_at(live), "", committer()) is not None
            DeltaTable(str(live)).create_checkpoint()  # a poll reads the whole log otherwise
    finally:
        over.set()
        for reader in readers:
            reader.join(30)

    old, new = (frozenset({(kind, 30)}) for kind in ("old", "new"))
    assert seen.keys() == {old, new}, seen
    assert seen.total() >= polls
    assert min(seen.values()) > polls / 20
    assert rows(live) == [(n, "old") for n in range(30)]


def test_a_version_that_another_writer_took_is_not_overwritten(tables):
    live, _ = tables
    text = (live / "_delta_log" / f"{2:020d}.json").read_text()

    assert not log_at(live).commit(2, "{}\n")
    assert (live / "_delta_log" / f"{2:020d}.json").read_text() == text
    assert not list((live / "_delta_log").glob(".*.tmp"))


def starts(live: Path) -> bool:
    """Whether some file may continue the table."""
    tip, _ = log_at(live).tip()
    return all(replaced_by_deploy(tip.said, own, "f", "lake") == "" for own in ("a", "b"))


def test_between_the_first_and_the_last_table_of_a_swap_no_run_starts(tables):
    live, shadow = tables
    assert not prepare(log_at(live), committer())  # not fenced
    fence(log_at(live), committer())
    assert prepare(log_at(live), committer())
    assert prepare(log_at(live), committer())  # repeated after a kill
    assert not starts(live)

    assert swap(log_at(live), log_at(shadow), WANT, committer()) is not None
    assert starts(live)


def test_a_prepared_table_is_taken_back_with_its_rows(tables):
    live, _ = tables
    fence(log_at(live), committer())
    prepare(log_at(live), committer())

    assert rollback(log_at(live), "new-print", committer()) is not None
    assert starts(live)
    assert rows(live) == [(n, "old") for n in range(30)]


def test_a_prepared_rollback_restores_the_rows_of_before_the_swap(tables):
    live, shadow = tables
    swapped(live, shadow)
    append(live, range(30, 45), "new")
    assert prepare(log_at(live), committer())
    assert not starts(live)

    assert rollback(log_at(live), "new-print", committer()) is not None
    assert rows(live) == [(n, "old") for n in range(30)]
    assert log_at(live).tip()[0].reached.ends == {P: 30}


def test_another_deploy_meanwhile_prevents_the_swap(tables):
    live, shadow = tables
    assert swapped(live, shadow) is not None
    fence(log_at(live), committer("d2"))

    with pytest.raises(RunError, match=r"others changed rows.*version 4 \(DEPLOY SWAP\)"):
        swap(log_at(live), log_at(shadow), WANT, committer("d2"))

"""VACUUM of real Delta tables: what compaction and killed writers leave, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from josefine_lake.writer.vacuum import expired
from tests.unit.josefine_lake.writer.test_delta_table import commit, numbers, opened

WEEK_MS = 7 * 24 * 3_600_000
RETENTION = "delta.deletedFileRetentionDuration"
LONG_MS = 60_000


def aged(*paths: Path, days: int) -> None:
    """As if they were written so many days before the files that a table has now."""
    for path in paths:
        then = path.stat().st_mtime - days * 86_400
        os.utime(path, (then, then))


def files(path: Path) -> set[str]:
    return {each.name for each in path.glob("*.parquet")}


def named(path: Path) -> set[str]:
    """The files of the newest version."""
    return {Path(uri).name for uri in DeltaTable(str(path)).file_uris()}


def test_files_that_compaction_replaced_are_deleted_once_the_retention_is_over(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "t"
    table = opened(lake)
    for number in (1, 2, 3):
        commit(table, number)
    table.compact(1 << 20, int(time.time() * 1_000))
    assert (table.vacuum(WEEK_MS, LONG_MS), len(files(lake))) == ((0, True), 4)

    DeltaTable(str(lake)).alter.set_table_properties({RETENTION: "interval 0 days"})
    assert table.vacuum(WEEK_MS, LONG_MS) == (0, True), "the topic's retention is longer"
    assert table.vacuum(0, LONG_MS) == (3, True)

    assert files(lake) == named(lake)
    commit(table, 4)
    assert numbers(lake) == [1, 2, 3, 4]


def test_the_tables_own_retention_counts_if_it_is_longer(tmp_path: Path) -> None:
    lake = tmp_path / "t"
    table = opened(lake)
    commit(table, 1)
    orphan = lake / "part-00000-of-a-killed-writer.parquet"
    orphan.write_bytes(b"x")
    aged(orphan, days=8)
    DeltaTable(str(lake)).alter.set_table_properties({RETENTION: "interval 9 days"})
    assert table.vacuum(WEEK_MS, LONG_MS) == (0, True)

    DeltaTable(str(lake)).alter.set_table_properties({RETENTION: "interval 7 days"})
    assert table.vacuum(WEEK_MS, LONG_MS) == (1, True)
    assert files(lake) == named(lake)


def test_other_tables_and_a_persons_files_within_the_folder_are_left_alone(tmp_path: Path) -> None:
    lake = tmp_path / "t"
    table = opened(lake)
    commit(table, 1)
    within = lake / "dead"
    write_deltalake(str(within), pa.table({"n": [1]}))
    notes, orphan = lake / "notes.txt", lake / "orphan.parquet"
    for path in (notes, orphan):
        path.write_bytes(b"x")
    aged(notes, orphan, *within.glob("*.parquet"), days=30)

    assert table.vacuum(WEEK_MS, LONG_MS) == (1, True)

    assert notes.exists()
    assert not orphan.exists()
    assert numbers(within) == [1]
    assert numbers(lake) == [1]


def test_a_deletion_ends_with_its_time_and_the_rest_follows(tmp_path: Path) -> None:
    lake = tmp_path / "t"
    table = opened(lake)
    commit(table, 1)
    orphans = [lake / f"orphan-{at}.parquet" for at in range(3)]
    for path in orphans:
        path.write_bytes(b"x")
    aged(*orphans, days=8)

    assert table.vacuum(WEEK_MS, 0) == (0, False)
    assert table.vacuum(WEEK_MS, LONG_MS) == (3, True)


def test_a_file_that_another_program_deletes_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "t"
    table = opened(lake)
    monkeypatch.setattr("josefine_lake.writer.delta_table.expired", lambda *_: ["gone.parquet"])
    assert table.vacuum(WEEK_MS, LONG_MS) == (1, True)


def test_an_empty_table_has_nothing_to_delete(tmp_path: Path) -> None:
    opened(tmp_path / "t")
    assert expired(DeltaTable(str(tmp_path / "t")), WEEK_MS) == []

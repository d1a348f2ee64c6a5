"""When small files are rewritten and old ones deleted; failures that must not delay the rows."""

from __future__ import annotations

from unittest import mock

import pytest
from deltalake.exceptions import DeltaError

from josefine_lake.report.table_stats import TableStats
from josefine_lake.writer import compaction
from josefine_lake.writer.upkeep import PAUSE_MS, VACUUM_COMMITS, VACUUM_MS_MIN, Upkeep
from tests.unit.josefine_lake.world import Lake, MemoryStore

WEEK_MS = 7 * 24 * 3_600_000


def test_files_are_deleted_after_a_number_of_commits_and_once_an_hour_at_most() -> None:
    upkeep = Upkeep()
    assert [n for n in range(1, 101) if upkeep.vacuums(n, 0)] == [50, 100]
    upkeep.vacuumed(0, is_finished=True)
    assert not upkeep.vacuums(VACUUM_COMMITS, VACUUM_MS_MIN - 1)
    assert upkeep.vacuums(VACUUM_COMMITS, VACUUM_MS_MIN)


def test_a_deletion_that_ran_out_of_time_goes_on_after_the_next_commits() -> None:
    upkeep = Upkeep()
    upkeep.vacuumed(0, is_finished=False)
    assert upkeep.vacuums(2 * VACUUM_COMMITS, 1)


def test_a_rewrite_that_failed_is_tried_again_later() -> None:
    upkeep = Upkeep()
    assert upkeep.compacts(compaction.FILES_MAX, 0, 0)
    upkeep.compact_failed(0)
    assert not upkeep.compacts(compaction.FILES_MAX, 0, PAUSE_MS - 1)
    assert upkeep.compacts(compaction.FILES_MAX, 0, PAUSE_MS)
    upkeep.compacted()
    assert upkeep.compacts(compaction.FILES_MAX, 0, 0)


class CrowdedStore(MemoryStore):
    """A table with too many files whose rewrite fails, and which counts its VACUUMs."""

    vacuums: list[int]
    fails = True

    def files_and_bytes(self) -> tuple[int, int]:
        return 10**6, 0

    def compact(self, file_bytes: int, at_ms: int) -> None:
        if self.fails:
            raise DeltaError("no space left")

    def vacuum(self, retention_ms: int, within_ms: int) -> tuple[int, bool]:
        self.vacuums.append(retention_ms)
        return 3, True


def written(lake: Lake, store: CrowdedStore, commits: int) -> TableStats:
    stats = TableStats()
    for _ in range(commits):
        lake.send(0, b'{"id": 1}')
        lake.run(store=store, stats=stats)
    return stats


@pytest.fixture
def store() -> CrowdedStore:
    made = CrowdedStore(Lake().main)
    made.vacuums = []
    return made


def test_the_rows_are_written_although_the_rewrite_of_small_files_fails(
    store: CrowdedStore,
) -> None:
    lake = Lake()
    store.table = lake.main

    stats = written(lake, store, 3)

    assert lake.found() == lake.expected()
    assert (stats.counts.commits, stats.counts.upkeep_failures, stats.counts.errors) == (3, 3, 0)
    assert stats.upkeep_problem == "no space left"
    store.fails = False
    assert written(lake, store, 1).upkeep_problem == ""


def test_the_rows_are_written_although_their_files_cannot_be_counted(
    store: CrowdedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake()
    store.table = lake.main
    monkeypatch.setattr(store, "files_and_bytes", mock.Mock(side_effect=OSError("no answer")))

    stats = written(lake, store, 2)

    assert lake.found() == lake.expected()
    assert (stats.counts.commits, stats.upkeep_problem) == (2, "no answer")


@pytest.mark.parametrize(("retention_ms", "vacuums"), [(WEEK_MS, [WEEK_MS]), (None, [])])
def test_a_table_is_vacuumed_with_its_topics_retention_or_never(
    store: CrowdedStore, retention_ms: int | None, vacuums: list[int]
) -> None:
    lake = Lake(deleted_retention_ms=retention_ms)
    store.table, store.fails = lake.main, False

    stats = written(lake, store, VACUUM_COMMITS)

    assert store.vacuums == vacuums
    assert stats.counts.files_deleted == 3 * len(vacuums)

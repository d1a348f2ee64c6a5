"""A store whose table was restored to an older version, by a program that knows nothing of it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_journal.delta_store import MIGRATED_KEY, VERSION_KEY, DeltaStore
from josefine_journal.errors import RecordsLost, StoreError
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journal, Journals
from josefine_journal.merging import merge
from josefine_journal.replicator import Replicator, Round
from tests.support.journal_world import MemoryLog


class World:
    """A topic and its store; every call is of a process that starts now unless `store` is kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = MemoryLog(1)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.root / "t")

    def store(self) -> DeltaStore:
        return DeltaStore(self.root, "t", None)

    def journal(self, store: DeltaStore | None = None) -> Journal:
        return Journals(None, "t", log=self.log, store=store or self.store()).journal("a")

    def append(self, first: int, last: int) -> None:
        async def run() -> None:
            journal = self.journal()
            for n in range(first, last + 1):
                event = Event(seq_nr=SeqNr(n), payload=Json(n))
                await journal.append([event], expected_seq_nr=n - 1)

        asyncio.run(run())

    def replicate(self, store: DeltaStore | None = None) -> Round:
        one = Replicator(self.log, store or self.store(), (0,), empty_commit_ms=0)
        return asyncio.run(one.round(0))

    def read(self, store: DeltaStore | None = None) -> list[int]:
        async def run() -> list[int]:
            return [each.event.seq_nr async for each in self.journal(store).read()]

        return asyncio.run(run())


@pytest.fixture
def stored_world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_a_restore_took_is_read_from_the_topic_and_stored_again(stored_world: World) -> None:
    stored_world.append(1, 5)
    stored_world.replicate()
    version = stored_world.table.version()
    stored_world.append(6, 9)
    asyncio.run(stored_world.journal().delete(SeqNr(2)))
    stored_world.replicate()
    at_work = stored_world.store()
    assert stored_world.read(at_work) == [3, 4, 5, 6, 7, 8, 9]

    stored_world.table.restore(version)

    for store in (at_work, stored_world.store()):
        assert store.taken_back((0,)).keys() == {0}
        assert stored_world.read(store) == [3, 4, 5, 6, 7, 8, 9]
    again = stored_world.replicate(at_work)
    assert again.rows > 0
    assert stored_world.store().taken_back((0,)) == {}
    stored_world.log.retain(0, again.replicated[0])
    assert stored_world.read() == [3, 4, 5, 6, 7, 8, 9]


def test_what_neither_the_restored_store_nor_the_topic_has_is_lost_with_its_offsets(
    stored_world: World,
) -> None:
    stored_world.append(1, 5)
    first = stored_world.replicate().replicated[0]
    version = stored_world.table.version()
    stored_world.append(6, 9)
    second = stored_world.replicate().replicated[0]
    stored_world.log.retain(0, second)

    stored_world.table.restore(version)

    for call in (stored_world.read, stored_world.replicate):
        with pytest.raises(RecordsLost) as lost:
            call()
        assert (lost.value.begin, lost.value.end) == (first, second)


def test_a_restore_to_before_all_rows_begins_at_the_topic_s_beginning(stored_world: World) -> None:
    stored_world.append(1, 3)
    stored_world.replicate()
    stored_world.table.restore(0)
    assert stored_world.store().snapshot((0,)).replicated(0) is None
    assert stored_world.read() == [1, 2, 3]
    stored_world.replicate()
    assert stored_world.read() == [1, 2, 3]


def test_a_restore_across_a_merge_has_the_rows_and_the_end_of_that_version(
    stored_world: World,
) -> None:
    versions = []
    for n in range(1, 5):
        stored_world.append(n, n)
        stored_world.replicate()
        versions.append(stored_world.table.version())
    assert merge(stored_world.store(), 0) == 4
    stored_world.append(5, 5)
    stored_world.replicate()

    stored_world.table.restore(versions[2])

    assert stored_world.read() == [1, 2, 3, 4, 5]
    stored_world.replicate()
    assert stored_world.read() == [1, 2, 3, 4, 5]


def test_an_older_copy_of_the_store_under_a_process_at_work_is_read_as_it_is(
    stored_world: World,
) -> None:
    stored_world.append(1, 3)
    stored_world.replicate()
    shutil.copytree(stored_world.root / "t", stored_world.root / "copy")
    stored_world.append(4, 5)
    at_work = stored_world.store()
    stored_world.replicate(at_work)
    assert stored_world.read(at_work) == [1, 2, 3, 4, 5]

    shutil.rmtree(stored_world.root / "t")
    shutil.copytree(stored_world.root / "copy", stored_world.root / "t")
    stored_world.append(6, 6)
    stored_world.replicate()  # as many versions as before, and others

    assert stored_world.read(at_work) == [1, 2, 3, 4, 5, 6]
    files = at_work.snapshot((0,)).files(0)
    assert [each.path for each in files if not (at_work.path / each.path).exists()] == []


def test_rows_without_the_end_of_their_partition_are_no_store_to_go_on_with(
    stored_world: World,
) -> None:
    """A partial restore, or OPTIMIZE by another program: files are not what we wrote."""
    stored_world.append(1, 3)
    stored_world.replicate()
    (ends,) = [each for each in stored_world.table.file_uris() if "replicated-" in each]
    Path(ends).unlink()
    stored_world.table.repair()
    with pytest.raises(StoreError, match="partition 0 has rows, but no stored end offset"):
        stored_world.read()


def test_a_store_of_layout_2_that_was_migrated_can_be_restored_to_before(
    stored_world: World,
) -> None:
    stored_world.append(1, 3)
    stored_world.replicate()
    as_layout_2(stored_world)
    version = stored_world.table.version()
    assert stored_world.store().snapshot((0,)).replicated(0) == 3
    assert stored_world.read() == [1, 2, 3]
    stored_world.append(4, 6)
    stored_world.replicate()
    assert stored_world.table.metadata().configuration[VERSION_KEY] == "3"

    stored_world.table.restore(version)

    assert stored_world.table.metadata().configuration[VERSION_KEY] == "2"
    assert stored_world.read() == [1, 2, 3, 4, 5, 6]
    stored_world.replicate()
    assert stored_world.table.metadata().configuration[VERSION_KEY] == "3"
    assert stored_world.read() == [1, 2, 3, 4, 5, 6]


def test_a_migration_that_died_before_the_ends_were_files_is_finished_by_the_next_commit(
    stored_world: World,
) -> None:
    stored_world.append(1, 3)
    stored_world.replicate()
    as_layout_2(stored_world)
    said = {VERSION_KEY: "3", MIGRATED_KEY: "2"}
    stored_world.table.alter.set_table_properties(said, raise_if_not_exists=False)
    assert stored_world.store().snapshot((0,)).replicated(0) == 3
    stored_world.append(4, 4)
    stored_world.replicate()
    assert stored_world.read() == [1, 2, 3, 4]
    assert [each for each in stored_world.table.file_uris() if "replicated-" in each]


def as_layout_2(world: World) -> None:
    """What an older program left: the end of a partition is in its transaction only."""
    table = world.table
    table.alter.set_table_properties({VERSION_KEY: "2"}, raise_if_not_exists=False)
    (ends,) = [each for each in table.file_uris() if "replicated-" in each]
    Path(ends).unlink()
    world.table.repair()

"""The store's own record of the topic's partition count: it is there when the topic is empty."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_journal.delta_store import PARTITIONS_KEY, DeltaStore
from josefine_journal.errors import TopicWidened
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog


def stored(root: Path, partition_count: int | None) -> MemoryLog:
    """A topic of one partition of which the store has all, and the topic nothing."""

    async def run() -> MemoryLog:
        log = MemoryLog(1)
        store = DeltaStore(root, "t", None, partition_count=partition_count)
        for key in "abcd":
            event = Event(seq_nr=SeqNr(1), payload=Json(key))
            await Journals(None, "t", log=log).journal(key).append([event])
        await Replicator(log, store, (0,)).round(0)
        log.retain(0, (await log.end_offsets((0,)))[0])
        log.widen(4)
        return log

    return asyncio.run(run())


def opened(root: Path, partition_count: int) -> DeltaStore:
    store = DeltaStore(root, "t", None, partition_count=partition_count)
    store.snapshot((0,))
    return store


def test_a_store_of_another_partition_count_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    opened(tmp_path, 1)
    with pytest.raises(TopicWidened, match=r"were written over 1 \(as the store .* records\)"):
        opened(tmp_path, 4)


def test_a_store_without_a_count_is_asked_by_its_keys(tmp_path: Path) -> None:
    """One of an older program; it gets the count when its layout is migrated."""
    stored(tmp_path, None)
    with pytest.raises(TopicWidened, match=r"the id '[ad]' in partition 0 of the store"):
        opened(tmp_path, 4)
    opened(tmp_path, 1)


def test_readers_of_a_topic_that_is_empty_are_refused_by_the_store(tmp_path: Path) -> None:
    log = stored(tmp_path, 1)

    async def read() -> None:
        journals = Journals(None, "t", log=log.opened_again(), store=tmp_path)
        assert [each async for each in journals.journal("a").read()] == []

    with pytest.raises(
        TopicWidened, match="has 4 partitions, but its journals were written over 1"
    ):
        asyncio.run(read())


def test_a_count_that_changes_stops_who_has_the_store_open(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    at_work = opened(tmp_path, 1)
    DeltaStore(tmp_path, "t", None).set_partition_count(4)
    assert DeltaTable(tmp_path / "t").metadata().configuration[PARTITIONS_KEY] == "4"
    with pytest.raises(TopicWidened):
        at_work.snapshot((0,))

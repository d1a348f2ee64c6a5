"""Journals over a log and a store, in any order of writes, replication, deaths and retention."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.journal_lives import Life
from tests.support.journal_world import MemoryStore

STEPS = 45


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32))
@example(seed=411)  # a head from the cache, of which the topic had lost a part
@example(seed=16246491)  # an append replicated before its writer looked
def test_reader_of_store_and_topic_has_neither_gap_nor_double(seed: int) -> None:
    """Checklist rows 59, 61, 62, 64 and 77."""
    asyncio.run(Life(seed, MemoryStore()).run(STEPS))


@pytest.mark.parametrize("seed", range(4))
def test_the_same_holds_over_delta(seed: int) -> None:
    """Its files are merged meanwhile."""
    from josefine_journal.delta_store import DeltaStore
    from josefine_journal.merging import merge

    with TemporaryDirectory() as folder:
        store = DeltaStore(Path(folder), "t", None)
        life = Life(seed, store, lambda partition: merge(store, partition))
        seen = asyncio.run(life.run(STEPS))
    assert {"R", "t"} <= set(seen)


def test_every_kind_of_step_is_in_a_few_lives() -> None:
    seen: set[str] = set()
    for seed in range(5):
        seen |= set(asyncio.run(Life(seed, MemoryStore()).run(STEPS)))
    assert seen == set("aedfpmrcRTkKt")

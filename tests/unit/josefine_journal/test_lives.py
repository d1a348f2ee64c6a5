"""Journals over a log and a store, in any order of writes, replication, deaths and retention."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.journal_lives import Life, run_life
from tests.support.journal_world import MemoryStore

STEPS = 45


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32))
@example(seed=411)  # a head from the cache, of which the topic had lost a part
@example(seed=16246491)  # an append replicated before its writer looked
def test_reader_of_store_and_topic_has_neither_gap_nor_double(seed: int) -> None:
    """Checklist rows 59, 61, 62, 64, 77 and 80."""
    live(seed)


def live(seed: int) -> dict[str, int]:
    store = MemoryStore()
    return run_life(Life(seed, store, lambda p, ms: store.newest.expired(p, ms)), STEPS)


@pytest.mark.slow
def test_two_thousand_lives_lose_no_event_and_bring_none_back() -> None:
    """Checklist rows 59, 61, 62, 64, 77 and 80."""
    for seed in range(2_000):
        try:
            live(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("seed", range(4))
def test_the_same_holds_over_delta(seed: int) -> None:
    """Its files are merged meanwhile."""
    from josefine_journal.delta_store import DeltaStore
    from josefine_journal.merging import merge
    from josefine_journal.queries import expired

    with TemporaryDirectory() as folder:
        store = DeltaStore(Path(folder), "t", None)
        life = Life(
            seed,
            store,
            lambda partition, now_ms: expired(store.snapshot((partition,)), partition, now_ms),
            lambda partition: merge(store, partition),
        )
        seen = run_life(life, STEPS)
    assert {"R", "t"} <= set(seen)


def test_every_kind_of_step_is_in_a_few_lives() -> None:
    seen: set[str] = set()
    for seed in range(5):
        seen |= set(live(seed))
    assert seen == {*"aedfpmrcRTkKtx", "expired"}

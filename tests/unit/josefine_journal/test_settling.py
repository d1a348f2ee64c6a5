"""Records of a partition as rows: the store is asked once for what the rows need."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from josefine_journal import settling
from josefine_journal.actions import Delete
from josefine_journal.events import SeqNr
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last
from josefine_journal.settling import Settling, lost_to_of
from josefine_journal.taking import Taken
from tests.unit.josefine_journal.test_expiring import DAY, append


def deleted(offset: int) -> ActionRecord:
    return ActionRecord(action=Delete(to=SeqNr(9)), topic="t", partition=0, offset=offset,
                        timestamp_ms=0, value=None, headers=())  # fmt: skip


class Store:
    """A snapshot with last sequence numbers; it notes the keys that it is asked for."""

    def __init__(self, lost_to: int = 0, **lasts: int) -> None:
        self.asked: list[list[str]] = []
        self._lost_to = lost_to
        self._lasts = {key: Last(seq_nr=SeqNr(number), offset=1) for key, number in lasts.items()}

    def lasts(self, partition: int, keys: Sequence[str]) -> dict[str, Last]:
        self.asked.append([*keys])
        return {key: self._lasts[key] for key in keys if key in self._lasts}

    def lost_to(self, partition: int) -> int:
        return self._lost_to

    def outline(self, partition: int, key: str) -> Any:
        return SimpleNamespace(begin_offset=3 if key == "purged" else 0)


def taken(begin: int, **by_key: list[ActionRecord]) -> Taken:
    return Taken(topic="t", partition=0, begin=begin, end=begin + 1, by_key=dict(by_key))


def test_only_journals_whose_rows_need_their_last_number_are_asked_for_and_once() -> None:
    store, one = Store(a=4), Settling()

    one.batch(store, taken(5, a=[deleted(5)], b=[append(6, DAY)]))
    one.batch(store, taken(7, a=[deleted(7)]))

    assert store.asked == [["a"]]


def test_after_a_commit_of_another_process_the_store_is_asked_again() -> None:
    store, one = Store(a=4), Settling()
    one.batch(store, taken(5, a=[deleted(5)]))

    one.forget([1])
    one.batch(store, taken(6, a=[deleted(6)]))
    one.forget([0])
    one.batch(store, taken(7, a=[deleted(7)]))

    assert store.asked == [["a"], ["a"]]


def test_the_cache_keeps_the_journals_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LASTS_MAX", 2)
    store, one = Store(), Settling()
    for offset, key in enumerate(["a", "b", "a", "c", "a", "b"]):
        one.batch(store, taken(offset, **{key: [deleted(offset)]}))

    assert store.asked == [["a"], ["b"], ["c"], ["b"]]


def test_a_batch_has_the_range_of_what_was_taken() -> None:
    batch = Settling().batch(Store(), taken(5, b=[append(6, DAY)]))

    assert (batch.partition, batch.begin, batch.end, batch.lost_to) == (0, 5, 6, 0)
    assert [key for key, _ in batch.records] == ["b"]


def test_a_lost_range_matters_until_a_purge_after_it() -> None:
    assert lost_to_of(Store(lost_to=3), 0, "a", None) == 3
    assert lost_to_of(Store(lost_to=3), 0, "purged", None) == 0
    assert lost_to_of(Store(lost_to=3), 0, "purged", Last(seq_nr=SeqNr(1), offset=1)) == 3
    assert lost_to_of(Store(), 0, "a", None) == 0

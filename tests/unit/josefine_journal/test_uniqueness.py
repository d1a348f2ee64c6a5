"""A number that the store has twice: a copy is passed over, a contradiction is an error."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from josefine_broker.records.builder import Record
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import DataIntegrityViolated
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.records import (
    ActionRecord,
    RecordMetadata,
    action_record,
    encode_append,
    headers_of,
)
from josefine_journal.replicator import Replicator
from josefine_journal.uniqueness import Appends, unique
from tests.support.journal_world import MemoryLog


def append(offset: int, said: dict[int, object]) -> ActionRecord:
    events = [Event(seq_nr=SeqNr(n), payload=Json(said[n])) for n in sorted(said)]
    action, value = encode_append(
        events, RecordMetadata(), origin=None, version=None, expected_seq_nr=None
    )
    found = action_record("t", 0, Record(b"id", value, headers_of(action, ()), offset, offset))
    assert found is not None
    return found


def stored(records: list[ActionRecord], size: int, opened: list[int] | None = None) -> Appends:
    """As a snapshot gives them, so many at a time."""

    def appends(begin: int) -> Iterator[list[ActionRecord]]:
        if opened is not None:
            opened.append(begin)
        wanted = [each for each in records if each.action.range.last >= begin]  # type: ignore[union-attr]
        for at in range(0, len(wanted), size):
            yield wanted[at : at + size]

    return appends


SAID = st.dictionaries(st.integers(1, 6), st.integers(0, 1), min_size=1, max_size=3)


@given(log=st.lists(SAID, max_size=7), begin=st.integers(1, 5), size=st.integers(1, 3))
@example(log=[{5: 0, 6: 0}, {1: 0}, {1: 0}, {5: 1}], begin=1, size=1)  # passed, then needed
def test_only_what_contradicts_an_earlier_event_is_an_error(
    log: list[dict[int, int]], begin: int, size: int
) -> None:
    """Checklist row 65. Against every pair of appends, of the numbers that were asked for."""
    records = [append(offset, dict(said)) for offset, said in enumerate(log)]
    bad = [
        (offset, n)
        for offset, said in enumerate(log)
        for n in said
        if n >= begin and any(each.get(n, said[n]) != said[n] for each in log[:offset])
    ]
    first = min(bad, default=(len(log), 0))[0]

    found: list[ActionRecord] = []
    told: DataIntegrityViolated | None = None
    try:
        for part in unique(stored(records, size), begin):
            found += part
    except DataIntegrityViolated as error:
        told = error

    assert (told is not None) == bool(bad)
    if told is None:
        assert found == [each for each in records if max(log[each.offset]) >= begin]
    else:
        assert (first, told.seq_nr) in bad
        assert str(told).endswith(f"with another event, at t-0 offset {first}")
        assert all(each.offset < first for each in found)


def test_a_tail_that_was_written_again_is_gone_through_once_more_and_not_for_each_copy() -> None:
    """Checklist row 65. Twice in a row, each record again and again, or the whole of it."""
    once = [append(n, {n + 1: "x"}) for n in range(50)]
    tail = [replace(each, offset=each.offset + 50) for each in once]
    for records, most in (
        ([*once, *tail], 2),
        ([*once, *tail, *(replace(each, offset=each.offset + 100) for each in once)], 3),
    ):
        opened: list[int] = []
        assert sum(len(part) for part in unique(stored(records, 7, opened), 1)) == len(records)
        assert len(opened) == most


def test_a_reader_is_told_of_a_contradiction_in_the_store_or_takes_the_first(
    tmp_path: Path,
) -> None:
    """Checklist row 65. Two writers who asked nobody; one of them wrote a copy, too."""

    async def run() -> None:
        log, store = MemoryLog(1), DeltaStore(tmp_path, "t", None)
        for said in ({1: "a", 2: "a"}, {3: "a"}, {3: "a"}, {4: "a"}, {4: "b"}, {5: "a"}):
            one = append(0, dict(said))
            headers = headers_of(one.action, ())
            await log.write(0, Record(b"id", one.value, headers, 7))
        await Replicator(log, store, (0,)).round(0, is_last=True)

        strict = Journals(None, "t", log=log, store=store).journal("id")
        told = "Data integrity violated: sequence number 4 is at t-0 offset 3 and, with another "
        with pytest.raises(DataIntegrityViolated, match=told):
            _ = [each async for each in strict.read()]
        assert [each.event.seq_nr async for each in strict.read(5)] == [5]
        assert await strict.pointer() == 5

        mild = Journals(None, "t", log=log, store=store, unique_seq_nrs=False).journal("id")
        found = [(each.event.seq_nr, each.event.payload) async for each in mild.read()]
        assert found == [(n, Json("a")) for n in (1, 2, 3, 4, 5)]

        await strict.delete(4)
        assert [each.event.seq_nr async for each in strict.read()] == [5]

    asyncio.run(run())

"""The writer of one table in memory: every record once, whatever kills or races it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.writer.failpoints import NAMES
from josefine_lake.writer.verdicts import StoppedTable, by_chain
from pipelines.exactly_once.offset_chain import Stop, Verdict
from tests.unit.josefine_lake.world import WALL_MS, KilledError, Lake, MemoryTable

GOOD, BAD = b'{"id": 1}', b"x"
VALUES = st.lists(st.sampled_from([GOOD, BAD]), max_size=5)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        VALUES,
        st.sampled_from([*NAMES, "race", "none"]),
        st.integers(1, 3),
    ),
    max_size=6,
)


@given(steps=STEPS, file_bytes=st.sampled_from([100, 300, 1 << 30]))
@settings(max_examples=150, deadline=None)
def test_every_record_is_a_row_or_a_dead_letter_once_whatever_kills_or_races_its_writer(
    steps: list[tuple[int, list[bytes], str, int]], file_bytes: int
) -> None:
    lake = Lake(target_file_bytes=file_bytes)

    for partition, values, what, hit in steps:
        lake.send(partition, *values)
        disturbed(lake, what, hit)
    lake.run()

    assert lake.found() == lake.expected()
    ends = {TopicPartition("t", at): len(values) for at, values in enumerate(lake.values)}
    assert all(lake.group.get(tp, 0) == end for tp, end in ends.items())


def disturbed(lake: Lake, what: str, hit: int) -> None:
    """Run a writer that dies at the hit-th visit of a place, or is overtaken there."""
    left: list[int] = [hit]
    stops: list[Verdict | None] = []

    def at(place: str) -> None:
        if place == ("before_commit" if what == "race" else what):
            left[0] -= 1
            if left[0] == 0 and what == "race":
                lake.run()
            elif left[0] == 0:
                raise KilledError

    with suppress(KilledError):
        try:
            lake.run(at)
        except StoppedTable as error:
            assert what == "race"
            stops.append(error.stopped.verdict)
    assert set(stops) <= {Verdict.LOST_RACE}


def test_of_two_writers_the_slower_one_stops_with_the_verdict_and_writes_nothing() -> None:
    lake = Lake()
    lake.send(0, GOOD, GOOD)

    with pytest.raises(StoppedTable, match="another run of this sink has committed"):
        lake.run(lambda place: lake.run() if place == "before_commit" else None)

    assert lake.found() == lake.expected()


def dropped(lake: Lake) -> None:
    lake.main.commits.clear()


def restored(lake: Lake) -> None:
    lake.main.commits.pop()


def recreated(lake: Lake) -> None:
    lake.id = "2"


def shortened(lake: Lake) -> None:
    lake.values[0].pop()
    lake.group.clear()


def expired(lake: Lake) -> None:
    lake.send(0, GOOD, GOOD)
    lake.first[0] = len(lake.values[0]) - 1


def letters_dropped(lake: Lake) -> None:
    lake.dead.commits.clear()


@pytest.mark.parametrize(
    ("happens", "verdict"),
    [
        (dropped, Verdict.TABLE_HAS_NOTHING),
        (restored, Verdict.TABLE_BEHIND),
        (recreated, Verdict.TOPIC_RECREATED),
        (shortened, Verdict.TOPIC_SHORTER),
        (expired, Verdict.RECORDS_LOST),
        (letters_dropped, Verdict.DEAD_LETTERS_GONE),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_table_or_topic_that_was_replaced_or_cut_is_a_verdict_and_nothing_is_written(
    happens: object, verdict: Verdict
) -> None:
    lake = Lake()
    lake.send(0, GOOD, BAD)
    lake.run()
    lake.send(0, GOOD)
    lake.run()
    assert callable(happens)
    happens(lake)
    before = (len(lake.main.commits), len(lake.dead.commits))

    with pytest.raises(StoppedTable) as stop:
        lake.run()

    assert stop.value.stopped.verdict is verdict
    assert (len(lake.main.commits), len(lake.dead.commits)) == before


def test_no_record_of_a_topic_that_was_created_again_between_two_looks_is_written() -> None:
    lake = Lake(partitions=1)
    lake.send(0, GOOD)
    lake.run()
    lake.send(0, GOOD)

    def create_again() -> None:
        # The client follows the new topic by itself: its records start at the old position.
        recreated(lake)
        lake.values = [[GOOD] * 4]

    lake.before_fetch = create_again
    with pytest.raises(StoppedTable) as stop:
        lake.run()

    assert stop.value.stopped.verdict is Verdict.TOPIC_RECREATED
    assert lake.found()[0] == [(0, 0)]


def test_trust_table_continues_at_the_tables_end_after_a_restore() -> None:
    lake = Lake()
    lake.send(0, GOOD)
    lake.run()
    lake.send(0, GOOD)
    lake.run()
    lake.main.commits.pop()

    lake.run(trust=True)

    assert lake.found() == lake.expected()


def test_a_file_has_the_time_of_the_calendar_in_its_tables_log() -> None:
    lake = Lake()
    lake.send(0, GOOD, BAD)

    lake.run()

    assert len(lake.closed_ms) == 2
    assert min(lake.closed_ms) >= WALL_MS


def test_a_table_that_moved_is_filled_from_the_start_by_the_commands_of_the_verdict() -> None:
    lake = Lake()
    lake.send(0, GOOD, BAD, GOOD)
    lake.run()
    stopped = by_chain(lake.table, Stop(verdict=Verdict.OTHER_CHAIN))
    move, trust = stopped.ways

    assert "--config josefine.table.location=" in move
    lake.main, lake.dead = MemoryTable(), MemoryTable()
    with pytest.raises(StoppedTable):
        lake.run()  # the group has offsets, and the new table has none

    assert "--trust table --once" in trust
    lake.run(trust=True)
    assert lake.found() == lake.expected()


def test_pending_dead_letters_are_committed_once_they_have_the_size_of_a_file() -> None:
    """They wait in memory, and the lag may be a day."""
    lake = Lake(target_file_bytes=500)
    lake.send(0, *[BAD] * 20)

    lake.run()

    assert len(lake.dead.commits) > 1
    assert lake.found() == lake.expected()


def test_fail_stops_the_table_at_the_first_record_that_does_not_decode() -> None:
    lake = Lake()
    lake.send(1, GOOD, BAD)
    lake.letters = False

    with pytest.raises(StoppedTable, match="t-1 offset 1: not JSON"):
        lake.run()

    assert lake.main.commits == []
    ((where, offset, why),) = lake.notes
    # No offset beyond the table's end: the next start would take its rows for lost.
    assert (where.partition, offset) == (1, 0)
    assert "t-1 offset 1: not JSON" in why

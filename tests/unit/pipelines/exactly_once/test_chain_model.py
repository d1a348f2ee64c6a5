"""Exactly once, against a model: random batches, crashes, lost checkpoints, lost log entries.

A failure prints the seed; add it to REGRESSIONS with its fix.
"""

from __future__ import annotations

from random import Random

import pytest

from josefine_spark.base.topic_offsets import flat
from pipelines.exactly_once.checkpoint import CONTINUES
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.dead_letter_chain import raised
from pipelines.exactly_once.offset_chain import Verdict
from pipelines.sinks.delta_log import DeltaLogReader
from tests.unit.pipelines.engine import (
    CHECKPOINT,
    DEAD,
    STEPS_TAKEN,
    STOPS_OF_LOST_LOG_ENTRIES,
    STOPS_OF_TABLES_THAT_WENT_BACK,
    TABLE,
    CrashError,
    LostError,
    Run,
    StoppedError,
    World,
)

SEEDS = range(100)
PLACES = (*STEPS_TAKEN, "after_set_aside", "mid_commit:1", "mid_commit:1", "before_commit")
REGRESSIONS: tuple[int, ...] = ()


def attempt(world: World, crash_chance: float, trust: Trust = Trust.NEITHER) -> str:
    try:
        Run(world, crash_chance, trust).go()
    except CrashError:
        return "crash"
    except LostError:
        return "lost"
    except StoppedError as stopped:
        return stopped.verdict.name
    return "done"


def to_the_end(world: World) -> None:
    assert attempt(world, 0.0) == "done"


def check(world: World) -> None:
    """Each record once, in the right table; both chains at the topics' ends."""
    everything = world.records({}, world.visible())
    rows, dead = sorted(world.table.rows), sorted(world.dead.rows)
    assert rows == [r for r in everything if not world.is_bad(r)]
    assert dead == [r for r in everything if world.is_bad(r)]
    own, _ = DeltaLogReader(world.files, TABLE, "own").last_tip()
    dead, _ = DeltaLogReader(world.files, DEAD, "dead").last_tip()
    for tip in (own, raised(dead, own, DEAD)):
        # A partition without records need not be known: it cannot be read twice.
        assert {p: tip.reached.ends.get(p, 0) for p in world.visible()} == world.visible()


def disturb(world: World) -> None:
    rng = world.rng
    world.batch_rows = rng.randint(1, 9)
    if rng.random() < 0.5:
        world.produce(rng.randint(0, 12))
    if rng.random() < 0.15:
        world.ends.setdefault(("t", len(world.ends)), rng.randint(0, 4))
    if rng.random() < 0.2:
        world.table.commit_of_others()
        world.dead.commit_of_others()


@pytest.mark.parametrize("seed", [*SEEDS, *REGRESSIONS])
def test_crashes_and_lost_checkpoints_neither_lose_nor_repeat_a_record(seed):
    """Checklist row 88.

    Nothing here needs a person: no run may stop with a verdict.
    """
    rng = Random(seed)
    world = World(rng)
    world.produce(20)

    for _ in range(30):
        assert attempt(world, rng.choice([0.0, 0.05, 0.3])) in ("done", "crash")
        disturb(world)
        if rng.random() < 0.25:
            world.files.remove(CHECKPOINT)

    to_the_end(world)
    check(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_log_entries_are_replayed_or_settled_by_trusting_the_table(seed):
    rng = Random(seed)
    world = World(rng)
    world.produce(20)

    for _ in range(20):
        outcome = attempt(world, rng.choice([0.0, 0.1, 0.3]))
        if outcome not in ("done", "crash"):
            assert Verdict[outcome] in STOPS_OF_LOST_LOG_ENTRIES
            attempt(world, 0.1, Trust.TABLE)
        disturb(world)
        for log in ("offsets", "commits"):
            numbers = [int(n) for n in world.files.names(f"{CHECKPOINT}/{log}")]
            if numbers and rng.random() < 0.3:
                world.files.remove(f"{CHECKPOINT}/{log}/{max(numbers)}")
        there = world.files.read_text(f"{CHECKPOINT}/{CONTINUES}")
        if there and rng.random() < 0.3:
            torn = there[: rng.randint(0, len(there) - 1)]
            world.files.write_text(f"{CHECKPOINT}/{CONTINUES}", torn)
        elif there and rng.random() < 0.3:
            world.files.remove(f"{CHECKPOINT}/{CONTINUES}")

    if attempt(world, 0.0) != "done":
        assert attempt(world, 0.0, Trust.TABLE) == "done"
    check(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_topics_that_leave_and_return_are_read_once(seed):
    """The source begins a returned topic at its start; the table knows better and says so."""
    rng = Random(seed)
    world = World(rng)
    world.ends[("u", 0)] = 0
    world.produce(10)

    for _ in range(20):
        outcome = attempt(world, rng.choice([0.0, 0.2]))
        if outcome not in ("done", "crash"):
            assert outcome in ("OVERLAP", "TORN")
            attempt(world, 0.0, Trust.TABLE)
        disturb(world)
        world.subscribed = rng.choice([{"t"}, {"t", "u"}])

    world.subscribed = {"t", "u"}
    if attempt(world, 0.0) != "done":
        assert attempt(world, 0.0, Trust.TABLE) == "done"
    check(world)


def doom(world: World) -> None:
    """Some runs die at a place of their start, or between a batch's commits, that random deaths
    hit too seldom."""
    if world.rng.random() < 0.6:
        world.dies_at = world.rng.choice(PLACES)


def begun(world: World) -> dict:
    """Where the table's chain begins each partition: what came before was promised to nobody."""
    reader = DeltaLogReader(world.files, TABLE, "own")
    found: dict = {}
    for version in reader.versions():
        entry = reader.entry(version)
        assert entry is not None
        if entry.txn_version is not None and entry.metadata is not None:
            for partition, start in flat(entry.metadata["start"]).items():
                found.setdefault(partition, start)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_what_retention_takes_is_recorded_once_and_all_else_is_in_the_table_once(seed):
    """A record that was promised is a row or in one recorded range, whatever crashes between."""
    rng = Random(seed)
    world = World(rng)
    world.produce(20)

    for _ in range(30):
        assert attempt(world, rng.choice([0.0, 0.0, 0.1, 0.4])) in ("done", "crash", "lost")
        disturb(world)
        doom(world)
        if rng.random() < 0.4:
            world.delete_old()
        if rng.random() < 0.1:
            world.lose_checkpoint()

    world.dies_at = ""
    if attempt(world, 0.0) == "lost":
        to_the_end(world)
    begins = begun(world)
    for partition, first in world.planned_from.items():
        begins[partition] = min(first, begins.get(partition, first))
    # What was gone before a run had a look at it was promised to nobody either.
    first = {p: begins.get(p, world.begins.get(p, 0)) for p in world.visible()}
    promised = {r for r in world.records({}, world.visible()) if r[2] >= first[r[:2]]}
    lost = [(*each.partition, o) for each in world.lost for o in range(each.start, each.end)]
    assert len(lost) == len(set(lost))
    good = {record for record in promised if not world.is_bad(record)}
    rows = world.table.rows
    assert sorted(rows) == sorted(good - {*lost})
    assert len(world.dead.rows) == len(set(world.dead.rows))
    assert {*world.dead.rows} | {*lost} >= promised - good


@pytest.mark.parametrize("planned", ["after_offsets", "mid_commit:1", "mid_write"])
@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("place", [*STEPS_TAKEN, "after_set_aside"])
def test_what_only_a_checkpoint_knew_is_recorded_though_the_start_dies_that_sets_it_aside(
    place, first, planned
):
    """A batch that dies begins a new partition. Retention takes its first records, and more of them
    while the next start is dead. `first`: what another partition had before, which the table
    knows."""
    world = World(Random(0))
    world.ends = {("t", 0): first, ("t", 1): 0}
    to_the_end(world)
    world.ends = {("t", 0): first + 2, ("t", 1): 3, ("t", 2): 9}
    world.batch_rows = 20
    world.dies_at = planned
    assert attempt(world, 0.0) == "crash"

    world.begins = {("t", 2): 3}
    world.dies_at = place
    assert attempt(world, 0.0) == "crash"
    world.begins = {("t", 2): 5}
    to_the_end(world)

    lost = {(*each.partition, o) for each in world.lost for o in range(each.start, each.end)}
    assert lost == {("t", 2, o) for o in range(5)}
    assert sum(each.end - each.start for each in world.lost) == 5
    kept = [r for r in world.records({}, world.visible()) if r not in lost]
    assert sorted(world.table.rows) == [r for r in kept if not world.is_bad(r)]
    assert {*world.dead.rows} >= {r for r in kept if world.is_bad(r)}
    assert len(world.dead.rows) == len(set(world.dead.rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_at_the_end_goes_on_whatever_dies_before_its_first_commit(seed):
    """The letters of a first batch may be there without its rows, and the next first batch begin
    far behind them."""
    rng = Random(seed)
    world = World(rng)
    world.starts_latest = True
    world.produce(20)

    for _ in range(20):
        assert attempt(world, rng.choice([0.0, 0.0, 0.1])) in ("done", "crash")
        disturb(world)
        doom(world)
        if rng.random() < 0.4:
            world.files.remove(CHECKPOINT)

    world.dies_at = ""
    to_the_end(world)
    begins = begun(world)
    everything = world.records({}, world.visible())
    promised = [r for r in everything if r[2] >= begins.get(r[:2], world.ends[r[:2]])]
    assert sorted(world.table.rows) == [r for r in promised if not world.is_bad(r)]
    assert len(world.dead.rows) == len(set(world.dead.rows))
    assert {*world.dead.rows} >= {r for r in promised if world.is_bad(r)}


def letters_and_rows_go_back(world: World, taken: set) -> None:
    """RESTORE or a deleted folder, of the letters' table or of the sink's. `taken`: letters that a
    table has lost since the last run that ended or stopped."""
    rng = world.rng
    for table in (world.dead, world.table):
        if rng.random() < 0.2 and table.version >= 0:
            before = set(world.dead.rows)
            if rng.random() < 0.3:
                table.delete()
            else:
                table.restore(rng.randint(0, table.version))
            taken |= before - set(world.dead.rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_go_back_or_away_stop_the_run_and_lose_nothing_untold(seed):
    """The letters' table and the sink's between runs. No record is ever twice in one of them; all
    that the user was not told of is there."""
    rng = Random(seed)
    world = World(rng)
    world.produce(20)
    taken: set = set()
    told: set = set()

    for _ in range(30):
        outcome = attempt(world, rng.choice([0.0, 0.1, 0.3]))
        if outcome not in ("done", "crash"):
            assert Verdict[outcome] in STOPS_OF_TABLES_THAT_WENT_BACK
            told |= taken
            taken.clear()
            attempt(world, 0.1, Trust.TABLE)
        assert len(world.dead.rows) == len(set(world.dead.rows))
        disturb(world)
        letters_and_rows_go_back(world, taken)
        if rng.random() < 0.1:
            world.files.remove(CHECKPOINT)

    if attempt(world, 0.0) != "done":
        told |= taken
        assert attempt(world, 0.0, Trust.TABLE) == "done"
    everything = world.records({}, world.visible())
    assert sorted(world.table.rows) == [r for r in everything if not world.is_bad(r)]
    letters = {r for r in everything if world.is_bad(r)}
    assert len(world.dead.rows) == len(set(world.dead.rows))
    assert set(world.dead.rows) <= letters
    assert letters - set(world.dead.rows) <= told

"""One sink's start and its batches, by the shipped code over a target in memory: killed anywhere,
begun again, and each record is once where it belongs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import ChainError, RunError
from pipelines.dead_letters.left_out import listed
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.data_loss import LostRange
from pipelines.model.maintenance import Chore, Upkeep
from pipelines.run.batch_commit import commit_batch
from pipelines.run.sink_handle import InterruptedBatchError, SinkHandle
from pipelines.sinks.delta_maintenance import Group, Keeper
from pipelines.transforms.checks import Checked
from tests.unit.pipelines.engine import CHECKPOINT, CrashError
from tests.unit.pipelines.exactly_once.test_chain_model import disturb
from tests.unit.pipelines.memory import offset_text, parse_offset_text, wal_text
from tests.unit.pipelines.shipped_run import (
    TEXT,
    MemoryWorld,
    ShippedRun,
    UnreadableError,
    attempt,
    plan_of,
    start,
)

SEEDS = range(60)
PLACES = (
    *("after_offsets", "before_commit", "mid_commit:1", "mid_commit:2", "after_commit_before_log"),
    *("before_rows", "after_rows", "mid_loss:1", "mid_loss:2", "mid_loss:3", "after_set_aside"),
)
P = ("t", 0)
CHECKS = "checks:\n  c: { on: clean, expr: id > 0, action: fail }\ntrigger:"


def begun(world) -> dict:
    """Where the sink's chain begins each partition."""
    found: dict = {}
    for made in world.place.commits:
        for topic, starts in made.said["start"].items():
            for number, offset in starts.items():
                found.setdefault((topic, int(number)), offset)
    return found


def check(world) -> None:
    """Each record once, in the right place."""
    everything = world.records({}, world.visible())
    assert sorted(world.place.rows()) == [r for r in everything if not world.is_bad(r)]
    assert sorted(world.letters.rows()) == [r for r in everything if world.is_bad(r)]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_dies_and_whatever_checkpoint_is_lost_each_record_is_once(seed):
    rng = Random(seed)
    world = MemoryWorld(rng)
    world.produce(20)

    for _ in range(15):
        assert attempt(world, rng.choice([0.0, 0.05, 0.3])) in ("done", "crash")
        world.place.at = world.letters.at = lambda step: None
        world.batch_rows = rng.randint(1, 9)
        world.produce(rng.randint(0, 12))
        if rng.random() < 0.25:
            world.files.remove(CHECKPOINT)

    assert attempt(world, 0.0) == "done"
    check(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_retention_takes_is_recorded_once_and_all_else_is_there_once(seed):
    rng = Random(seed)
    world = MemoryWorld(rng)
    world.produce(20)

    for _ in range(15):
        assert attempt(world, rng.choice([0.0, 0.0, 0.1, 0.4])) in ("done", "crash", "lost")
        disturb(world)
        if rng.random() < 0.6:
            world.dies_at = rng.choice(PLACES)
        if rng.random() < 0.4:
            world.delete_old()
        if rng.random() < 0.1:
            world.lose_checkpoint()

    world.dies_at = ""
    if attempt(world, 0.0) == "lost":
        assert attempt(world, 0.0) == "done"
    begins = begun(world)
    for partition, first in world.planned_from.items():
        begins[partition] = min(first, begins.get(partition, first))
    first = {p: begins.get(p, world.begins.get(p, 0)) for p in world.visible()}
    promised = {r for r in world.records({}, world.visible()) if r[2] >= first[r[:2]]}
    lost = [(*each.partition, o) for each in world.place.lost for o in range(each.start, each.end)]
    assert len(lost) == len(set(lost))
    good = {record for record in promised if not world.is_bad(record)}
    assert sorted(world.place.rows()) == sorted(good - {*lost})
    letters = world.letters.rows()
    assert len(letters) == len(set(letters))
    assert {*letters} | {*lost} >= promised - good


@pytest.mark.parametrize("place", PLACES[:7])
def test_a_run_that_dies_in_its_batch_leaves_no_row_without_its_letters(place):
    """Between any two steps: rows beyond a bad record are there only when its letter is."""
    world = MemoryWorld(Random(0))
    world.ends, world.batch_rows, world.dies_at = {P: 30}, 30, place

    assert attempt(world, 0.0) == "crash"

    rows, letters = world.place.rows(), world.letters.rows()
    bad = [r for r in world.records({}, world.visible()) if world.is_bad(r)]
    assert not rows or letters == bad
    assert attempt(world, 0.0) == "done"
    check(world)


def fails_for(record) -> bool:
    return record[2] % 5 == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_for_which_an_expression_fails_is_a_row_or_a_dead_letter_of_the_sink(seed):
    """Whatever dies, whatever checkpoint is lost, and however the batches are cut."""
    rng = Random(seed)
    world = MemoryWorld(rng)
    world.fails_for = fails_for
    world.produce(20)

    for _ in range(12):
        assert attempt(world, rng.choice([0.0, 0.05, 0.3])) in ("done", "crash")
        world.place.at = world.letters.at = world.own_letters.at = lambda step: None
        world.batch_rows = rng.randint(1, 9)
        world.produce(rng.randint(0, 12))
        if rng.random() < 0.25:
            world.files.remove(CHECKPOINT)

    assert attempt(world, 0.0) == "done"
    good = [r for r in world.records({}, world.visible()) if not world.is_bad(r)]
    failing = [record for record in good if fails_for(record)]
    assert failing
    assert sorted(world.place.rows()) == [record for record in good if not fails_for(record)]
    assert sorted(world.own_letters.rows()) == failing
    out = {place for made in world.place.commits for place in listed(made.said)}
    assert out == {(TopicPartition(*r[:2]), r[2]) for r in failing}


def test_a_record_with_its_own_dead_letter_stays_left_out_after_a_kill():
    """Also by a file that takes it now: what a sum fails for depends on how batches are cut."""
    world = MemoryWorld(Random(0))
    world.ends, world.batch_rows, world.dies_at = {P: 30}, 30, "after_rows"
    world.is_bad, world.fails_for = lambda record: False, fails_for

    assert attempt(world, 0.0) == "crash"
    letters = world.own_letters.rows()
    world.fails_for = lambda record: fails_for(record) and record != letters[0]
    assert attempt(world, 0.0) == "done"

    everything = world.records({}, world.visible())
    assert letters == world.own_letters.rows() == [r for r in everything if fails_for(r)]
    assert sorted(world.place.rows()) == [r for r in everything if not fails_for(r)]


class One:
    """A start whose checkpoint has one planned batch of ten records; the first one is bad."""

    def __init__(self, text: str = TEXT, ends: int = 10) -> None:
        self.world = MemoryWorld(Random(0))
        self.world.ends = {P: ends}
        self.files = CheckpointFiles(self.world.files, CHECKPOINT, parse_offset_text)
        self.parts = start(self.world, self.files, plan_of(text))
        self.plan_batch(0, ends)

    def plan_batch(self, number: int, end: int) -> None:
        text = wal_text(offset_text({P: end}, {P: 0}, {"t": "id-t"}))
        self.world.files.texts[f"{CHECKPOINT}/offsets/{number}"] = text

    def records(self):
        return self.world.records({}, self.world.ends)

    def process(self, frame=None, number: int = 0):
        self.parts.handle.process(frame or self.records, number)
        return self.parts.done[-1]


def test_a_batch_reports_the_dead_letters_of_all_its_attempts():
    """They count for the threshold of the source."""
    one = One()
    one.parts.reader.fails_for = fails_for

    done = one.process()

    out = [r for r in one.records() if fails_for(r) and not one.world.is_bad(r)]
    assert (done.records, done.rows, done.dead_letters) == (10, 8 - len(out), 2 + len(out))
    assert done.judged == {"raw": (10, 2 + len(out))}


def test_an_error_that_no_record_causes_is_raised_as_it_is():
    one = One()

    def frame():
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        one.process(frame)
    assert one.world.own_letters.commits == []


def test_a_batch_says_what_it_read_and_wrote():
    one = One()

    done = one.process()

    assert (done.records, done.rows, done.dead_letters, done.version) == (10, 8, 2, 1)
    assert (done.starts, done.ends, done.judged) == ({P: 0}, {P: 10}, {"raw": (10, 2)})
    assert not done.already_there
    assert one.parts.reader.made[0].frees == 1


def test_a_batch_that_the_target_has_is_passed_over_and_its_rows_are_not_made():
    one = One()
    one.process()

    again = One.process(one, pytest.fail)

    assert again.already_there
    assert (again.rows, again.version, again.ends) == (0, None, {P: 10})
    assert one.parts.reader.passed == 1
    assert len(one.world.place.commits) == 1


def test_a_batch_that_begins_behind_the_target_s_end_stops_the_run():
    one = One()
    one.process()
    one.world.files.texts[f"{CHECKPOINT}/offsets/1"] = wal_text(
        offset_text({P: 15}, {P: 0}, {"t": "id-t"})
    )
    one.plan_batch(1, 12)
    one.plan_batch(2, 15)

    with pytest.raises(ChainError, match="sink `lake`"):
        one.parts.handle.process(pytest.fail, 2)
    assert one.world.place.commits[-1].said["end"] == {"t": {"0": 10}}


def test_a_batch_that_another_run_has_overtaken_stops_and_writes_no_row():
    one = One()
    other = start(one.world, one.files, plan_of())
    other.handle.process(one.records, 0)

    with pytest.raises(ChainError, match="another run of this sink"):
        one.process()
    assert len(one.world.place.rows()) == 8


def test_a_check_that_fails_stops_the_batch_before_anything_is_written():
    one = One(TEXT.replace("trigger:", CHECKS))
    one.parts.reader.found = {"c": Checked(rows=8, failed=1)}

    with pytest.raises(RunError, match="check `c`"):
        one.process()
    assert one.world.place.rows() == one.world.letters.rows() == []
    assert one.parts.reader.made[0].frees == 1


def test_a_commit_says_what_checks_found_and_up_to_where_letters_are():
    one = One(TEXT.replace("trigger:", CHECKS))
    one.parts.reader.found = {"c": Checked(rows=8, failed=0)}

    one.process()

    said = one.world.place.commits[0].said
    assert said["checks"] == {"c": {"rows": 8, "failed": 0}}
    assert said["letters"] == {"t": {"0": 10}}


def test_a_bad_record_stops_a_batch_whose_file_wants_that():
    text = TEXT.replace("on_error: dead_letter", "on_error: fail")
    one = One(text.replace("dead_letter: { type: delta, path: /dead }\n", ""))

    with pytest.raises(RunError, match="a bad record"):
        one.process()
    assert one.world.place.commits == []


def test_record_batches_that_cannot_be_read_are_recorded_before_the_rest_is_written():
    one = One()
    lost = LostRange(partition=P, topic_id="id-t", start=3, end=5)
    rest = [r for r in one.records() if not 3 <= r[2] < 5]
    one.parts.reader.readable = (lambda: rest), [lost]
    recorded = []
    one.world.place.at = lambda step: recorded.append([*one.world.place.lost])

    def unreadable():
        raise UnreadableError

    done = one.process(unreadable)

    assert recorded[0] == [lost]
    assert done.rows == len([r for r in rest if not one.world.is_bad(r)])


def test_an_error_of_another_kind_is_the_batch_s():
    one = One()
    one.parts.reader.readable = pytest.fail, []

    def away():
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        one.process(away)
    assert isinstance(one.parts.handle.error, OSError)
    assert one.world.place.lost == []


def test_a_batch_that_begins_when_the_run_is_to_stop_writes_nothing():
    one = One()
    one.parts.handle.stopping = True

    with pytest.raises(InterruptedBatchError):
        one.process(pytest.fail)
    assert one.parts.handle.error is None


def test_a_batch_that_comes_while_the_run_ends_its_query_writes_nothing():
    one = One()

    with one.parts.handle.lock, pytest.raises(InterruptedBatchError):
        one.process(pytest.fail)
    assert not one.parts.done


def test_a_commit_names_spark_s_query():
    one = One()
    one.world.files.texts[f"{CHECKPOINT}/metadata"] = '{"id": "q-1"}'

    commit_batch(one.parts.prepared, one.records, 0)

    assert one.world.place.commits[0].said["query"] == "q-1"
    assert one.world.letters.commits[0].said["query"] == "q-1"


def test_a_prepared_sink_knows_how_much_there_is_to_do():
    one = One()
    one.process()
    one.world.ends = {P: 25}
    again = start(one.world, one.files).prepared

    assert again.begins() == {P: 10}
    assert again.records_to_do() == 15


def test_a_crash_is_no_verdict():
    world = MemoryWorld(Random(0))
    world.ends, world.dies_at = {P: 5}, "before_commit"

    with pytest.raises(CrashError):
        ShippedRun(world, 0.0).go()


def test_the_topics_end_where_the_query_saw_it_last_or_else_the_start_of_the_run():
    prepared = One().parts.prepared

    def query(*looked):
        sources = [SimpleNamespace(latestOffset=each) for each in looked]
        return SimpleNamespace(lastProgress=SimpleNamespace(sources=sources))

    assert prepared.latest(SimpleNamespace(lastProgress=None)) == {P: 10}
    assert prepared.latest(query(offset_text({P: 17}))) == {P: 17}
    assert prepared.latest(query(offset_text({P: 17}), offset_text({("u", 0): 3}))) == {
        P: 17,
        ("u", 0): 3,
    }
    assert prepared.latest(query(offset_text({P: 17}), None)) == {P: 10}


def test_maintenance_follows_a_new_batch_and_its_failure_is_reported_and_none_of_the_batch():
    one, lines = One(), []

    def no_room(upkeep):
        raise OSError("no room")

    upkeep = Upkeep(chore=Chore.OPTIMIZE, every=1, within_ms=10_000)
    group = Group(begin=lambda: None, end=lambda: None)
    keeper = Keeper((upkeep,), no_room, lambda: group, one.parts.handle.is_stopping)
    done: list = []
    handle = SinkHandle(one.parts.handle.plan, done.append, lambda *line: lines.append(line), print)
    handle.prepared = replace(one.parts.prepared, keeper=keeper)

    handle.process(one.records, 0)
    handle.process(pytest.fail, 0)

    assert lines == [("lake", "optimize failed: no room")]
    assert [each.already_there for each in done] == [False, True]
    assert handle.error is None

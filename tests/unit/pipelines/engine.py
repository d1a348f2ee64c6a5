"""A model of Spark, Delta and a topic, small enough to crash ten thousand times a second.

It keeps the real order of writes (offsets log, tables, commits log) and Delta's real rule for a
transaction version that is not higher: no error and no rows. The decisions, the log reader and the
checkpoint reader are the shipped ones, over files in memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random

from josefine_spark.base.topic_offsets import nested
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Start, Trust, dead_letters_gone, reconcile
from pipelines.exactly_once.data_loss import LostRange, losses, passing, standing, unrecorded
from pipelines.exactly_once.dead_letter_chain import (
    NOTHING_DUE,
    Lettering,
    said_by,
    trusted,
)
from pipelines.exactly_once.offset_chain import Commit, Skip, Stop, Tip, Verdict, decide
from pipelines.exactly_once.startup_steps import Opening, Step, opening
from pipelines.sinks.delta_log import DeltaLogReader
from tests.unit.pipelines.memory import MemoryFiles, offset_text, parse_offset_text, wal_text

CRASH_POINTS = (
    *("mid_loss:1", "mid_loss:2", "after_set_aside", "mid_loss:3"),
    *("after_offsets", "before_commit", "mid_commit:1", "mid_write", "mid_commit:2"),
    *("after_commit_before_log", "after_upkeep", "after_log"),
)
"""By the names of failpoints, but for the last, which has none."""
STEPS_TAKEN = tuple(f"after {step.name}" for step in Step)
"""Of a start (`opening.Step`); failpoints are where these may differ from the next step."""
CHECKPOINT = "/ck/sink"
TABLE, DEAD = "/tables/sink", "/tables/dead"


class CrashError(Exception):
    """The process is gone; only files are left."""


class LostError(Exception):
    """The source was asked for records that retention has deleted."""


class StoppedError(Exception):
    """The run ended with a verdict instead of writing."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.verdict.name)
        self.verdict = stop.verdict


@dataclass
class FakeTable:
    """A Delta table: log entries as JSON files, rows beside them."""

    files: MemoryFiles
    path: str
    rows: list = field(default_factory=list)
    txn: dict = field(default_factory=dict)
    version: int = -1
    past: list = field(default_factory=list)
    """The rows of each version."""

    def commit(self, app_id: str, commit: Commit, rows: list, **more: object) -> None:
        if self.txn.get(app_id, 0) >= commit.txn_version:
            return  # DeltaCommand: `current >= version` skips the write without an error
        self.txn[app_id] = commit.txn_version
        self.rows.extend(rows)
        end, ids = nested(commit.end.ends), dict(commit.end.topic_ids)
        meta = {"josefine": 1, "start": nested(commit.start), "end": end, "topic_ids": ids, **more}
        info = {"operation": "WRITE", "userMetadata": json.dumps(meta)}
        txn = {"appId": app_id, "version": commit.txn_version}
        self._log({"commitInfo": info}, {"txn": txn})

    def commit_of_others(self) -> None:
        self._log({"commitInfo": {"operation": "OPTIMIZE"}}, {"txn": {"appId": "x", "version": 9}})

    def _log(self, *actions: dict) -> None:
        self.version += 1
        text = "\n".join(json.dumps(action) for action in actions)
        self.files.texts[f"{self.path}/_delta_log/{self.version:020d}.json"] = text
        self.past.append(list(self.rows))

    def restore(self, version: int) -> None:
        """RESTORE: the rows of then. It is a commit, and takes no transaction back: Delta keeps
        what a sink's last one was, and the entries behind stay in the log."""
        self.rows = list(self.past[version])
        said = {"operation": "RESTORE", "operationParameters": {"version": version}}
        self._log({"commitInfo": said})

    def delete(self) -> None:
        """The folder is gone, and made anew at the next start."""
        self.files.remove(self.path)
        self.rows, self.txn, self.past, self.version = [], {}, [], -1


class Letters:
    """The dead letters' chain as one run sees it."""

    def __init__(self, table: FakeTable) -> None:
        self.table = table
        self.tip: Tip | None = None

    def follow(self, tip: Tip | None) -> None:
        self.tip = tip

    def load(self) -> Tip | None:
        self.tip, _ = DeltaLogReader(self.table.files, self.table.path, "dead").last_tip()
        return self.tip


class World:
    """Everything that outlives a process. A record is (topic, partition, offset); some are bad."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.files = MemoryFiles()
        self.table = FakeTable(self.files, TABLE)
        self.dead = FakeTable(self.files, DEAD)
        self.ends: dict = {("t", 0): 0}
        self.begins: dict = {}
        self.lost: list[LostRange] = []
        self.ids = {"t": "id-t", "u": "id-u"}
        self.subscribed = {"t"}
        self.batch_rows = 5
        self.starts_latest = False
        """Whether a sink of which neither table nor checkpoint knows begins at the topics' ends."""
        self.optimizes = False
        """Whether a chore of the sink commits behind each batch."""
        self.at_least_once = False
        """Whether a batch's rows are there before their offsets are."""
        self.planned_from: dict = {}
        """Where a batch that was planned begins a partition, as long as a checkpoint was there that
        nobody removed."""
        self.dies_at = ""
        """A place where the next run surely dies."""

    def produce(self, count: int) -> None:
        for _ in range(count):
            self.ends[self.rng.choice(sorted(self.ends))] += 1

    def delete_old(self) -> None:
        """Retention: some partition begins later from now on."""
        partition = self.rng.choice(sorted(self.ends))
        begin = self.begins.get(partition, 0)
        self.begins[partition] = self.rng.randint(begin, self.ends[partition])

    def lose_checkpoint(self) -> None:
        """Somebody removes it. What it alone knew was promised to nobody."""
        self.files.remove(CHECKPOINT)
        self.planned_from = {}

    def bounds(self) -> dict:
        return {p: Bounds(self.begins.get(p, 0), end) for p, end in self.visible().items()}

    def is_bad(self, record: tuple) -> bool:
        return (record[1] * 31 + record[2]) % 7 == 0

    def records(self, start: dict, end: dict) -> list:
        return [(*p, o) for p, e in sorted(end.items()) for o in range(start.get(p, 0), e)]

    def visible_ids(self) -> dict:
        return {topic: self.ids[topic] for topic, _ in self.visible()}

    def visible(self) -> dict:
        return {p: e for p, e in self.ends.items() if p[0] in self.subscribed}


class Run:
    """One process: reconcile, then batches in Spark's order, until the input is read or a crash."""

    def __init__(self, world: World, crash_chance: float, trust: Trust = Trust.NEITHER) -> None:
        self.world = world
        self.crash_chance = crash_chance
        self.checkpoint = CheckpointFiles(world.files, CHECKPOINT, parse_offset_text)
        self.trust = trust
        self.letters = Letters(world.dead)
        self.lettering = Lettering(self.letters, DEAD)

    def go(self) -> None:
        world = self.world
        found, _ = DeltaLogReader(world.files, TABLE, "own").last_tip()
        outcome = reconcile(self.checkpoint.read(), found, self.trust)
        if isinstance(outcome, Stop):
            raise StoppedError(outcome)
        assert isinstance(outcome, Start)
        checkpoint = self.checkpoint.read()
        at = standing(outcome, checkpoint)
        lost = losses(at, world.visible_ids(), world.bounds(), skip=True)
        assert not isinstance(lost, Stop)
        plan = opening(outcome, checkpoint, at, lost)
        self.tip = outcome.tip
        self.settle_letters(outcome.tip)
        for step in plan.steps:
            self.take(step, plan)
            self.maybe_crash(f"after {step.name}")
        starts = plan.start.at or {}
        latest = world.starts_latest and plan.start.at is None
        begins = world.ends if latest else world.begins
        self.at = {p: starts.get(p, begins.get(p, 0)) for p in world.visible()}
        if latest:
            world.produce(world.rng.randint(0, 12))
        self.batches()

    def settle_letters(self, tip: Tip | None) -> None:
        written = found = self.letters.load()
        if self.trust is Trust.NEITHER and dead_letters_gone(tip, found, DEAD):
            raise StoppedError(Stop(verdict=Verdict.DEAD_LETTERS_GONE))
        if self.trust is not Trust.NEITHER:
            found = trusted(found, tip, self.world.visible_ids())
        self.lettering.begins(written, found)
        self.lettering.stands_behind(tip)

    def said(self) -> dict:
        """What each of the sink's commits says of the letters."""
        return {"dead_letters": DEAD, **said_by([self.lettering])}

    def take(self, step: Step, plan: Opening) -> None:
        world = self.world
        if step is Step.RECORD:
            world.lost.extend(unrecorded(plan.lost, world.lost))
            self.maybe_crash("mid_loss:1")
        elif step is Step.ANCHOR:
            self.commit(plan.anchor)
            self.maybe_crash("mid_loss:2")
        elif step is Step.SET_ASIDE:
            self.checkpoint.set_aside()
            self.maybe_crash("after_set_aside")
        elif step is Step.PASS_LETTERS:
            dead = self.letters.tip
            moved = dead and passing(dead, dead.reached, plan.lost)
            if moved:
                world.dead.commit("dead", moved, [])
                found = self.letters.load()
                self.lettering.begins(found, found)
            self.maybe_crash("mid_loss:3")
        elif step is Step.PASS:
            self.commit(plan.passes)
        else:
            assert step is Step.NOTE
            self.checkpoint.continues(plan.start.tip.reached.ends if plan.start.tip else {})

    def commit(self, commit: Commit | None, rows: list | None = None) -> None:
        """One of the sink's own."""
        assert commit is not None
        self.world.table.commit("own", commit, rows or [], **self.said())
        self.tip, _ = DeltaLogReader(self.world.files, TABLE, "own").last_tip()

    def batches(self) -> None:
        state = self.checkpoint.read()
        planned = state.planned if state else None
        committed = state.committed if state else None
        number, ends, first = 0, self.at, dict(self.at)
        if planned is not None:
            replay = committed is None or committed.batch != planned.batch
            first = dict(planned.end.first)
            if replay:
                before = self.checkpoint._recorded(planned.batch - 1) if planned.batch else None
                self.batch(planned.batch, before.end.ends if before else self.at, planned.end.ends)
            number, ends = planned.batch + 1, planned.end.ends
        while (end := self.plan(ends)) != ends:
            for partition in end:
                first.setdefault(partition, self.world.begins.get(partition, 0))
            kept = {p: first[p] for p in end}
            self.world.planned_from = {**kept, **self.world.planned_from}
            ids = {p[0]: self.world.ids[p[0]] for p in end}
            text = wal_text(offset_text(end, kept, ids))
            self.world.files.texts[f"{CHECKPOINT}/offsets/{number}"] = text
            self.batch(number, ends, end)
            number, ends = number + 1, end

    def plan(self, ends: dict) -> dict:
        """Up to `batch_rows` more records; topics that left drop out, new partitions come in."""
        left = self.world.batch_rows
        end = {}
        for partition, last in sorted(self.world.visible().items()):
            begin = ends.get(partition, self.world.begins.get(partition, 0))
            take = min(left, last - begin)
            end[partition] = begin + take
            left -= take
        return end

    def batch(self, number: int, start: dict, end: dict) -> None:
        self.maybe_crash("after_offsets")
        world = self.world
        batch = self.checkpoint.batch(number)
        decision = decide(batch, self.tip)
        if isinstance(decision, Stop):
            raise StoppedError(decision)
        writes_rows = isinstance(decision, Commit)
        known = self.tip.reached.ends if self.tip else {}
        due = self.lettering.due(batch, known, writes_rows=writes_rows, leads=True)
        if isinstance(due, Stop):
            raise StoppedError(due)
        dead = due.commit
        self.maybe_crash("before_commit")
        # The rows are those that the engine really reads, not those that the offsets promise.
        # Where the start has no say the source begins at the recorded first offset.
        for p, begin in ((p, start.get(p, batch.end.first[p])) for p in end):
            reads = writes_rows or due != NOTHING_DUE
            if reads and begin < min(end[p], world.begins.get(p, 0)):
                raise LostError
        records = world.records({p: start.get(p, batch.end.first[p]) for p in end}, end)
        if isinstance(dead, Commit):
            bad = [r for r in records if world.is_bad(r) and r[2] >= dead.skip_below.get(r[:2], 0)]
            if not bad:
                self.lettering.passes(dead)
            else:
                world.dead.commit("dead", dead, bad)
                self.letters.load()
                self.lettering.wrote(dead)
            self.maybe_crash("mid_commit:1")
        if isinstance(decision, Commit):
            good = [r for r in records if not world.is_bad(r)]
            if world.at_least_once:
                world.table.rows.extend(good)
                good = []
            self.maybe_crash("mid_write")
            self.commit(decision, good)
            self.maybe_crash("mid_commit:2")
        else:
            assert isinstance(decision, Skip)
        self.maybe_crash("after_commit_before_log")
        if isinstance(decision, Commit) and world.optimizes:
            world.table.commit_of_others()
            self.maybe_crash("after_upkeep")
        world.files.texts[f"{CHECKPOINT}/commits/{number}"] = "v1\n{}"
        self.maybe_crash("after_log")

    def maybe_crash(self, point: str) -> None:
        assert point in CRASH_POINTS or point in STEPS_TAKEN
        if point == self.world.dies_at:
            self.world.dies_at = ""
            raise CrashError(point)
        if self.world.rng.random() < self.crash_chance:
            raise CrashError(point)


STOPS_OF_LOST_LOG_ENTRIES = {
    Verdict.TABLE_AHEAD,
    Verdict.TABLE_ELSEWHERE,
    Verdict.CHECKPOINT_DAMAGED,
}
STOPS_OF_TABLES_THAT_WENT_BACK = STOPS_OF_LOST_LOG_ENTRIES | {
    Verdict.TABLE_BEHIND,
    Verdict.TABLE_HAS_NOTHING,
    Verdict.DEAD_LETTERS_GONE,
}

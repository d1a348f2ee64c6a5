"""The shipped start and the shipped batches of one sink, over the crash model, without Spark.

The model (`engine.py`) keeps Spark's order: offsets log, batch, commits log. What is between is the
product's own: `Settling`, `SinkHandle`, `BatchCommit`, `SinkLetters`, over targets in memory. Only
what makes rows is the test's: records are tuples, some of them bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base import failpoints
from pipelines.base.errors import ChainError, RunError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.dead_letters.left_out import (
    NOTHING_LEFT_OUT,
    FailedRecord,
    LeftOut,
    joined,
    own_chain,
)
from pipelines.dead_letters.writer import SinkLetters
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.dead_letter_chain import Lettering
from pipelines.exactly_once.offset_chain import Batch, Commit
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.report.events import BatchDone
from pipelines.run.consumer_group_offsets import Advice
from pipelines.run.options import Wishes
from pipelines.run.prepared_sink import PreparedSink
from pipelines.run.read_range import begun_at, ways_of
from pipelines.run.settle_start import OfSource, Settling
from pipelines.run.sink_handle import SinkHandle
from pipelines.sinks.commits import Link
from pipelines.sinks.memory import MemoryChain, MemoryPlace, MemoryTarget
from pipelines.sinks.target import TargetRun
from pipelines.sources.josefine import Topics
from pipelines.transforms.checks import Checked
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.engine import CrashError, LostError, Run, World
from tests.unit.pipelines.memory import parse_offset_text

TEXT = GOOD.replace("on_error: fail", "on_error: dead_letter").replace(
    "trigger:", "dead_letter: { type: delta, path: /dead }\ntrigger:"
)
OLD_CHECKPOINT = "/ck/old"


def plan_of(text: str = TEXT) -> PipelinePlan:
    return compile_plan(validate(load(text, "f.yaml", {})))


class MemoryWorld(World):
    """The topics and the checkpoint, and places in memory for rows and letters."""

    def __init__(self, rng: Any) -> None:
        super().__init__(rng)
        self.place, self.letters, self.own_letters = MemoryPlace(), MemoryPlace(), MemoryPlace()
        self.fails_for: Callable[[Any], bool] = lambda record: False
        self.runs = count()


@dataclass
class ListRows:
    """`BatchRows` of a list of records. `found`: what checks find. `fails_for`: records for which
    an expression fails, if they are not left `out`."""

    records: list[Any]
    is_bad: Callable[[Any], bool]
    found: dict[str, Checked] = field(default_factory=dict)
    fails_for: Callable[[Any], bool] = lambda record: False
    out: set[Any] = field(default_factory=set)
    frees: int = 0

    @property
    def bad(self) -> int:
        return sum(map(self.is_bad, self.records))

    def refuse_bad(self, source: Any) -> None:
        if self.bad:
            raise RunError(f"source `{source.name}`: a bad record")

    def checked(self) -> dict[str, Checked]:
        return self.found

    def letters(self, source: Any) -> Any:
        def of(skip_below: Any, there: Any = None) -> list[Any]:
            bad = [record for record in self.records if self.is_bad(record)]
            if there is None:
                return [r for r in bad if r[2] >= skip_below.get(r[:2], 0)]
            return [r for r in bad if r[2] >= skip_below.get(r[:2], 0) or r not in there]

        return of

    def target_rows(self) -> tuple[list[Any], None]:
        good = [r for r in self.records if not self.is_bad(r) and r[:3] not in self.out]
        if any(map(self.fails_for, good)):
            raise ValueError("cast")
        return good, None

    def skipped(self) -> int:
        return 0

    def free(self) -> None:
        self.frees += 1


class ListReader:
    """`BatchReader`; a frame is a function that makes the records, or says that they are lost."""

    def __init__(self, is_bad: Callable[[Any], bool]) -> None:
        self.is_bad = is_bad
        self.fails_for: Callable[[Any], bool] = lambda record: False
        self.found: dict[str, Checked] = {}
        self.made: list[ListRows] = []
        self.passed = 0
        self.readable: Any = None
        """What is left of a batch that cannot be read whole."""

    def read(
        self,
        frame: Any,
        batch: Batch,
        own: Commit | None,
        lettered: Any,
        left_out: LeftOut = NOTHING_LEFT_OUT,
    ) -> ListRows:
        out = set(left_out.places)
        rows = ListRows(frame(), self.is_bad, self.found, self.fails_for, out)
        self.made.append(rows)
        return rows

    def pass_over(self, frame: Any) -> None:
        self.passed += 1

    def skips(self, error: Exception) -> bool:
        return self.readable is not None and isinstance(error, UnreadableError)

    def failed_record(self, frame: Any, batch: Batch, error: Exception) -> str | None:
        return None

    def left_out(
        self, frame: Any, batch: Batch, error: Exception, known: Any, there: Any
    ) -> LeftOut | None:
        if not isinstance(error, ValueError):
            return None
        found = [
            FailedRecord(
                topic=record[0],
                partition=record[1],
                offset=record[2],
                stage="transform",
                reason="",
            )
            for record in frame()
            if not self.is_bad(record) and self.fails_for(record)
        ]
        return LeftOut(records=joined(known or there(), found))

    def letters_of(self, frame: Any, records: Sequence[FailedRecord]) -> list[Any]:
        places = {each.place for each in records}
        return [record for record in frame() if record[:3] in places]

    def without_unreadable(self, frame: Any, batch: Batch, record: Any) -> Any:
        rest, lost = self.readable
        record(lost)
        return rest


class UnreadableError(Exception):
    """Of a record batch."""


class ListLetters:
    """`LetterStore` on a place in memory."""

    def __init__(self, place: MemoryPlace) -> None:
        self.place = place

    def missing(self, chain: Any, source: str, letters: Any, below: Any) -> list[Any]:
        found: list[Any] = letters(below, self.place.rows())
        return found

    def is_empty(self, letters: list[Any]) -> bool:
        return not letters

    def write(self, chain: Any, letters: list[Any], commit: Commit, batch_id: int) -> int:
        if letters:
            chain.append(letters, commit, batch_id)
        return len(letters)


class MemoryOwnLetters:
    """`OwnLetters` on a place in memory, opened at the first failure."""

    def __init__(self, place: MemoryPlace, link: Link) -> None:
        self.place, self.chain = place, MemoryChain(place, link, "/dead")
        self.is_open = False

    def there(self, frame: Any) -> list[FailedRecord]:
        self._open()
        return [
            FailedRecord(topic=r[0], partition=r[1], offset=r[2], stage="transform", reason="")
            for r in frame()
            if r in self.place.rows()
        ]

    def write(self, letters: list[Any], batch_id: int) -> int:
        self._open()
        missing = [each for each in letters if each not in self.place.rows()]
        if missing:
            version = self.chain.tip.txn_version if self.chain.tip else 0
            commit = Commit(start={}, end=TopicOffsets(), txn_version=version + 1)
            self.chain.append(missing, commit, batch_id)
        return len(missing)

    def _open(self) -> None:
        if not self.is_open:
            self.chain.load()
            self.is_open = True


class NoGroups:
    """A source kind whose brokers nobody asks."""

    def parse(self, text: str) -> TopicOffsets:
        return parse_offset_text(text)


@dataclass
class Parts:
    """What one start made."""

    handle: SinkHandle
    prepared: PreparedSink
    reader: ListReader
    done: list[BatchDone]


def start(
    world: MemoryWorld,
    files: CheckpointFiles,
    plan: PipelinePlan | None = None,
    wishes: Wishes = Wishes(skip_losses=True),
) -> Parts:
    """Settle where the sink starts, and prepare it. Raises ChainError."""
    plan = plan or plan_of()
    of, run_id = plan.sinks["lake"], f"run-{next(world.runs)}"
    link = Link(pipeline="orders", sink="lake", run=run_id, facts={"dead_letters": "/dead"})
    target = MemoryTarget(of.sink, world.place)
    losses = target.loss_table(plan.pipeline)
    opened = target.prepare(TargetRun(session=pytest.fail, link=link, losses=losses), None, ())
    dead = Link(pipeline="orders", sink="dead_letter.raw", run=run_id)
    lettering = Lettering(MemoryChain(world.letters, dead, "/dead"), "/dead")
    topics = Topics(
        earliest={p: world.begins.get(p, 0) for p in world.visible()},
        latest=TopicOffsets(ends=world.visible(), topic_ids=world.visible_ids()),
    )
    old = CheckpointFiles(world.files, OLD_CHECKPOINT, parse_offset_text)
    lettered = [OfSource(lettering, True, ())] if of.lettered else []
    settling = Settling(plan, of, opened, losses, lettered, files, old, topics, wishes)
    settled = settling.settle(lambda said: None)
    ways = ways_of(of, NoGroups(), {"raw": topics}, settled, 0)
    letterings = {"raw": lettering} if of.lettered else {}
    letters = SinkLetters(
        plan, of, opened.chain, letterings, ListLetters(world.letters), lambda source: ()
    )
    done: list[BatchDone] = []
    handle = SinkHandle(of, done.append, lambda *line: None, lambda name: None)
    reader = ListReader(world.is_bad)
    reader.fails_for = world.fails_for
    own = Link(pipeline="orders", sink=own_chain("raw", "lake"), run=run_id)
    prepared = PreparedSink(
        file="f.yaml",
        plan=of,
        opened=opened,
        letters=letters,
        files=settling.files,
        reader=reader,
        advice=Advice(plan, lambda source, group, ends: "", lambda *line: None),
        keeper=None,
        topics=topics,
        begun_at=begun_at(ways),
        ends_at={p: end for way in ways for p, end in way.ends_at.items()},
        stream=None,
        parse=parse_offset_text,
        warnings=settling.warnings,
        own_letters=MemoryOwnLetters(world.own_letters, own),
    )
    handle.prepared = prepared
    return Parts(handle, prepared, reader, done)


class ShippedRun(Run):
    """One process: the start, then batches in Spark's order, until the input is read or a crash."""

    def __init__(
        self, world: MemoryWorld, crash_chance: float, trust: Trust = Trust.NEITHER
    ) -> None:
        super().__init__(world, crash_chance, trust)
        self.memory = world

    def go(self) -> None:
        for place in (self.memory.place, self.memory.letters, self.memory.own_letters):
            place.at = self._step
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoints, "hit", self._hit)
            self.parts = start(
                self.memory, self.checkpoint, wishes=Wishes(trust=self.trust, skip_losses=True)
            )
            begun, world = self.parts.prepared.begun_at, self.world
            self.at = {p: begun.get(p, world.begins.get(p, 0)) for p in world.visible()}
            self.batches()

    def batch(self, number: int, start: Any, end: Any) -> None:
        self.parts.handle.process(lambda: self._records(number, start, end), number)
        self.world.files.texts[f"{self.checkpoint.folder}/commits/{number}"] = "v1\n{}"
        self.maybe_crash("after_log")

    def _records(self, number: int, start: Any, end: Any) -> list[Any]:
        """Those that the engine really reads; it begins where the recorded offsets do."""
        first = self.checkpoint.batch(number).end.first
        begins = {p: start.get(p, first[p]) for p in end}
        if any(begins[p] < min(end[p], self.world.begins.get(p, 0)) for p in end):
            raise LostError
        return self.world.records(begins, end)

    def _hit(self, name: str, index: int | None = None) -> None:
        self._step(name if index is None else f"{name}:{index}")

    def _step(self, place: str) -> None:
        if place == self.world.dies_at:
            self.world.dies_at = ""
            raise CrashError(place)
        if self.world.rng.random() < self.crash_chance:
            raise CrashError(place)


def attempt(world: MemoryWorld, crash_chance: float, trust: Trust = Trust.NEITHER) -> str:
    """How a run ended: done, crash, lost, or what a person reads."""
    try:
        ShippedRun(world, crash_chance, trust).go()
    except CrashError:
        return "crash"
    except LostError:
        return "lost"
    except ChainError as stopped:
        return str(stopped)
    return "done"

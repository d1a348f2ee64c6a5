"""A world for deploys that die: real Delta tables, runs of both files, a disk that kills.

Spark's part, which fills the shadow tables, is played by delta-rs. All else is the product's code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base import failpoints
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.deploy import deploy as product
from pipelines.deploy.deploy import Deploy
from pipelines.deploy.examine import live_of, shadow_of_pair
from pipelines.deploy.shadow import Pair
from pipelines.deploy.table_log import TableLog
from pipelines.exactly_once.deployed import DEPLOYED, replaced_by_deploy
from pipelines.model.meaning import fingerprint
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import compile_plan
from pipelines.report.totals import RunResult
from pipelines.sources.josefine import Topics
from tests.unit.pipelines.deploy.chained import IDS, P, append, rows

FILE = """\
version: 1
name: orders
spark: { checkpoint: FOLDER/ck }
sources:
  raw:
    type: josefine
    bootstrap: localhost:9092
    topics: [orders]
    start: earliest
    decode:
      value: { format: json, schema: "id INT", on_error: dead_letter }
transforms:
  clean: { inputs: [raw], sql: "select value.id, 'MADE' as kind from raw" }
sinks:
  lake: { type: delta, inputs: [clean], path: FOLDER/lake, mode: append }
  more: { type: delta, inputs: [clean], path: FOLDER/more, mode: append }
dead_letter: { type: delta, path: FOLDER/dead }
trigger: { available_now: true }
"""
OPERATIONS = ("link", "rename", "unlink", "rmdir", "mkdir", "utime")
"""What changes a disk. Opening a draft changes nothing that a reader sees."""


class Killed(BaseException):
    """No handler of the product's catches it, as none runs after SIGKILL."""


class World:
    """Three tables of one pipeline, and who writes them. `on_change`: called before each change
    of the disk by the deploy, and may raise Killed."""

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        self.folder = folder
        self.files = {made: self._file(made) for made in ("old", "new")}
        self.latest = 20
        self.on_change: Callable[[], None] = lambda: None
        self._commands = 0
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        monkeypatch.setattr(product, "run_sinks", self._fill_shadows)
        monkeypatch.setattr(failpoints, "die", self._die)

    def _file(self, made: str) -> Pipeline:
        text = FILE.replace("FOLDER", str(self.folder)).replace("MADE", made)
        return validate(load(text, f"{made}.yaml", {}))

    def _watched(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            self.on_change()
            return change(*arguments, **options)

        return changed

    def _die(self) -> None:
        raise Killed

    # -- the command -----------------------------------------------------------------------------

    def deploy(self) -> Deploy:
        """A new command: nothing of an earlier one is in its memory."""
        self._commands += 1
        return Deploy(
            old=self.files["old"],
            new=self.files["new"],
            run=f"command-{self._commands}",
            now_ms=lambda: 1_700_000_000_000,
            tell=lambda _: None,
            look=lambda _: Topics(
                earliest={P: 0}, latest=TopicOffsets(ends={P: self.latest}, topic_ids=IDS)
            ),
        )

    def swap(self) -> None:
        """What `pipeline deploy --swap` does."""
        deploy = self.deploy()
        if deploy.is_done():
            deploy.clean()
            return
        deploy.examine()
        spark: Any = SimpleNamespace()
        seen = deploy.catch_up(spark, spark)
        deploy.swap(spark, spark, seen)

    def fill(self) -> None:
        """What it does without `--swap`."""
        spark: Any = SimpleNamespace()
        self.deploy().catch_up(spark, spark)

    def take_back(self) -> int:
        return self.deploy().take_back()

    def abort(self) -> None:
        self.deploy().abort()

    def dies(self, command: Callable[[], object], place: str) -> bool:
        """Whether the command reaches this failpoint and dies there."""
        failpoints.arm(place, None)
        try:
            command()
        except Killed:
            return True
        finally:
            failpoints.arm(None, None)
        return False

    def _fill_shadows(self, spark: object, shadow: Pipeline, *_: object, **__: object) -> RunResult:
        """The run of the new file into the shadow tables, in batches of ten, with a checkpoint that
        must be whole and not ahead of the tables: Spark would stop there."""
        checkpoint, end = Path(shadow.checkpoint), shadow.sources["raw"].stop.offsets[P]
        if checkpoint.exists():
            reached = int((checkpoint / "offsets").read_text())
            assert all(position_of_shadow(pair) >= reached for pair in self.pairs)
        dead, *sinks = self.pairs
        for pair in sinks:
            for at in range(position_of_shadow(pair), end, 10):
                for each in (dead, pair):
                    self.on_change()
                    # Dead letters are ahead after a kill: they are not written again.
                    batch = range(max(at, position_of_shadow(each)), min(at + 10, end))
                    if batch:
                        append(Path(each.shadow), batch, "new", each.name)
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "offsets").write_text(str(end))
        return RunResult(sinks={}, seconds=0.0, interrupted=False)

    # -- tables and their readers ----------------------------------------------------------------

    @property
    def pairs(self) -> list[Pair]:
        return self.deploy().pairs

    def kinds(self) -> dict[str, str]:
        """Table → the file that made its rows. Fails for a mixture, a missing and a doubled row."""
        return {Path(pair.live).name: kind_of(pair) for pair in self.pairs}

    def may_start(self, made: str) -> bool:
        """Whether a run of this file starts, as its preparation decides it for each sink."""
        plan = compile_plan(self.files[made])
        for pair in self.pairs:
            tip, _ = live_of(pair).tip()
            if pair.sink is not None and tip is not None and DEPLOYED in tip.said:
                own = fingerprint(plan, pair.sink.name)
                if replaced_by_deploy(tip.said, own, made, pair.sink.name):
                    return False
        return True

    def should_start(self, made: str) -> bool:
        """Whether an operator's supervisor starts it: the file whose rows are there."""
        return self.may_start(made) and {*self.kinds().values()} == {made}

    def leftovers(self) -> list[str]:
        """What a finished or aborted deploy must not leave."""
        marks = ("__shadow_", ".deploy.tmp", "/ck/")
        return sorted(
            str(f) for f in self.folder.rglob("*") if any(mark in str(f) for mark in marks)
        )


def position_of(log: TableLog) -> int:
    """Where the chain of a table ends."""
    tip, _ = log.tip() if Path(log.path).exists() else (None, -1)
    return tip.reached.ends[P] if tip else 0


def position_of_shadow(pair: Pair) -> int:
    return position_of(shadow_of_pair(pair))


def kind_of(pair: Pair) -> str:
    """The file whose rows a reader finds in a table: each id once, up to the chain's end."""
    found = rows(Path(pair.live))
    kinds = {kind for _, kind in found}
    assert len(kinds) == 1, f"{pair.what}: a mixture of {kinds}"
    ids = [n for n, _ in found]
    assert ids == [*range(len(ids))], f"{pair.what}: lost or doubled rows: {ids}"
    assert position_of(live_of(pair)) == len(found), f"{pair.what}: rows and offsets differ"
    return kinds.pop()


class Run:
    """A running query over all tables: it stops when it finds a commit that is not its own."""

    def __init__(self, world: World, made: str) -> None:
        self._world, self._made = world, made
        self._newest = {pair.live: live_of(pair).txn_version() for pair in world.pairs}
        self.has_stopped = False

    def step(self, tables: int = 3) -> None:
        """One batch of five records, dead letters first, as a run commits them. `tables`: of a run
        that is killed after so many."""
        self._world.latest += 5
        for pair in self._world.pairs[:tables]:
            if self.has_stopped or live_of(pair).txn_version() != self._newest[pair.live]:
                self.has_stopped = True
                return
            start = position_of(live_of(pair))
            if start < self._world.latest:
                append(Path(pair.live), range(start, self._world.latest), self._made, pair.name)
                self._newest[pair.live] += 1

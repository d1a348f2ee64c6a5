"""Spark's driver that dies with several pipelines at once, each at the same place: of the tests of
`kill_cells`, which would start a driver for each of a hundred deaths otherwise.

`python -m tests.support.cells_driver PLACE VERB BOOTSTRAP FOLDER…`: runs the `lab.yaml` of each
folder, or replays its letters, on one Spark. Each begins when the one before has come to the place
and waits there, so that none waits for a turn of the processor. With the last one the JVM and this
process die by SIGKILL, as at a failpoint.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from pipelines.base import failpoints
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import Replay, replays
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.model.pipeline import Pipeline
from pipelines.report.progress import LineReporter
from pipelines.run.options import Wishes
from pipelines.run.run import run_pipeline
from pipelines.run.session import start_session
from pipelines.spark.jvm import process_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "15"
"""Of a batch: there is more to read than one."""


class Gathering:
    """Those who are at the place. Mutable."""

    def __init__(self, place: str, count: int, die: Callable[[], None]) -> None:
        name, _, index = place.partition(":")
        self._name, self._index = name, int(index) if index else None
        self._missing, self._die = count, die
        self._lock = threading.Lock()
        self.is_there = threading.Semaphore(0)

    def hit(self, name: str, index: int | None = None) -> None:
        if (name, index) == (self._name, self._index):
            self.arrive()

    def due(self, name: str) -> bool:
        return name == self._name

    def arrive(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing == 0:
                self._die()
        self.is_there.release()
        threading.Event().wait()


def _do(spark: SparkSession, verb: str, pipeline: Pipeline) -> None:
    """To its death; whatever else comes of it is an error."""
    try:
        if verb == "replay":
            replays(spark, pipeline, (), Replay.run)
        else:
            wishes = Wishes(trust=Trust.TABLE if verb == "trust" else Trust.NEITHER)
            run_pipeline(spark, pipeline, LineReporter(Console(file=sys.stderr)), wishes=wishes)
        print(f"{pipeline.file}: it ended before the place", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        print(f"{pipeline.file}: it failed before the place", file=sys.stderr)
    os._exit(1)


def main(place: str, verb: str, bootstrap: str, *folders: str) -> None:
    given = {**os.environ, "BOOTSTRAP": bootstrap, "ROWS": ROWS}
    pipelines = [read_pipeline(f"{one}/lab.yaml", {**given, "LAB": one}) for one in folders]
    spark = start_session(pipelines[0])
    jvm = process_of(spark)
    failpoints.arm(place, jvm.pid if jvm else None)
    gathering = Gathering(place, len(pipelines), failpoints.die)
    for name in ("hit", "due"):
        setattr(failpoints, name, getattr(gathering, name))
    failpoints.die = gathering.arrive
    threads = [
        threading.Thread(target=partial(_do, spark.newSession(), verb, each)) for each in pipelines
    ]
    for each in threads:
        each.start()
        gathering.is_there.acquire()


if __name__ == "__main__":
    main(*sys.argv[1:])

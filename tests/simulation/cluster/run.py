"""Run seeds: one life of a cluster each, alone or many at a time, with what they met.

    python -m tests.simulation.cluster.run SEED            replay one, with what it met
    python -m tests.simulation.cluster.run SEED --trace    ... and every event, a line each
    python -m tests.simulation.cluster.run 0 --seeds 1000  a thousand lives, on all cores

A run that breaks a rule ends with its seed and the line that replays it.
"""

import argparse
import contextlib
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from josefine_broker.base.errors import Fatal
from raft import InvariantBroken
from tests.simulation.cluster.chaos import Chaos
from tests.simulation.cluster.faults import Faults, draw_faults
from tests.simulation.cluster.world import World

__all__ = ["Life", "Total", "brokers_of", "live", "live_all", "simulate"]

FOR_MS = 8_000
"""Virtual time: a calm birth, and then some five sessions of a broker with faults."""
BROKEN_MAX = 10
"""A run ends after so many violations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What became of one seed."""

    seed: int
    events: int
    trace: int
    met: Counter[str]
    broken: str = ""


def brokers_of(seed: int) -> int:
    """Most clusters have three brokers, some five."""
    return 5 if seed % 8 == 7 else 3


def simulate(
    seed: int,
    for_ms: int = FOR_MS,
    *,
    show: bool = False,
    faults: Faults | None = None,
    brokers: int = 0,
) -> World:
    """One life; an error names the line that replays it."""
    with _silenced():
        return _simulate(seed, for_ms, show=show, faults=faults, brokers=brokers)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """What brokers log in their virtual lives is of no interest; other tests' logs are."""
    log = logging.getLogger("josefine_broker")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _simulate(seed: int, for_ms: int, *, show: bool, faults: Faults | None, brokers: int) -> World:
    world = World(
        seed, brokers=brokers or brokers_of(seed), faults=faults or draw_faults(Random(seed))
    )
    world.scheduler.trace_to = print if show else None
    try:
        chaos = Chaos(world, Random(seed + 1))
        world.scheduler.run(for_ms)
        chaos.is_over = True
        world.settle()
    except BaseException as error:
        error.add_note(
            f"replay: {replay_line(seed)} "
            f"(stopped at event {world.scheduler.events}, {world.scheduler.now_ms} ms)"
        )
        raise
    return world


def replay_line(seed: int) -> str:
    """How to see it again."""
    return f".venv/bin/python -m tests.simulation.cluster.run {seed}"


def live(seed: int) -> Life:
    """`simulate` as a value, for another process."""
    try:
        world = simulate(seed)
    except (Exception, Fatal, InvariantBroken) as error:
        said = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        return Life(seed=seed, events=0, trace=0, met=Counter(), broken=f"seed {seed}: {said}")
    met = world.met
    met["partition excused"] += sum(1 for each in world.view.partitions.values() if each.excused)
    met["partition"] += len(world.view.partitions)
    met["block"] += world.view.height
    scheduler = world.scheduler
    return Life(seed=seed, events=scheduler.events, trace=scheduler.trace, met=met)


def live_all(seeds: Iterable[int], jobs: int | None = None) -> Iterator[Life]:
    """All of them, in any order, on as many processes as this one may use cores."""
    jobs = jobs or len(os.sched_getaffinity(0))
    if jobs == 1:
        yield from map(live, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(live, seeds, chunksize=4)


class Total:
    """Sums over many lives, with a line now and then."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.seeds = self.events = 0
        self.met: Counter[str] = Counter()
        self.broken: list[str] = []

    def add(self, life: Life) -> None:
        self.seeds += 1
        self.events += life.events
        self.met += life.met
        if life.broken:
            self.broken.append(life.broken)

    def line(self) -> str:
        seconds = time.monotonic() - self.started
        met = self.met
        return (
            f"{self.seeds} seeds, {self.events} events, {met['record acknowledged']} records "
            f"acknowledged by acks=all, {met['batch read']} batches read, {met['restart']} "
            f"restarts, {met['leader elected']} elections, {seconds:.0f} s, "
            f"{len(self.broken)} violations"
        )


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run seeds of the cluster simulator.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from this one on")
    parser.add_argument("--jobs", type=int, help="processes (default: the cores)")
    parser.add_argument("--every", type=int, default=100, help="a line after so many seeds")
    parser.add_argument("--trace", action="store_true", help="print every event (one seed)")
    asked = parser.parse_args(arguments)
    if asked.seeds == 1:
        world = simulate(asked.seed, show=asked.trace)
        scheduler = world.scheduler
        print(f"seed {asked.seed}: {scheduler.events} events, trace {scheduler.trace:08x}")
        for what, count in sorted(world.met.items()):
            print(f"{count:8} {what}")
        return 0
    total = Total()
    for life in live_all(range(asked.seed, asked.seed + asked.seeds), asked.jobs):
        total.add(life)
        if life.broken:
            print(life.broken, flush=True)
        if len(total.broken) == BROKEN_MAX:
            print(f"{BROKEN_MAX} violations: that is enough")
            break
        if total.seeds % asked.every == 0 and total.seeds < asked.seeds:
            print(total.line(), flush=True)
    print(total.line())
    for what, count in sorted(total.met.items()):
        print(f"{count:10} {what}")
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

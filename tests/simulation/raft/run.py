"""Run seeds: one life of a cluster each, alone or many at a time, with what they met.

    python -m tests.simulation.raft.run SEED            replay one, with what it met
    python -m tests.simulation.raft.run SEED --trace    ... and every event, a line each
    python -m tests.simulation.raft.run 0 --seeds 1000  a thousand lives, on all cores

A run that breaks a rule ends with its seed and the line that replays it.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from raft import InvariantBroken
from tests.simulation.raft.faults import draw_faults
from tests.simulation.raft.world import World

__all__ = ["Life", "live", "live_all", "simulate"]

NODES = 5
FOR_MS = 8_000
"""Virtual time with faults: about twenty elections long."""

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


def simulate(seed: int, nodes: int = NODES, for_ms: int = FOR_MS, *, show: bool = False) -> World:
    """One life; an error names the line that replays it."""
    world = World(seed, nodes=nodes, faults=draw_faults(Random(seed)))
    world.trace_to = print if show else None
    try:
        world.run(for_ms)
        world.settle()
    except BaseException as error:
        error.add_note(
            f"replay: {replay_line(seed, nodes)} "
            f"(stopped at event {world.events}, {world.now_ms} ms)"
        )
        raise
    return world


def replay_line(seed: int, nodes: int) -> str:
    size = "" if nodes == NODES else f" --nodes {nodes}"
    return f".venv/bin/python -m tests.simulation.raft.run {seed}{size}"


def live(job: tuple[int, int]) -> Life:
    """`simulate` as a value, for another process."""
    seed, nodes = job
    try:
        world = simulate(seed, nodes)
    except (Exception, InvariantBroken) as error:
        said = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        return Life(seed=seed, events=0, trace=0, met=Counter(), broken=f"seed {seed}: {said}")
    met = world.met
    met["block committed"] += len(world.view.committed)
    met["read done"] += world.view.reads_done
    for result, count in world.results().items():
        met[f"proposal {result.name.lower()}"] += count
    return Life(seed=seed, events=world.events, trace=world.trace, met=met)


def live_all(seeds: Iterable[int], nodes: int = NODES, jobs: int | None = None) -> Iterator[Life]:
    """All of them, in any order, on as many processes as this one may use cores."""
    jobs = jobs or len(os.sched_getaffinity(0))
    work = ((seed, nodes) for seed in seeds)
    if jobs == 1:
        yield from map(live, work)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(live, work, chunksize=4)


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
            f"{self.seeds} seeds, {self.events} events, {met['block committed']} blocks committed, "
            f"{met['election won']} elections, {met['snapshot transfer']} snapshots sent, "
            f"{met['crash']} crashes, {seconds:.0f} s, {len(self.broken)} violations"
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run seeds of the Raft simulator.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from this one on")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--jobs", type=int, help="processes (default: the cores)")
    parser.add_argument("--every", type=int, default=100, help="a line after so many seeds")
    parser.add_argument("--trace", action="store_true", help="print every event (one seed)")
    asked = parser.parse_args(arguments)
    if asked.seeds == 1:
        world = simulate(asked.seed, asked.nodes, show=asked.trace)
        print(f"seed {asked.seed}: {world.events} events, trace {world.trace:08x}")
        for what, count in sorted(live((asked.seed, asked.nodes)).met.items()):
            print(f"{count:8} {what}")
        return 0
    total = Total()
    for life in live_all(range(asked.seed, asked.seed + asked.seeds), asked.nodes, asked.jobs):
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

"""Lives of simulated worlds, for both simulators: one again, or many at a time, and their sums.

A simulator gives `live`, which makes one life of a seed and raises when a rule is broken, and the
words for its sums. Jobs are processes of their own; a broken life ends with the line that replays
it.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from josefine_broker.base.errors import Fatal
from raft import InvariantBroken

__all__ = [
    "Life",
    "Live",
    "Share",
    "Switches",
    "Total",
    "VirtualTime",
    "arguments_for",
    "live_all",
    "live_share",
    "naming_replay",
    "run",
    "switches_on",
    "traces_of_two_processes",
]

Switches = Mapping[str, Sequence[str]]
"""Fault → what is counted when it takes place."""

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


class Live(Protocol):
    """One life, with a line per event if it is to be shown. Can be sent to another process."""

    def __call__(self, seed: int, *, show: bool = False) -> Life: ...


class VirtualTime(Protocol):
    """How far a world came."""

    events: int
    now_ms: int


@contextmanager
def naming_replay(arguments: str, world: VirtualTime) -> Iterator[None]:
    """An error in here says how to see it again: `python -m tests.simulation.` these arguments."""
    try:
        yield
    except BaseException as error:
        error.add_note(
            f"replay: .venv/bin/python -m tests.simulation.{arguments} "
            f"(stopped at event {world.events}, {world.now_ms} ms)"
        )
        raise


def _live_or_tell(live: Live, seed: int) -> Life:
    """`live`, with what it raised as a value, for another process."""
    try:
        return live(seed)
    except (Exception, Fatal, InvariantBroken) as error:
        said = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        return Life(seed=seed, events=0, trace=0, met=Counter(), broken=f"seed {seed}: {said}")


def live_all(live: Live, seeds: Iterable[int], jobs: int | None = None) -> Iterator[Life]:
    """All of them, in any order, on as many processes as this one may use cores."""
    jobs = jobs or len(os.sched_getaffinity(0))
    one = partial(_live_or_tell, live)
    if jobs == 1:
        yield from map(one, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(one, seeds, chunksize=4)


class Total:
    """Sums over many lives, with a line now and then."""

    def __init__(self, words: dict[str, str]) -> None:
        """`words` are what the line tells: what was met, and how it is called there."""
        self.started = time.monotonic()
        self.seeds = self.events = 0
        self.met: Counter[str] = Counter()
        self.broken: list[str] = []
        self._words = words

    def add(self, life: Life) -> None:
        self.seeds += 1
        self.events += life.events
        self.met += life.met
        if life.broken:
            self.broken.append(life.broken)

    def line(self) -> str:
        seconds = time.monotonic() - self.started
        met = [f"{self.met[what]} {word}" for what, word in self._words.items()]
        parts = [f"{self.seeds} seeds", f"{self.events} events", *met, f"{seconds:.0f} s"]
        return ", ".join([*parts, f"{len(self.broken)} violations"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The lives that tests look at together."""

    total: Total
    lives: list[Life]
    is_whole: bool
    """Not only the lives of a day."""


def live_share(
    live: Live, seeds: Iterable[int], words: dict[str, str], *, is_whole: bool = True
) -> Share:
    """All of them, and their sums."""
    share = Share(total=Total(words), lives=[], is_whole=is_whole)
    for life in live_all(live, seeds):
        share.total.add(life)
        share.lives.append(life)
    return share


def arguments_for(description: str) -> argparse.ArgumentParser:
    """The arguments of `run`; a simulator may add its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("seed", type=int)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from this one on")
    parser.add_argument("--jobs", type=int, help="processes (default: the cores)")
    parser.add_argument("--every", type=int, default=100, help="a line after so many seeds")
    parser.add_argument("--trace", action="store_true", help="print every event (one seed)")
    return parser


def switches_on(faults: object, switches: Switches) -> Counter[str]:
    """Which of its faults a life may meet at all: one of each that is not zero."""
    return Counter(_switch(name) for name in switches if getattr(faults, name))


def _switch(name: str) -> str:
    return f"life with {name}"


def run(
    asked: argparse.Namespace, live: Live, words: dict[str, str], switches: Switches | None = None
) -> int:
    """One life or many, as asked; the exit code. One life raises what broke it."""
    switches = switches or {}
    if asked.seeds == 1:
        life = live(asked.seed, show=asked.trace)
        print(f"seed {life.seed}: {life.events} events, trace {life.trace:08x}")
        _print_switches(life.met, switches, width=8)
        _print_met(life.met, switches, width=8)
        return 0
    total = Total(words)
    for life in live_all(live, range(asked.seed, asked.seed + asked.seeds), asked.jobs):
        total.add(life)
        if life.broken:
            print(life.broken, flush=True)
        if len(total.broken) == BROKEN_MAX:
            print(f"{BROKEN_MAX} violations: that is enough")
            break
        if total.seeds % asked.every == 0 and total.seeds < asked.seeds:
            print(total.line(), flush=True)
    print(total.line())
    _print_switches(total.met, switches, width=10)
    _print_met(total.met, switches, width=10)
    return 1 if total.broken else 0


def _print_switches(met: Counter[str], switches: Switches, width: int) -> None:
    """In how many lives each fault could take place, and how often it did."""
    if switches:
        print(f"{'lives':>{width}} {'times':>{width}} fault")
    for name, counted in switches.items():
        times = sum(met[what] for what in counted)
        print(f"{met[_switch(name)]:{width}} {times:{width}} {name}")


def _print_met(met: Counter[str], switches: Switches, width: int) -> None:
    told = {_switch(name) for name in switches}
    for what, count in sorted(met.items()):
        if what not in told:
            print(f"{count:{width}} {what}")


def traces_of_two_processes(module: str, seed: int) -> tuple[bytes, bytes]:
    """What `module` prints of a seed's events, under two orders of hashes."""
    line = [sys.executable, "-m", module, str(seed), "--trace"]
    first, second = (
        subprocess.run(
            line, env=os.environ | {"PYTHONHASHSEED": str(salt)}, capture_output=True, check=True
        ).stdout
        for salt in (1, 2)
    )
    return first, second

"""Run seeds: one life of a cluster each, alone or many at a time, with what they met.

    python -m tests.simulation.cluster.run SEED            replay one, with what it met
    python -m tests.simulation.cluster.run SEED --trace    ... and every event, a line each
    python -m tests.simulation.cluster.run 0 --seeds 1000  a thousand lives, on all cores
    ... --groups, --transactions                           with those in each; --no-groups, ...
    ... --groups --consumer_groups --migrating             with classic members in them, too
    ... --shares                                           with a share group in each
    ... --liveness                                         that end with a healthy majority only
    ... --limits                                           whose others cannot write for ever
    ... --groups --consumer_groups                         groups of the consumer protocol in each

A run that breaks a rule ends with its seed and the line that replays it (lives.py).
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from tests.simulation import lives
from tests.simulation.cluster.chaos import Chaos
from tests.simulation.cluster.faults import SWITCHES, Faults, draw_faults
from tests.simulation.cluster.liveness import LimitedWorld, LiveWorld
from tests.simulation.cluster.world import World
from tests.simulation.lives import Life

__all__ = ["WORDS", "brokers_of", "live", "simulate"]

FOR_MS = 8_000
"""Virtual time: a calm birth, and then some five sessions of a broker with faults."""

WORDS = {
    "record acknowledged": "records acknowledged by acks=all",
    "batch read": "batches read",
    "restart": "restarts",
    "leader elected": "elections",
}
"""What the line of sums tells."""
FORCED = (
    "groups",
    "transactions",
    "consumer_groups",
    "two_phase",
    "migrating",
    "shares",
    "dead_letters",
    "mirror",
    "spreading",
)
"""What can be asked for in every life."""


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
    forced: Sequence[str] = (),
    without: Sequence[str] = (),
    liveness: bool = False,
    limits: bool = False,
) -> World:
    """One life; an error names the line that replays it. It has what is `forced` in any case, and
    in none what it is to be `without`. `liveness`: it ends with a healthy majority, and not with a
    healthy cluster; `limits`: the others are at a limit of their machines for ever."""
    faults = faults or draw_faults(Random(seed))
    faults = replace(faults, **dict.fromkeys(forced, 1.0), **dict.fromkeys(without, 0.0))
    asked = [*(f"--{each}" for each in forced), *(f"--no-{each}" for each in without)]
    asked += ["--liveness"] if liveness else []
    asked += ["--limits"] if limits else []
    replay = " ".join([f"cluster.run {seed}", *asked])
    kind = LimitedWorld if limits else LiveWorld if liveness else World
    world = kind(seed, brokers=brokers or brokers_of(seed), faults=faults)
    world.scheduler.trace_to = print if show else None
    with _silenced(), lives.naming_replay(replay, world.scheduler):
        chaos = Chaos(world, Random(seed + 1))
        world.scheduler.run(for_ms)
        chaos.is_over = True
        world.settle()
    return world


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


def live(
    seed: int,
    *,
    show: bool = False,
    forced: Sequence[str] = (),
    without: Sequence[str] = (),
    liveness: bool = False,
    limits: bool = False,
) -> Life:
    """`simulate`, and what was met."""
    ending = {"liveness": liveness, "limits": limits}
    world = simulate(seed, show=show, forced=forced, without=without, **ending)
    met = world.met
    met["partition excused"] += sum(1 for each in world.view.partitions.values() if each.excused)
    met["partition"] += len(world.view.partitions)
    met["block"] += world.view.height
    met.update(lives.switches_on(draw_faults(Random(seed)), SWITCHES))
    scheduler = world.scheduler
    return Life(seed=seed, events=scheduler.events, trace=scheduler.trace, met=met)


def main(arguments: list[str]) -> int:
    parser = lives.arguments_for("Run seeds of the cluster simulator.")
    for name in FORCED:
        parser.add_argument(f"--{name}", action="store_true", help=f"{name} in every life")
        parser.add_argument(f"--no-{name}", action="store_true", help=f"{name} in no life")
    parser.add_argument(
        "--liveness", action="store_true", help="end with a healthy majority, the rest stays broken"
    )
    parser.add_argument(
        "--limits", action="store_true", help="end with a majority; the rest cannot write for ever"
    )
    asked = parser.parse_args(arguments)
    forced = tuple(each for each in FORCED if getattr(asked, each))
    without = tuple(each for each in FORCED if getattr(asked, f"no_{each}"))
    ending = {"liveness": asked.liveness, "limits": asked.limits}
    one = partial(live, forced=forced, without=without, **ending)
    return lives.run(asked, one, WORDS, SWITCHES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

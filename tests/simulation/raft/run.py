"""Run seeds: one life of a cluster each, alone or many at a time, with what they met.

    python -m tests.simulation.raft.run SEED            replay one, with what it met
    python -m tests.simulation.raft.run SEED --trace    ... and every event, a line each
    python -m tests.simulation.raft.run 0 --seeds 1000  a thousand lives, on all cores
    python -m tests.simulation.raft.run 0 --liveness    ... that end with a healthy majority only

A run that breaks a rule ends with its seed and the line that replays it (lives.py).
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from random import Random
from types import MappingProxyType

from tests.simulation import lives
from tests.simulation.lives import Life
from tests.simulation.raft.faults import SWITCHES, draw_faults
from tests.simulation.raft.liveness import LiveWorld
from tests.simulation.raft.world import World

__all__ = ["WORDS", "live", "simulate"]

NODES = 5
NOTHING: Mapping[str, float] = MappingProxyType({})
FOR_MS = 8_000
"""Virtual time with faults: about twenty elections long."""

WORDS = {
    "block committed": "blocks committed",
    "election won": "elections",
    "snapshot transfer": "snapshots sent",
    "crash": "crashes",
}
"""What the line of sums tells."""


def simulate(
    seed: int,
    nodes: int = NODES,
    for_ms: int = FOR_MS,
    *,
    show: bool = False,
    without: Mapping[str, float] = NOTHING,
    liveness: bool = False,
) -> World:
    """One life; an error names the line that replays it. `without`: faults changed after they were
    drawn. `liveness`: it ends with a healthy majority instead of a healthy cluster."""
    kind = LiveWorld if liveness else World
    world = kind(seed, nodes=nodes, faults=replace(draw_faults(Random(seed)), **without))
    world.trace_to = print if show else None
    options = "" if nodes == NODES else f" --nodes {nodes}"
    options += " --liveness" if liveness else ""
    with lives.naming_replay(f"raft.run {seed}{options}", world):
        world.run(for_ms)
        world.settle()
    return world


def live(seed: int, nodes: int = NODES, *, show: bool = False, liveness: bool = False) -> Life:
    """`simulate`, and what was met."""
    world = simulate(seed, nodes, show=show, liveness=liveness)
    met = world.met
    met["block committed"] += len(world.view.committed)
    met["read done"] += world.view.reads_done
    met.update(lives.switches_on(draw_faults(Random(seed)), SWITCHES))
    for result, count in world.results().items():
        met[f"proposal {result.name.lower()}"] += count
    return Life(seed=seed, events=world.events, trace=world.trace, met=met)


def main(arguments: list[str]) -> int:
    parser = lives.arguments_for("Run seeds of the Raft simulator.")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument(
        "--liveness", action="store_true", help="end with a healthy majority, the rest stays broken"
    )
    asked = parser.parse_args(arguments)
    one = partial(live, nodes=asked.nodes, liveness=asked.liveness)
    return lives.run(asked, one, WORDS, SWITCHES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

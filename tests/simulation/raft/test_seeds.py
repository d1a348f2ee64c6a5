"""Random worlds: every seed is a life of a cluster with its own mixture of faults."""

import sys
from random import Random

import pytest

from raft import Result
from tests.simulation.raft.faults import CALM, draw_faults
from tests.simulation.raft.world import World

SEEDS = range(40)

REGRESSIONS = (
    1095, 1148, 1375,  # a forwarded proposal was appended twice, or called dead and committed
    1043, 1187,  # of two voters one crashed while demoting itself, and nobody could be elected
)  # fmt: skip
"""Seeds that once found a fault."""


def simulate(seed: int, nodes: int | None = None, for_ms: int = 8_000) -> World:
    """One life, of two to five nodes; an error names the line that replays it."""
    nodes = nodes or (3, 5, 4, 2)[seed % 4]
    world = World(seed, nodes=nodes, faults=draw_faults(Random(seed)))
    try:
        world.run(for_ms)
        world.settle()
    except BaseException as error:
        error.add_note(
            f"replay: python -m tests.simulation.raft.test_seeds {seed} "
            f"(stopped at event {world.events}, {world.now_ms} ms)"
        )
        raise
    return world


@pytest.mark.parametrize("seed", [*SEEDS, *REGRESSIONS])
def test_no_mixture_of_faults_breaks_a_rule(seed: int) -> None:
    """Checklist rows 3, 4, 9 and 10."""
    simulate(seed)


def test_a_seed_replays_event_for_event() -> None:
    first, second = simulate(11), simulate(11)

    assert (first.trace, first.events) == (second.trace, second.events)


def test_without_faults_every_proposal_is_committed() -> None:
    world = World(1, nodes=5, faults=CALM)
    world.run(5_000)
    world.settle()

    results = world.results()
    assert results[Result.COMMITTED] > 300
    assert results[Result.DEAD] == results[Result.UNKNOWN] == 0


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument, simulate(int(argument)).results())

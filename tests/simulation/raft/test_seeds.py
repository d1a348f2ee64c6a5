"""Random worlds: every seed is a life of a cluster with its own mixture of faults."""

from random import Random

import pytest

from raft import Result
from tests.simulation.raft.faults import CALM, draw_faults
from tests.simulation.raft.world import World

SEEDS = range(40)


def simulate(seed: int, nodes: int = 5, for_ms: int = 8_000) -> World:
    """One life; an error names the line that replays it."""
    world = World(seed, nodes=nodes, faults=draw_faults(Random(seed)))
    try:
        world.run(for_ms)
        world.settle()
    except BaseException as error:
        error.add_note(
            f"replay: pytest 'tests/simulation/raft/test_seeds.py::"
            f"test_no_mixture_of_faults_breaks_a_rule[{seed}]' (event {world.events}, "
            f"{world.now_ms} ms, {world.faults})"
        )
        raise
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_no_mixture_of_faults_breaks_a_rule(seed: int) -> None:
    simulate(seed, nodes=3 if seed % 2 else 5)


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

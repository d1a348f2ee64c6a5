"""One bad replica takes nothing from the others: all brokers are killed, one log is damaged, and
they start in any order. Whole clusters in virtual time, as in `test_seeds.py`."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from josefine_broker.host.replica_manager import Hosting
from tests.simulation.cluster.damage import flip_bit, lose_directory, newest_segment
from tests.simulation.cluster.faults import CALM
from tests.simulation.cluster.world import World
from tests.simulation.mutating import mutated

DAMAGED = 2
ORDERS = list(itertools.permutations((1, 2, 3)))
Damage = Callable[[World, str], None]


def flipped(world: World, directory: str) -> None:
    files = world.machines[DAMAGED].disk.files
    path = newest_segment(files, directory)
    assert path is not None
    flip_bit(files, path, world.rng)


def end_flipped(world: World, directory: str) -> None:
    """In the last batch: nothing intact follows, so the start cuts it off."""
    files = world.machines[DAMAGED].disk.files
    path = newest_segment(files, directory)
    assert path is not None
    files.names[path].data[-1] ^= 1


def lost(world: World, directory: str) -> None:
    lose_directory(world.machines[DAMAGED].disk.files, directory)


def killed_and_damaged(damage: Damage, topic: str, seed: int = 5) -> World:
    """A cluster that has acknowledged records on three brokers, all of them killed at once, and one
    log on one of them damaged: of a partition that syncs every batch, or none."""
    world = World(seed, brokers=3, faults=CALM)
    world.scheduler.run(6_000)
    for broker_id in world.broker_ids:
        world.kill(broker_id, power=False)
    (facts, _, entry), *_ = (each for each in world.view.entries() if each[0].name == topic)
    assert len(entry.isr) == 3
    assert facts.acks
    damage(world, topic)
    return world


def come_back(world: World, order: tuple[int, ...]) -> None:
    """One after the other; then everything that was acknowledged must be everywhere."""
    for broker_id in order:
        world.start(broker_id)
        world.scheduler.run(1_500)
    world.settle()


@pytest.mark.long_proof(share=5)
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("damage", [flipped, end_flipped, lost])
@pytest.mark.parametrize("topic", ["synced-0", "cached-0"])
def test_acknowledged_records_outlive_one_bad_replica(
    topic: str, damage: Damage, order: tuple[int, ...]
) -> None:
    world = killed_and_damaged(damage, topic)

    come_back(world, order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line."""

    damage: Damage
    function: Callable[..., Any]
    old: str
    new: str


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize(
    "mutant",
    [
        Mutant(
            damage=end_flipped,
            function=Hosting._judged,
            old="found = recovered.log.recovery_report.completeness",
            new="return Completeness.COMPLETE",
        ),
        Mutant(
            damage=lost,
            function=Hosting.prepare,
            old="logs.setdefault(key, gone)",
            new="pass",
        ),
    ],
    ids=["shortened counts as complete", "missing counts as complete"],
)
def test_a_bad_replica_that_counts_is_noticed(mutant: Mutant) -> None:
    """The order of the issue that this was found with."""
    world = killed_and_damaged(mutant.damage, topic="cached-0")

    with mutated(mutant), pytest.raises(AssertionError):
        come_back(world, (2, 1, 3))

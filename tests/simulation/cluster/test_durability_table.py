"""The durability table of README.md and RELIABILITY.md, cell by cell: what is acknowledged with
acks=all survives what the column says, or the table says that it may not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.cluster.faults import CALM
from tests.simulation.cluster.view import PartitionFacts
from tests.simulation.cluster.world import World

ROOT = Path(__file__).parents[3]
LOST = "the last seconds may be lost"


def kill_all(world: World) -> None:
    for broker_id in world.broker_ids:
        world.kill(broker_id, power=False)


def take_power_of_one(world: World) -> None:
    (_, _, entry) = next(each for each in world.view.entries() if each[0].name == "cached-0")
    world.kill(entry.leader, power=True)


def take_power_of_all(world: World) -> None:
    for broker_id in world.broker_ids:
        world.kill(broker_id, power=True)


COLUMNS: Mapping[str, Callable[[World], None]] = {
    "kill -9 of brokers": kill_all,
    "power loss of one machine": take_power_of_one,
    "of all machines": take_power_of_all,
}
ROWS = {
    "`flush.messages=1`": ("synced",),
    "not set: page cache, as in Kafka": ("cached-0", "cached-1"),
    "group offsets, transactions' state: always synced": ("__consumer", "__transaction"),
    "metadata (topics, leaders, users, ACLs): always synced": (),
}
"""The names of the partitions in each row begin so; of the metadata every topic must be there. With
`min.insync.replicas=1` (`cached-one`) there may be no other in-sync replica."""


def cells(path: str) -> dict[tuple[str, str], str]:
    """The table of that file, by row and column."""
    lines = (ROOT / path).read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| | kill -9"))
    found = {}
    head = [each.strip() for each in lines[start].strip("| ").split("|")]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        row, *promises = [each.strip() for each in line.strip("| ").split("|")]
        found |= {(row, name): each for name, each in zip(head, promises, strict=True)}
    return found


TABLE = cells("RELIABILITY.md")


def test_every_cell_is_tested_and_the_readme_says_the_same() -> None:
    assert {*TABLE} == {(row, column) for row in ROWS for column in COLUMNS}
    assert cells("README.md").items() <= TABLE.items()


def lived(column: str) -> tuple[World, list[PartitionFacts], set[str]]:
    """A cluster with records, groups and transactions, what befell it, and all is whole again."""
    world = World(5, brokers=3, faults=replace(CALM, groups=1.0, transactions=1.0))
    world.scheduler.run(6_000)
    topics = {*world.view.image.topics}
    COLUMNS[column](world)
    world.scheduler.run(500)
    for broker_id in world.broker_ids:
        world.start_if_down(broker_id)
    world.settle()
    return world, [*world.view.partitions.values()], topics


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_acknowledged_survives_as_the_table_says(column: str) -> None:
    """`settle` compares each acknowledged record with each replica, where nothing excuses it."""
    world, every, topics = lived(column)

    for row, names in ROWS.items():
        promise = TABLE[row, column]
        of_row = [each for each in every if each.name.startswith(names)]
        excused = {each.name: each.excused for each in of_row if each.excused}
        assert bool(excused) is (promise == LOST), f"{row}: {promise}: {excused}"
        if names and not row.startswith("group"):
            assert sum(len(each.acks) for each in of_row) > 20
        assert len(of_row) > 1 or not names
    assert topics <= {*world.view.image.topics}

"""Logs heal themselves: every replica is damaged at another place while clients work, and all are
whole again. Whole clusters in virtual time, as in `test_seeds.py`."""

import contextlib
from collections.abc import Callable

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.hosted import HostedPartition
from tests.simulation.cluster.faults import CALM
from tests.simulation.cluster.view import PartitionFacts
from tests.simulation.cluster.world import World

HEALED_WITHIN_MS = 60_000


def grown(seed: int = 5, for_ms: int = 6_000) -> World:
    """A cluster of three brokers that has acknowledged records."""
    world = World(seed, brokers=3, faults=CALM)
    world.scheduler.run(for_ms)
    return world


def partition(world: World, topic: str) -> tuple[PartitionFacts, dict[int, HostedPartition], int]:
    """Its facts, its replicas by broker, and its leader."""
    ((facts, name, entry),) = (each for each in world.view.entries() if each[0].name == topic)
    found = {each: world.view.hosted(each, name, facts.key) for each in entry.replicas}
    return facts, {each: hosted for each, hosted in found.items() if hosted}, entry.leader


def path_of(world: World, broker_id: int, topic: str, offset: int) -> str:
    """The segment file that contains this offset."""
    files = world.machines[broker_id].disk.files
    bases = [name for name in files.list(topic) if name.endswith(".log")]
    return f"{topic}/{max(name for name in bases if int(name[:20]) <= offset)}"


def flip(world: World, broker_id: int, topic: str, offset: int, byte: int) -> None:
    """A bit of the batch with this base offset."""
    data = world.machines[broker_id].disk.files.names[path_of(world, broker_id, topic, offset)].data
    at = bytes(data).find(offset.to_bytes(8, "big"))
    assert at >= 0
    data[at + byte] ^= 1


def remove(world: World, broker_id: int, topic: str, offset: int, byte: int) -> None:
    world.machines[broker_id].disk.files.names.pop(path_of(world, broker_id, topic, offset))


def cut(world: World, broker_id: int, topic: str, offset: int, byte: int) -> None:
    data = world.machines[broker_id].disk.files.names[path_of(world, broker_id, topic, offset)].data
    del data[bytes(data).find(offset.to_bytes(8, "big")) + byte :]


Damage = Callable[[World, int, str, int, int], None]


def look_everywhere(world: World, topic: str) -> None:
    """Every broker reads its whole log, as the scrub does."""
    _, replicas, _ = partition(world, topic)
    for hosted in replicas.values():
        for segment in hosted.log._segments:  # type: ignore[attr-defined]
            segment.reads.forget()
        offset = hosted.log.log_start_offset
        while offset < hosted.log.log_end_offset:
            with contextlib.suppress(KafkaError):
                hosted.log.read(offset, 1, end_offset=hosted.log.log_end_offset)
            offset += 1


@pytest.mark.parametrize("topic", ["synced-0", "cached-0"])
@pytest.mark.parametrize("byte", [9, 20, 40, 70], ids=lambda each: f"byte {each}")
def test_flips_at_a_different_place_of_each_replica_are_repaired(topic: str, byte: int) -> None:
    world = grown()
    facts, replicas, _ = partition(world, topic)
    offsets = [each.base_offset for each in facts.batches[4:40:8]]
    for number, broker_id in enumerate(replicas):
        flip(world, broker_id, topic, offsets[number], byte)
    look_everywhere(world, topic)
    assert all(hosted.log.damage.found for hosted in replicas.values())  # type: ignore[attr-defined]

    healed = world.scheduler.run_until(
        lambda: not any(hosted.log.damage.found for hosted in replicas.values()),  # type: ignore[attr-defined]
        HEALED_WITHIN_MS,
    )

    assert healed
    look_everywhere(world, topic)
    assert not any(hosted.log.damage.found for hosted in replicas.values())  # type: ignore[attr-defined]
    world.settle()

"""What lives as long as the broker is not looked at, because it needs no collector to go."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator

import pytest

from josefine_broker.host.gc_freeze import (
    PARTITIONS_PER_FREEZE,
    SERVING_OBJECTS,
    STARTING_OBJECTS,
    Freezer,
    rarely_collected,
)
from josefine_broker.wire.entities import delete_topics
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.api.world import World, batch_of

OF_A_PARTITION = {"PartitionLog", "LogSync", "LogState", "Partition", "HostedPartition", "Segment"}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No cycle is found and nothing stays frozen for other tests."""
    usual = gc.get_threshold()
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*usual)


class Cycle:
    """Only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def alive() -> Counter[str]:
    """Of those kinds, whoever made them."""
    names = (type(each).__name__ for each in gc.get_objects())
    return Counter(name for name in names if name in OF_A_PARTITION)


@pytest.mark.usefixtures("uncollected")
def test_a_deleted_partition_goes_without_the_collector() -> None:
    before = alive()
    world = World(group=ManualSyncs().group)  # as a broker's logs are synced
    world.create("orders", partitions=2)
    world.produce(batch_of(b"a"))
    assert (alive() - before).keys() == OF_A_PARTITION

    state = delete_topics.DeleteTopicState(name="orders")
    world.ask(20, delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=1000))

    assert alive() == before


@pytest.mark.usefixtures("uncollected")
def test_what_is_alive_is_moved_out_of_sight_once_per_so_many_partitions() -> None:
    freezer = Freezer()
    before = gc.get_freeze_count()

    for _ in range(PARTITIONS_PER_FREEZE - 1):
        freezer.opened()
    assert gc.get_freeze_count() == before

    freezer.opened()
    assert gc.get_freeze_count() > before


@pytest.mark.usefixtures("uncollected")
def test_garbage_is_not_moved_out_of_sight() -> None:
    freezer, cycle = Freezer(), Cycle()
    gone = weakref.ref(cycle)
    del cycle

    for _ in range(PARTITIONS_PER_FREEZE):
        freezer.opened()
    gc.collect()

    assert gone() is None


@pytest.mark.usefixtures("uncollected")
def test_partitions_that_a_start_opens_cost_no_collection() -> None:
    freezer, collections = Freezer(), list[str]()

    def note(phase: str, _: object) -> None:
        collections.append(phase)

    gc.callbacks.append(note)
    try:
        with rarely_collected():
            for _ in range(PARTITIONS_PER_FREEZE):
                freezer.opened()
    finally:
        gc.callbacks.remove(note)

    assert collections == []


@pytest.mark.usefixtures("uncollected")
def test_start_collects_rarely_and_leaves_its_objects_out_of_sight() -> None:
    usual, before = gc.get_threshold(), gc.get_freeze_count()

    with rarely_collected():
        during = gc.get_threshold()

    assert during == (STARTING_OBJECTS, *usual[1:])
    assert gc.get_threshold() == (SERVING_OBJECTS, *usual[1:])
    assert gc.get_freeze_count() > before

"""Shapes of histories in which rules about the last in-sync replica of a partition matter.

One of two replicas was stopped, so the other is the ISR alone. It is stopped, too, and its disk is
in trouble at the next start. Nobody else may lead: what it claims of its log decides whether the
partition ever has a leader again. Chance draws this too seldom to show a broken rule.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from josefine_broker.engine.cluster.enrolment import Enrolment
from josefine_broker.host.log import recovery
from josefine_broker.host.replica_manager import Hosting
from tests.simulation.cluster.test_repair import damage_of, flip, grown, partition, path_of
from tests.simulation.cluster.world import World
from tests.simulation.mutating import Mutant, mutated

TOPIC = "synced-one-0"
"""Two replicas, of which one is enough."""
SERVES_WITHIN_MS = 30_000
PASSES_AFTER_MS = 100
"""Before the broker is registered, and opens its logs."""


def left_alone(seed: int) -> tuple[World, int, int]:
    """The world, the broker that is the ISR alone, and the other replica; both are stopped, and
    their logs are the same."""
    world = grown(seed)
    for producer in world.producers:
        producer.is_sending = False
    world.scheduler.run(2_000)
    _, replicas, leader = partition(world, TOPIC)
    (other,) = [each for each in replicas if each != leader]
    world.kill(other, power=False)

    def is_alone() -> bool:
        (entry,) = (each for facts, _, each in world.view.entries() if facts.name == TOPIC)
        return entry.isr == (leader,)

    assert world.scheduler.run_until(is_alone, SERVES_WITHIN_MS)
    world.scheduler.run(2_000)  # its high watermark is stored
    world.kill(leader, power=False)
    return world, leader, other


def cut_its_end(world: World, broker_id: int, other: int) -> None:
    """The last batch is damaged, and nothing shows what was synced: a start cuts it off."""
    files = world.machines[broker_id].disk.files
    for name in [each for each in files.list(TOPIC) if each.startswith("synced")]:
        files.names.pop(f"{TOPIC}/{name}")
    facts, _, _ = next(each for each in world.view.entries() if each[0].name == TOPIC)
    flip(world, broker_id, TOPIC, facts.batches[-1].base_offset, 40)
    world.start(broker_id)
    world.start(other)


def fail_its_reads_for_a_while(world: World, broker_id: int, other: int) -> None:
    """At its start the disk cannot read the log: an error that passes."""
    facts, _, _ = next(each for each in world.view.entries() if each[0].name == TOPIC)
    path = path_of(world, broker_id, TOPIC, facts.batches[-1].base_offset)
    files = world.machines[broker_id].disk.files
    real = files.open

    def open_failing(name: str, *, create: bool = False) -> object:
        if name.startswith(f"{TOPIC}/"):
            raise OSError(errno.EIO, "the disk does not answer")
        return real(name, create=create)

    assert path in files.names
    files.open = open_failing  # type: ignore[method-assign, assignment]
    world.start(broker_id)
    world.start(other)
    world.scheduler.run(PASSES_AFTER_MS)
    files.open = real  # type: ignore[method-assign]


def leave_an_unfinished_write(world: World, broker_id: int, other: int) -> None:
    """It was killed within a write. The other replica never comes back: it is not waited for."""
    facts, _, _ = next(each for each in world.view.entries() if each[0].name == TOPIC)
    path = path_of(world, broker_id, TOPIC, facts.batches[-1].base_offset)
    world.machines[broker_id].disk.files.names[path].data += bytes(30)
    world.start(broker_id)


Trouble = Callable[[World, int, int], None]


def serve_again(trouble: Trouble, seed: int) -> None:
    """Raises AssertionError if the partition has no leader again, or lacks a committed batch."""
    world, leader, other = left_alone(seed)
    facts, _, _ = next(each for each in world.view.entries() if each[0].name == TOPIC)
    committed = list(facts.batches)
    trouble(world, leader, other)

    def is_whole() -> bool:
        found, replicas, elected = partition(world, TOPIC)
        hosted = replicas.get(elected)
        return (
            hosted is not None
            and hosted.partition.is_leader
            and not any(map(damage_of, replicas.values()))
            and found.batches[: len(committed)] == committed
            and hosted.log.log_end_offset >= committed[-1].end_offset
        )

    assert world.scheduler.run_until(is_whole, SERVES_WITHIN_MS), "no leader has all of the log"


SEEDS = (2, 5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "trouble", [cut_its_end, fail_its_reads_for_a_while, leave_an_unfinished_write]
)
def test_last_in_sync_replica_leads_again_with_all_that_was_committed(
    trouble: Trouble, seed: int
) -> None:
    serve_again(trouble, seed)


@pytest.mark.parametrize(
    ("trouble", "mutant"),
    [
        (
            cut_its_end,
            Mutant(
                breaks="a log whose end was cut off may lead if nobody is better",
                function=Hosting._claimed,
                old="return Completeness.UNSYNCED",
                new="return found",
                seed=SEEDS[0],
            ),
        ),
        (
            leave_an_unfinished_write,
            Mutant(
                breaks="an unfinished write is no reason to wait for who may never come back",
                function=recovery.cut,
                old="tally.note(Completeness.UNSYNCED)",
                new="tally.note(Completeness.SHORTENED)",
                seed=SEEDS[0],
            ),
        ),
        (
            fail_its_reads_for_a_while,
            Mutant(
                breaks="a log that could be opened after all counts again",
                function=Enrolment._better_claims,
                old="claim.or_worse(ctx.cluster.best_claim)",
                new="Completeness.UNREADABLE",
                seed=SEEDS[0],
            ),
        ),
    ],
    ids=["cut", "unfinished write", "opened after all"],
)
def test_a_broken_rule_of_the_last_in_sync_replica_is_noticed(
    trouble: Trouble, mutant: Mutant
) -> None:
    with mutated(mutant), pytest.raises(AssertionError, match="no leader has all of the log"):
        serve_again(trouble, mutant.seed)

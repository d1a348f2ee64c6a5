"""A proof: what befell NATS in Jepsen's report costs no acknowledged record. One line of verdict.

`python -m tests.proofs.power_and_pauses [--seeds 5] [--first N]`

Five faults, each against clusters of three brokers in virtual time, with producers (acks=all) and
consumers at work and a topic in the page cache and one with `flush.messages=1`:

- bit flips, and lost, misdirected and unreadable sectors, under the logs of running brokers;
- truncation: each broker in turn is killed, and finds the end of a log cut off inside any of its
  batches, synced or not. A cut exactly between two batches that were not synced shows nowhere, see
  RELIABILITY.md;
- a power loss of all brokers at once, three times; of this only the synced topic is judged;
- a crash of one machine's system, with what it had not synced, while another broker stands still
  for longer than its session; then the next pair;
- a crash of one machine that leaves whole batches only, while the other brokers are killed.

A record is lost if any replica lacks it at the end. Nobody helps: there is no operator. Real
processes cannot lose their page cache; the same clusters run with processes in `damage_under_load`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.records.batch import iter_batches
from raft import InvariantBroken
from tests.simulation.cluster.damage import spoil_log
from tests.simulation.cluster.faults import CALM
from tests.simulation.cluster.rot import rot
from tests.simulation.cluster.view import PartitionFacts
from tests.simulation.cluster.world import World
from tests.simulation.memory_files import Inode, MemoryFiles

GROWN_MS = 4_000
PAUSE_MS = 8_000
"""Longer than a broker's session: the partitions continue without it."""
WHOLE_MS, ACK_MS = 60_000, 1_500
SYNCED, CACHED = "synced", "cached"
NAMES = tuple(f"{name}-{index}" for name in (SYNCED, CACHED) for index in (0, 1))
"""Of the partitions with three replicas, of which two must be in sync."""


def flip_bits(world: World, rng: Random) -> None:
    for _ in range(12):
        rot(world, rng)
        world.scheduler.run(200)


def truncate(world: World, rng: Random) -> None:
    for broker_id in world.broker_ids:
        world.kill(broker_id, power=False)
        for _ in range(3):
            spoil_log(
                world, broker_id, rng, partial(cut_inside_a_batch, world), "log to be truncated"
            )
        world.start(broker_id)
        world.scheduler.run(3_000)


def cut_inside_a_batch(world: World, files: MemoryFiles, path: str, rng: Random) -> None:
    inode = files.names[path]
    if not inode.data:
        return
    size = rng.randrange(len(inode.data))
    if size >= len(inode.durable):
        size += size in {at for at, _ in iter_batches(bytes(inode.data))}
    del inode.data[size:]
    inode.durable = inode.durable[:size]
    world.met["log truncated"] += 1


def take_all_power(world: World, rng: Random) -> None:
    """Syncs are slow: what is acknowledged before its sync is lost."""
    for _ in range(3):
        for machine in world.machines.values():
            machine.disk.slow = 1.0
        world.scheduler.run(500)
        run_to_next_ack(world, SYNCED)
        for broker_id in world.broker_ids:
            world.kill(broker_id, power=True)
        world.met["power of all lost"] += 1
        world.scheduler.run(500)
        for broker_id in world.broker_ids:
            world.start_if_down(broker_id)
        world.scheduler.run(1_500 + rng.randrange(3_000))


def crash_beside_a_pause(world: World, rng: Random) -> None:
    """The paused one may be a leader, in sync alone with the one that crashes."""
    for _ in range(3):
        paused, crashed = rng.sample(world.broker_ids, 2)
        process = world.machines[paused].process
        assert process is not None
        process.stand_still(PAUSE_MS)
        world.scheduler.run(rng.randrange(PAUSE_MS - 3_000))
        run_to_next_ack(world, CACHED)
        world.kill(crashed, power=True)
        world.met["crash during a pause"] += 1
        world.scheduler.run(500)
        world.start_if_down(crashed)
        world.scheduler.run(PAUSE_MS)
        assert world.scheduler.run_until(partial(is_whole, world), WHOLE_MS), "never in sync again"


def crash_between_batches(world: World, rng: Random) -> None:
    """No batch is damaged, so the logs alone look complete. The other brokers are killed with it,
    have the rest, and start later."""
    for _ in range(3):
        crashed = rng.choice(world.broker_ids)
        run_to_next_ack(world, CACHED)
        before = world.machines[crashed].disk.files
        for broker_id in world.broker_ids:
            world.kill(broker_id, power=broker_id == crashed)
        survivor = world.machines[crashed].disk.files
        for path in survivor.names.keys() & before.names.keys():
            if path.endswith(".log") and path.startswith(NAMES):
                keep_whole_batches(survivor.names[path], before.names[path], rng)
        world.met["crash between two batches"] += 1
        world.start(crashed)
        world.scheduler.run(3_000)
        for broker_id in world.broker_ids:
            world.start_if_down(broker_id)
        assert world.scheduler.run_until(partial(is_whole, world), WHOLE_MS), "never in sync again"


def keep_whole_batches(found: Inode, before: Inode, rng: Random) -> None:
    """The disk has all that was synced of a log, and some of the batches that were not."""
    data, synced = before.data, len(before.durable)
    ends = [at + header.size_bytes for at, header in iter_batches(bytes(data))]
    size = rng.choice([synced, *(each for each in ends if each > synced)])
    found.data = data[:size]
    found.durable = bytes(found.data)


def run_to_next_ack(world: World, topic: str) -> None:
    """What was acknowledged this moment is what a crash takes first. A topic that waits for the
    broker that is paused acknowledges nothing for a while."""

    def count() -> int:
        every = world.view.partitions.values()
        return sum(len(each.acks) for each in every if each.name.startswith(f"{topic}-"))

    before = count()
    world.scheduler.run_until(lambda: count() > before, ACK_MS)


def is_whole(world: World) -> bool:
    """Whether every replica that lost its power is in sync again: the next crash is a new one."""
    world.view.forgive()
    return not any(each.powerless for each in world.view.partitions.values())


@dataclass(frozen=True)
class Fault:
    """What befalls a cluster, what shows that it did, and which topics must lose nothing."""

    strikes: Callable[[World, Random], None]
    met: str
    topics: tuple[str, ...] = (SYNCED, CACHED)


FAULTS: Mapping[str, Fault] = {
    "bit flips": Fault(flip_bits, "log rotten"),
    "truncation": Fault(truncate, "log truncated"),
    "power loss of all": Fault(take_all_power, "power of all lost", (SYNCED,)),
    "crash of one, another paused": Fault(crash_beside_a_pause, "crash during a pause"),
    "crash of one between batches": Fault(crash_between_batches, "crash between two batches"),
}


def prove_fault(name: str, seed: int) -> Counter[str]:
    """One history: what was met, and the records acknowledged. Raises what the checkers raise."""
    fault = FAULTS[name]
    world = World(seed, brokers=3, faults=CALM)
    world.scheduler.run(GROWN_MS)
    fault.strikes(world, Random(seed))
    world.settle()
    judged = [each for each in world.view.partitions.values() if _is_judged(each, fault)]
    assert len(judged) == 2 * len(fault.topics), f"{len(judged)} partitions"
    for facts in judged:
        assert not facts.excused, f"{facts.name}: {facts.excused}"
    acknowledged = sum(len(facts.acks) for facts in judged)
    return Counter(records=acknowledged, faults=world.met[fault.met], histories=1)


def _is_judged(facts: PartitionFacts, fault: Fault) -> bool:
    return facts.name in NAMES and facts.name.startswith(fault.topics)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="histories of each fault")
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    wrong, figures = [], []
    for name in FAULTS:
        total: Counter[str] = Counter()
        for seed in range(asked.first, asked.first + asked.seeds):
            try:
                total += prove_fault(name, seed)
            except (AssertionError, CorruptData, KafkaError, Fatal, InvariantBroken) as error:
                wrong.append(f"{name}, seed {seed}: {error}")
        figures.append(f"{name}: {total['faults']} times, {total['records']} batches acknowledged")
    verdict = "0 lost" if not wrong else f"FAILED: {wrong[:5]}"
    print(f"power and pauses, seeds from {asked.first}: {verdict}; {'; '.join(figures)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

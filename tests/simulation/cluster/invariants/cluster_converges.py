"""7. Once faults stop, everything is whole again within a bounded time.

Every partition has a leader, every ISR is full, replicas are the same byte for byte, brokers agree,
no process of a removed broker is left, and a new batch with acks=all is acknowledged in every
partition.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.producers import Producer
from tests.simulation.cluster.producing import ACKS_ALL
from tests.simulation.cluster.view import PartitionFacts, bytes_from

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["ClusterConverges"]

WHOLE_WITHIN_MS = 15_000
PRODUCED_WITHIN_MS = 8_000
LAST_NODE = 999


class ClusterConverges(Invariant):
    def settled(self, world: World) -> None:
        whole = world.scheduler.run_until(lambda: not _missing(world), WHOLE_WITHIN_MS)
        assert whole, f"long after the last fault: {_missing(world)}"
        self._produce_everywhere(world)
        same = world.scheduler.run_until(
            lambda: not _missing(world) and not _differing(world), WHOLE_WITHIN_MS
        )
        assert same, f"long after the last record: {_missing(world)} {_differing(world)}"

    def _produce_everywhere(self, world: World) -> None:
        producer = Producer(world, LAST_NODE, Random(1), acks=ACKS_ALL, is_idempotent=True)
        producer.start()
        world.pace_ms = 10
        for facts, name, _ in list(self.view.entries_that_may_be_led()):
            if name in INTERNAL_TOPICS:
                continue  # see groups_settle.py
            producer.only = facts.key
            acked = partial(self._is_acked, facts, len(facts.acks))
            in_time = world.scheduler.run_until(acked, PRODUCED_WITHIN_MS)
            assert in_time, f"{facts.name}: nothing is acknowledged long after the last fault"
        producer.is_sending = False
        world.scheduler.run_until(lambda: producer.is_idle, PRODUCED_WITHIN_MS)

    def _is_acked(self, facts: PartitionFacts, before: int) -> bool:
        """There is one more; or the topic was deleted, by an order given before."""
        return len(facts.acks) > before or facts.key[0] not in self.view.image.topic_names


def _missing(world: World) -> str:
    """What is not as it should be; empty when all is."""
    view = world.view
    for broker_id in world.broker_ids:
        broker = view.image.brokers.get(broker_id)
        process = view.processes.get(broker_id)
        if broker is None or not broker.is_live:
            return f"broker {broker_id} is not live"
        if process is None or process.ctx.cluster.incarnation != broker.incarnation:
            return f"broker {broker_id} is not registered as {broker.incarnation}"
        applied = process.engine.broker.quorum.applied.height  # blocks of Raft's own count, too
        if applied < view.height:
            return f"broker {broker_id} has applied {applied} of {view.height}"
    strays = sorted(view.processes.keys() - {*world.broker_ids, *view.image.brokers})
    if strays:
        return f"broker {strays[0]} was removed, and runs on"
    if len(view.image.topics) < len(world.operator.wanted):
        return f"topics: {sorted(view.image.topics)}"
    for facts, _, entry in view.entries_that_may_be_led():
        if entry.leader < 0:
            return f"{facts.name} has no leader: {entry}"
        if set(entry.isr) != set(entry.replicas) or entry.is_reassigning:
            return f"{facts.name} is not in sync: {entry}"
    led = {facts.key for facts, _, _ in view.entries_that_may_be_led()}
    stands_still = {facts.key for facts, _, _ in view.entries()} - led
    if any(producer.waits_for - stands_still for producer in world.producers):
        return "a producer is not done"
    return ""


def _differing(world: World) -> str:
    """A partition whose replicas are not the same; empty when there is none.

    Where logs begin may differ: a leader that deleted records may be gone before it was followed.
    """
    for facts, name, entry in world.view.entries_that_may_be_led():
        replicas = [world.view.hosted(each, name, facts.key) for each in entry.replicas]
        hosted = [each for each in replicas if each is not None]
        if len(hosted) < len(replicas):
            return f"{facts.name}: only {len(hosted)} of {len(replicas)} replicas"
        start = max(each.log.log_start_offset for each in hosted)
        ends = [(each.log.log_end_offset, each.partition.high_watermark) for each in hosted]
        if len({*ends, ends[0][::-1]}) > 1:
            return f"{facts.name}: ends and high watermarks {ends}"
        try:
            is_same = len({bytes_from(each, start) for each in hosted}) == 1
        except KafkaError as error:  # it is being repaired
            return f"{facts.name}: {error}"
        if not is_same:
            return f"{facts.name}: same ends, other bytes"
    return ""

"""Producers that spread their batches over the partitions of a broker, several in each request, as
the Java client and franz-go do.

A batch that was refused or not answered is sent again, perhaps to another broker and with other
batches, until it is acknowledged or its topic is gone. A partition has one batch under way; only a
producer that is not idempotent names one twice in a request. Some name topics by name, not by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import NO_PRODUCER_ID
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.producing import (
    ACKS_ALL,
    NOT_FOUND,
    NOT_FOUND_MAX,
    PRODUCE,
    RETRIED,
    TIMEOUT_MS,
    Made,
    ProducingClient,
)
from tests.simulation.cluster.session_consumers import SessionConsumer
from tests.simulation.cluster.view import Key

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["SpreadingProducer", "add_spreading"]

NODES, CONSUMER_NODE = (96, 97), 95
PARTS_MAX = 4
REQUESTS_MAX = 3
"""In flight at a time."""
TURN_MS_MAX = 6
BY_NAME = PRODUCE[0], 12


class SpreadingProducer(ProducingClient):
    """See the module."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng, acks=rng.choice((ACKS_ALL, ACKS_ALL, ACKS_ALL, 1)))
        self.is_idempotent = self.never_goes_back = rng.random() < 0.6
        self.goes_by_name = rng.random() < 0.3
        self._sequences: dict[Target, int] = {}
        self._not_found: dict[Target, int] = {}
        self._again: list[Made] = []
        """To be sent again, in the order in which they were made."""
        self._in_flight: list[Made] = []
        self._requests = 0

    @property
    def waits_for(self) -> set[Key]:
        waiting = (*self._again, *self._in_flight)
        return {(made.target.topic_id, made.target.partition) for made in waiting}

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def targets(self) -> list[Target]:
        """Where a batch may go now. A name may become another topic's, where topics are deleted."""
        found = super().targets()
        if not self.goes_by_name:
            return found
        return [each for each in found if not each.name.startswith("extra")]

    def _chosen(self, free: list[Target]) -> list[Target]:
        """Some of them; often only those that need no sync, or else their whole request would have
        to wait for one."""
        if self.rng.random() < 0.6:
            free = [each for each in free if not each.name.startswith("synced")]
        return self.rng.sample(free, min(len(free), PARTS_MAX))

    def _next(self) -> None:
        """A request, if it is time, to a broker that leads what a batch waits for, or may go to."""
        self._drop_lost()
        if self.is_idempotent and self.producer_id == NO_PRODUCER_ID and self.is_sending:
            self._sequences.clear()
            self.begin(self._pause)
            return
        known = [each.target for each in self._again]
        if self.is_sending:
            known += self.targets()
        leaders = sorted({led for each in known if (led := self.leaders.get(each, -1)) >= 0})
        if not leaders or self._requests >= REQUESTS_MAX:
            self.after_ms(50, partial(self.refresh, self._next))
            return
        leader = self.rng.choice(leaders)
        if batches := self._batches_for(leader):
            self._send(leader, batches)
        self._pause()

    def _pause(self) -> None:
        self.after_ms(5 + self.rng.randrange(self.world.pace_ms), self._next)

    def _batches_for(self, leader: int) -> list[Made]:
        """Those that are sent again first, then new ones."""
        batches = [each for each in self._again if self.leaders.get(each.target) == leader]
        self._again = [each for each in self._again if each not in batches]
        self.world.met["batches for several partitions sent again"] += len(batches) > 1
        busy = self.waits_for | {(each.target.topic_id, each.target.partition) for each in batches}
        free = [
            each
            for each in self.targets()
            if self.leaders[each] == leader and (each.topic_id, each.partition) not in busy
        ]
        for target in self._chosen(free) if self.is_sending else ():
            batches.append(self._make(target))
            if not self.is_idempotent and self.rng.random() < 0.1:
                batches.append(self.make(target))
        self.rng.shuffle(batches)
        return batches

    def _make(self, target: Target) -> Made:
        if not self.is_idempotent:
            return self.make(target)
        sequence = self._sequences.get(target, 0)
        made = self.make(target, self.producer_id, sequence)
        self._sequences[target] = sequence + made.records
        return made

    def _send(self, leader: int, batches: list[Made]) -> None:
        self._requests += 1
        self._in_flight += batches
        topics: list[ProduceTopic] = []
        for (topic_id, name, index), data, _ in batches:
            topic, id_ = (name, None) if self.goes_by_name else ("", topic_id)
            part = ProducePartition(index, memoryview(data))
            if topics and topics[-1][:2] == (topic, id_):
                topics[-1] = topics[-1]._replace(partitions=(*topics[-1].partitions, part))
            else:
                topics.append(ProduceTopic(topic, id_, (part,)))
        request = ProduceRequest(None, self.acks, TIMEOUT_MS - 200, tuple(topics))
        api = BY_NAME if self.goes_by_name else PRODUCE
        self.ask(leader, api, request, TIMEOUT_MS, partial(self._heard, batches))

    def _heard(self, batches: Sequence[Made], response: ProduceResponse | None) -> None:
        self._requests -= 1
        for batch in batches:
            self._in_flight.remove(batch)
        if response is None:
            self._again += batches
        else:
            parts = [part for topic in response.topics for part in topic.partitions]
            for batch, part in zip(batches, parts, strict=True):
                self._judge(batch, part)
        self.refresh(lambda: None)

    def _judge(self, batch: Made, answer: ProducePartitionResponse) -> None:
        target = batch.target
        assert answer.index == target.partition, "an answer for another partition"
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.none:
            self.acknowledged(batch, answer.base_offset)
            self._not_found.pop(target, None)
        elif code in RETRIED or code in NOT_FOUND:
            self._not_found[target] = self._not_found.get(target, 0) + (code in NOT_FOUND)
            self.world.met["batch of several refused, others not"] += 1
            self._again.append(batch)
        else:
            self.judge_lost(batch, code, answer.error_message)

    def _drop_lost(self) -> None:
        """What goes to topics that are gone. A sequence number that was not sent is missed, if the
        topic is there after all: the producer begins anew."""
        for each in self._again:
            self._not_found.setdefault(each.target, 0)
            self._not_found[each.target] += each.target not in self.leaders
        kept = [each for each in self._again if self._not_found[each.target] <= NOT_FOUND_MAX]
        for each in self._again:
            if each not in kept:
                self.producer_id = NO_PRODUCER_ID
                self._not_found.pop(each.target, None)
        self._again = kept


def add_spreading(world: World) -> None:
    """Two of them, and a consumer that reads several partitions at a time, in the share of lives
    that has them, beside the clients that there are."""
    rng = Random(world.seed + 13)
    if rng.random() < world.faults.spreading:
        world.turn_ms = rng.randrange(TURN_MS_MAX)
        for node in NODES:
            producer = SpreadingProducer(world, node, Random(rng.random()))
            world.producers.append(producer)
            world.clients = (*world.clients, node)
            world.scheduler.at(1_000, producer.start)
        consumer = SessionConsumer(world, CONSUMER_NODE, Random(rng.random()))
        world.clients = (*world.clients, CONSUMER_NODE)
        world.scheduler.at(1_000, consumer.start)

"""Producers that bound neither their requests in flight nor their patience: librdkafka's defaults
(acks=all, not idempotent, in flight without bound).

A burst of batches goes to one leader over one connection, several times more than a broker works on
at a time: the rest waits in its backlog, and is served as the answers before it leave. A batch that
is refused or unanswered is not sent again: it may be stored once or not at all. One that is
acknowledged is kept.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire.produce import ProduceResponse
from tests.simulation.cluster.producing import ACKS_ALL, PRODUCE, TIMEOUT_MS, Made, ProducingClient
from tests.simulation.cluster.server import IN_FLIGHT_MAX
from tests.simulation.cluster.view import Key

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["UnboundedProducer", "add_unbounded"]

NODE = 98
BURST = 3 * IN_FLIGHT_MAX


class UnboundedProducer(ProducingClient):
    """See the module."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng, acks=ACKS_ALL)
        self._in_flight: dict[Made, None] = {}

    @property
    def waits_for(self) -> set[Key]:
        return {(made.target.topic_id, made.target.partition) for made in self._in_flight}

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        if not self.is_sending:
            self.after_ms(100, self._next)
            return
        led = [each for each in self.targets() if self.leaders[each] >= 0]
        if not led:
            self.after_ms(100, partial(self.refresh, self._next))
            return
        target = self.rng.choice(led)
        for _ in range(1 + self.rng.randrange(BURST)):
            made = self.make(target)
            self._in_flight[made] = None
            heard = partial(self._heard, made)
            self.ask(self.leaders[target], PRODUCE, self.request(made), TIMEOUT_MS, heard)
        most = len(self._in_flight)
        self.world.met["more requests in flight than a broker works on"] += most > IN_FLIGHT_MAX
        self.after_ms(10 + self.rng.randrange(4 * self.world.pace_ms), self._next)

    def _heard(self, made: Made, response: ProduceResponse | None) -> None:
        del self._in_flight[made]
        if response is not None:
            answer = response.topics[0].partitions[0]
            if ErrorCode(answer.error_code) is ErrorCode.none:
                self.acknowledged(made, answer.base_offset)
                return
        self.refresh(lambda: None)


def add_unbounded(world: World) -> None:
    """One of them in the share of lives that has them, beside the clients that there are."""
    rng = Random(world.seed + 12)
    if rng.random() < world.faults.unbounded:
        producer = UnboundedProducer(world, NODE, rng)
        world.producers.append(producer)
        world.clients = (*world.clients, NODE)
        world.scheduler.at(1_000, producer.start)

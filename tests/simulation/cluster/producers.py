"""Virtual producers: plain or idempotent, acks 0, 1 or all, one batch under way at a time.

A batch that was sent is sent again until it is acknowledged or its topic is gone, so a plain
producer writes duplicates, and an idempotent one must not. Those with more under way: pipelines.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import NO_PRODUCER_ID
from josefine_broker.wire.produce import ProduceResponse
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.pipelines import Pipeline
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
from tests.simulation.cluster.view import Key

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Producer", "make_producers"]


class Producer(ProducingClient):
    """See the module."""

    def __init__(
        self, world: World, node: int, rng: Random, *, acks: int, is_idempotent: bool
    ) -> None:
        super().__init__(world, node, rng, acks=acks)
        self.is_idempotent = self.never_goes_back = is_idempotent
        self._sequences: dict[Target, int] = {}
        self._batch: Made | None = None
        self._not_found = 0

    @property
    def waits_for(self) -> set[Key]:
        batch = self._batch
        return set() if batch is None else {(batch.target.topic_id, batch.target.partition)}

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        """A new batch, if it is time."""
        if not self.is_sending:
            self.after_ms(100, self._next)
        elif self.is_idempotent and self.producer_id == NO_PRODUCER_ID:
            self._sequences.clear()
            self.begin(self._next)
        else:
            targets = self.targets()
            if not targets:
                self.after_ms(100, partial(self.refresh, self._next))
                return
            self._batch = self._make(self.rng.choice(targets))
            self._not_found = 0
            self._send()

    def _make(self, target: Target) -> Made:
        if not self.is_idempotent:
            return self.make(target)
        sequence = self._sequences.get(target, 0)
        made = self.make(target, self.producer_id, sequence)
        self._sequences[target] = sequence + made.records
        return made

    def _send(self) -> None:
        batch = self._batch
        assert batch is not None
        leader = self.leaders.get(batch.target, -1)
        if leader < 0:
            self._not_found += batch.target not in self.leaders
            self._again()
            return
        request = self.request(batch)
        if self.acks == 0:
            self.ask(leader, PRODUCE, request, 0, None)
            self._done()
            return
        self.ask(leader, PRODUCE, request, TIMEOUT_MS, self._heard)

    def _heard(self, response: ProduceResponse | None) -> None:
        batch = self._batch
        assert batch is not None
        if response is None:
            self.world.met["produce without an answer"] += 1
            self._again()
            return
        answer = response.topics[0].partitions[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.none:
            self.acknowledged(batch, answer.base_offset)
            self._done()
        elif code in RETRIED or code in NOT_FOUND:
            self._not_found += code in NOT_FOUND
            self.world.met[f"producer told {code.name}"] += 1
            self._again()
        else:
            self.judge_lost(batch, code, answer.error_message)
            self._done()

    def _again(self) -> None:
        if self._not_found > NOT_FOUND_MAX:
            self.world.met["topic gone under a producer"] += 1
            self._done()
            return
        self.after_ms(20 + self.rng.randrange(80), partial(self.refresh, self._send))

    def _done(self) -> None:
        self._batch = None
        self.after_ms(10 + self.rng.randrange(self.world.pace_ms), self._next)


def make_producers(world: World, rng: Random, nodes: Sequence[int]) -> list[ProducingClient]:
    """A mixture: most want to know that their records are safe, and many of them soon."""
    made: list[ProducingClient] = []
    for node in nodes:
        acks = rng.choice((ACKS_ALL, ACKS_ALL, ACKS_ALL, 1, 0))
        is_idempotent = acks == ACKS_ALL and rng.random() < 0.75
        own = Random(rng.random())
        if is_idempotent and rng.random() < 0.8:
            made.append(Pipeline(world, node, own))
        else:
            made.append(Producer(world, node, own, acks=acks, is_idempotent=is_idempotent))
    return made

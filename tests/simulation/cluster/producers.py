"""Virtual producers: plain or idempotent, acks 0, 1 or all, one batch under way at a time.

A batch that was sent is sent again until it is acknowledged or its topic is gone, so a plain
producer writes duplicates, and an idempotent one must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.entities import init_producer_id
from josefine_broker.wire.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.simulation.cluster.clients import Client, Target
from tests.simulation.cluster.view import Ack, Key

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["ACKS_ALL", "Producer"]

PRODUCE = 0, 13
INIT_PRODUCER_ID = 22, 5
ACKS_ALL = -1
TIMEOUT_MS = 700
NOT_FOUND_MAX = 8
"""So often a topic is not found before it counts as deleted."""

RETRIED = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.leader_not_available,
    }
)
NOT_FOUND = frozenset({ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition})
LOST_STATE = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_producer_epoch})


class _Batch(NamedTuple):
    """What is under way."""

    target: Target
    data: bytes
    records: int


class Producer(Client):
    """See the module. Sends as long as `is_sending`."""

    def __init__(
        self, world: World, node: int, rng: Random, *, acks: int, is_idempotent: bool
    ) -> None:
        super().__init__(world, node, rng)
        self.acks = acks
        self.is_idempotent = is_idempotent
        self.is_sending = True
        self.only: Key | None = None
        """Where to send, if not anywhere."""
        self._producer_id = NO_PRODUCER_ID
        self._sequences: dict[Target, int] = {}
        self._batch: _Batch | None = None
        self._not_found = 0
        self._values = 0

    @property
    def is_idle(self) -> bool:
        return self._batch is None

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        """A new batch, if it is time."""
        if not self.is_sending:
            self.after_ms(100, self._next)
        elif self.is_idempotent and self._producer_id == NO_PRODUCER_ID:
            self._begin()
        else:
            only = self.only
            targets = [each for each in self.leaders if only in (None, (each[0], each[2]))]
            if not targets:
                self.after_ms(100, partial(self.refresh, self._next))
                return
            self._batch = self._make(self.rng.choice(targets))
            self._not_found = 0
            self._send()

    def _begin(self) -> None:
        request = init_producer_id.InitProducerIdRequest(transaction_timeout_ms=1_000)

        def begun(response: init_producer_id.InitProducerIdResponse | None) -> None:
            if response is not None and response.error_code is ErrorCode.none:
                self._producer_id = response.producer_id
                self._sequences.clear()
            self.after_ms(50, self._next)

        self.ask(self.rng.choice(self.world.broker_ids), INIT_PRODUCER_ID, request, 2_000, begun)

    def _make(self, target: Target) -> _Batch:
        count = 1 + self.rng.randrange(3)
        first, self._values = self._values, self._values + count
        records = [
            Record(value=b"%d %d" % (self.node, number)) for number in range(first, first + count)
        ]
        sequence = -1
        if self.is_idempotent:
            sequence = self._sequences.get(target, 0)
            self._sequences[target] = sequence + count
        data = build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=0 if self.is_idempotent else NO_PRODUCER_EPOCH,
            base_sequence=sequence,
        )
        return _Batch(target, bytes(data), count)

    def _send(self) -> None:
        batch = self._batch
        assert batch is not None
        leader = self.leaders.get(batch.target, -1)
        if leader < 0:
            self._not_found += batch.target not in self.leaders
            self._again()
            return
        topic_id, _, index = batch.target
        part = ProducePartition(index, memoryview(batch.data))
        request = ProduceRequest(
            None, self.acks, TIMEOUT_MS - 200, (ProduceTopic("", topic_id, (part,)),)
        )
        if self.acks == 0:
            self.ask(leader, PRODUCE, request, 0, None)
            self._done()
            return
        self.ask(leader, PRODUCE, request, TIMEOUT_MS, self._heard)

    def _heard(self, response: ProduceResponse | None) -> None:
        if response is None:
            self.world.met["produce without an answer"] += 1
            self._again()
            return
        answer = response.topics[0].partitions[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.none:
            self._acknowledged(answer.base_offset)
        elif code in RETRIED or code in NOT_FOUND:
            self._not_found += code in NOT_FOUND
            self.world.met[f"producer told {code.name}"] += 1
            self._again()
        else:
            assert code in LOST_STATE, f"a producer was told {code.name}: {answer.error_message}"
            self._lost_state(code)

    def _acknowledged(self, base_offset: int) -> None:
        batch = self._batch
        assert batch is not None
        world = self.world
        world.met[f"batch acknowledged, acks {self.acks}"] += 1
        if self.acks == ACKS_ALL:
            ack = Ack(base_offset, parse_header(batch.data).crc)
            world.acknowledged((batch.target.topic_id, batch.target.partition), ack, batch.records)
        self._done()

    def _again(self) -> None:
        if self._not_found > NOT_FOUND_MAX:
            self.world.met["topic gone under a producer"] += 1
            self._done()
            return
        self.after_ms(20 + self.rng.randrange(80), partial(self.refresh, self._send))

    def _lost_state(self, code: ErrorCode) -> None:
        """Its earlier batches are not in the log: fair where nothing was promised."""
        batch = self._batch
        assert batch is not None
        key = batch.target.topic_id, batch.target.partition
        facts = self.world.view.partitions.get(key)
        assert self.acks != ACKS_ALL or facts is None or facts.excused, (
            f"{facts.name}: a producer that had every batch acknowledged was told {code.name}"
        )
        self.world.met["producer began anew"] += 1
        self._producer_id = NO_PRODUCER_ID
        self._done()

    def _done(self) -> None:
        self._batch = None
        self.after_ms(10 + self.rng.randrange(self.world.pace_ms), self._next)


def make_producers(world: World, rng: Random, nodes: Sequence[int]) -> list[Producer]:
    """A mixture: most want to know that their records are safe."""
    made = []
    for node in nodes:
        acks = rng.choice((ACKS_ALL, ACKS_ALL, ACKS_ALL, 1, 0))
        is_idempotent = acks == ACKS_ALL and rng.random() < 0.7
        made.append(
            Producer(world, node, Random(rng.random()), acks=acks, is_idempotent=is_idempotent)
        )
    return made

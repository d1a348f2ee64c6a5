"""What all virtual producers have: batches, requests, and the judgement over what they are told."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.entities import init_producer_id
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.simulation.cluster.clients import Client, Target
from tests.simulation.cluster.group_names import MIRRORED
from tests.simulation.cluster.view import Ack, Key, PartitionFacts

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = [
    "ACKS_ALL",
    "NOT_FOUND",
    "NOT_FOUND_MAX",
    "NO_SEQUENCE",
    "PRODUCE",
    "RETRIED",
    "TIMEOUT_MS",
    "Made",
    "ProducingClient",
]

PRODUCE = 0, 13
INIT_PRODUCER_ID = 22, 5
ACKS_ALL = -1
NO_SEQUENCE = -1
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


class Made(NamedTuple):
    """A batch, the same bytes however often it is sent."""

    target: Target
    data: bytes
    records: int


class ProducingClient(Client):
    """Makes batches as long as `is_sending`."""

    def __init__(self, world: World, node: int, rng: Random, *, acks: int) -> None:
        super().__init__(world, node, rng)
        self.acks = acks
        self.is_sending = True
        self.only: Key | None = None
        """Where to send, if not anywhere."""
        self.producer_id = NO_PRODUCER_ID
        self._values = 0

    @property
    def waits_for(self) -> set[Key]:
        """Partitions that have not acknowledged all that was sent to them."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Nothing waits for its acknowledgement."""
        return not self.waits_for

    def targets(self) -> list[Target]:
        """Where a batch may go now."""
        only = self.only
        return [
            each
            for each in self.leaders
            if only in (None, (each.topic_id, each.partition)) and each.name not in INTERNAL_TOPICS
            if only is not None or each.name != MIRRORED
        ]

    def begin(self, then: Callable[[], None]) -> None:
        """Ask for a producer id; `then`, with or without one."""
        request = init_producer_id.InitProducerIdRequest(transaction_timeout_ms=1_000)

        def begun(response: init_producer_id.InitProducerIdResponse | None) -> None:
            if response is not None and response.error_code is ErrorCode.none:
                self.producer_id = response.producer_id
            self.after_ms(50, then)

        self.ask(self.any_broker(), INIT_PRODUCER_ID, request, 2_000, begun)

    def make(
        self, target: Target, producer_id: int = NO_PRODUCER_ID, sequence: int = NO_SEQUENCE
    ) -> Made:
        count = 1 + self.rng.randrange(3)
        first, self._values = self._values, self._values + count
        data = build_batch(
            [
                Record(value=b"%d %d" % (self.node, number))
                for number in range(first, first + count)
            ],
            producer_id=producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer_id == NO_PRODUCER_ID else 0,
            base_sequence=sequence,
        )
        return Made(target, bytes(data), count)

    def request(self, made: Made) -> ProduceRequest:
        topic_id, _, index = made.target
        part = ProducePartition(index, memoryview(made.data))
        topic = ProduceTopic("", topic_id, (part,))
        return ProduceRequest(None, self.acks, TIMEOUT_MS - 200, (topic,))

    def facts_of(self, made: Made) -> PartitionFacts | None:
        """None while no image that anybody looked at has the partition."""
        key = made.target.topic_id, made.target.partition
        return self.world.view.partitions.get(key)

    def acknowledged(self, made: Made, base_offset: int) -> None:
        """Tell the world of a promise."""
        world = self.world
        world.met[f"batch acknowledged, acks {self.acks}"] += 1
        if self.acks == ACKS_ALL:
            ack = Ack(base_offset, parse_header(made.data).crc)
            world.acknowledged((made.target.topic_id, made.target.partition), ack, made.records)

    def judge_lost(self, made: Made, code: ErrorCode, message: str | None) -> None:
        """The broker does not have its earlier batches, or not this one any more: fair where
        nothing was promised, where an unclean election took some, and where it is stored, unheard
        by its producer, and then deleted: a broker that starts, or copies the log from its new
        beginning, does not know it (KIP-360)."""
        assert code in LOST_STATE, f"a producer was told {code.name}: {message}"
        facts = self.facts_of(made)
        if self.acks == ACKS_ALL and facts is not None and not facts.excused:
            header = parse_header(made.data)
            is_deleted = any(
                each.crc == header.crc and each.end_offset <= facts.deleted_before
                for each in facts.batches
            )
            was_lost = any(each.producer_id == header.producer_id for each in facts.losses.batches)
            assert is_deleted or was_lost, (
                f"{facts.name}: a producer that sent every batch in order, and sent it again until "
                f"it was acknowledged, was told {code.name}: {message}"
            )
        self.world.met["producer began anew"] += 1
        self.producer_id = NO_PRODUCER_ID

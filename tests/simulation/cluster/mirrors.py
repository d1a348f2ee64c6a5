"""A virtual mirror (`josefine mirror run`): appends the batches of a source that no fault reaches,
at their offsets, and is cut over at the end.

It has several requests under way, and never knows which of them count: after an answer that is
lost, or a refusal, it goes back, at times further than it must, and sends the same batches again.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.replicas.mirrored import SESSION_PREFIX
from josefine_broker.records.batch import build_empty_batch, parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.entities import incremental_alter_configs as alter
from josefine_broker.wire.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.group_names import MIRRORED
from tests.simulation.cluster.producing import ACKS_ALL, PRODUCE, TIMEOUT_MS, ProducingClient
from tests.simulation.cluster.view import Ack, Key

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["CONFIG", "MirrorClient", "add_mirror"]

NODE = 94
SESSION = "one"
CONFIG = {"josefine.mirror.source": "elsewhere", "josefine.mirror.session": SESSION}
THEIRS = LeaderEpoch(40)
"""The leader epoch of the source's batches."""
REQUESTS, BATCHES, STEP_BACK = 3, 3, 4
"""The most requests under way, batches of one, and batches that it goes back."""
ALTER, TOPIC_RESOURCE, SET, DELETE = (44, 1), 2, 0, 1


class _Batch(NamedTuple):
    """One of the source's."""

    data: bytes
    end: int
    records: int


class MirrorClient(ProducingClient):
    """See the module."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        super().__init__(world, node, rng, acks=ACKS_ALL)
        self.source: list[_Batch] = []
        self._acked = 0
        """So many of them are acknowledged."""
        self._sent = 0
        self._requests = 0
        self._is_cut_over = False

    @property
    def waits_for(self) -> set[Key]:
        """Its partition, until it is cut over: no producer may write before."""
        topic = self.world.view.image.topics.get(MIRRORED)
        return set() if topic is None or self._is_cut_over else {(topic.topic_id, 0)}

    def start(self) -> None:
        """Work until the end of the world."""
        self.refresh(self._next)

    def _next(self) -> None:
        if self._is_cut_over:
            return
        if self._requests:
            self.after_ms(20, self._next)
            return
        target = next((each for each in self.leaders if each.name == MIRRORED), None)
        if target is not None and not self.is_sending and self._acked == len(self.source):
            self._cut_over(target)
            return
        leader = -1 if target is None else self.leaders[target]
        if target is not None and leader >= 0:
            back = self.rng.randrange(STEP_BACK) if self.rng.random() < 0.3 else 0
            self._sent = max(0, self._acked - back)
            for _ in range(1 + self.rng.randrange(REQUESTS)):
                self._send(target, leader)
        self.after_ms(5 + self.rng.randrange(self.world.pace_ms), partial(self.refresh, self._next))

    def _send(self, target: Target, leader: int) -> None:
        first = self._sent
        wanted = first + 1 + self.rng.randrange(BATCHES)
        while self.is_sending and len(self.source) < wanted:
            self.source.append(self._batch())
        batches = self.source[first:wanted]
        if not batches:
            return
        self._sent += len(batches)
        self._requests += 1
        records = memoryview(bytearray(b"".join(each.data for each in batches)))
        topic = ProduceTopic("", target.topic_id, (ProducePartition(target.partition, records),))
        session = SESSION_PREFIX + SESSION
        request = ProduceRequest(session, ACKS_ALL, TIMEOUT_MS - 200, (topic,))
        heard = partial(self._heard, target, first, batches)
        self.ask(leader, PRODUCE, request, TIMEOUT_MS, heard)

    def _batch(self) -> _Batch:
        """The source's next one: records, or what compaction has left of them."""
        base, number = self.source[-1].end if self.source else 0, len(self.source)
        count = 1 + self.rng.randrange(4)
        if self.rng.random() < 0.2:
            return _Batch(bytes(build_empty_batch(base, base + count, THEIRS)), base + count, 0)
        values = [b"%d %d" % (number, each) for each in range(count)]
        data = bytearray(build_batch([Record(value=each) for each in values]))
        stamp(data, 0, base, THEIRS)
        return _Batch(bytes(data), base + count, count)

    def _heard(
        self, target: Target, first: int, batches: list[_Batch], response: ProduceResponse | None
    ) -> None:
        self._requests -= 1
        part = None if response is None else response.topics[0].partitions[0]
        if part is None:
            self.world.met["mirror without an answer"] += 1
            return
        code = ErrorCode(part.error_code)
        self.world.met[f"mirror told {code.name}"] += 1
        if code is not ErrorCode.none:
            assert code is not ErrorCode.policy_violation, f"a mirror was told {part.error_message}"
            # The log may have lost what is acknowledged: by an unclean election.
            if code is ErrorCode.invalid_record and first == self._acked:
                self._acked = max(0, self._acked - 1)
            return
        for each in batches:
            header = parse_header(each.data)
            ack = Ack(header.base_offset, header.crc)
            self.world.acknowledged((target.topic_id, target.partition), ack, each.records)
        self._acked = max(self._acked, first + len(batches))

    def _cut_over(self, target: Target) -> None:
        """Clients may write from here on. Asked until it is so."""
        end = self.source[-1].end if self.source else 0
        configs = (
            alter.AlterableConfig(
                name="josefine.mirror.ends", config_operation=SET, value=f"0:{end}"
            ),
            alter.AlterableConfig(
                name="josefine.mirror.session", config_operation=DELETE, value=None
            ),
        )
        resource = alter.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=target.name, configs=configs
        )

        def altered(response: alter.IncrementalAlterConfigsResponse | None) -> None:
            if response is None or response.responses[0].error_code is not ErrorCode.none:
                self.after_ms(100, self._next)
                return
            self._is_cut_over = True
            self.world.met["mirror cut over"] += 1

        request = alter.IncrementalAlterConfigsRequest(resources=(resource,))
        self.ask(self.any_broker(), ALTER, request, TIMEOUT_MS, altered)


def add_mirror(world: World) -> None:
    """One in lives that are to have it."""
    if world.faults.mirror:
        world.mirror = MirrorClient(world, NODE, Random(world.seed + 16))
        world.producers.append(world.mirror)
        world.clients = (*world.clients, NODE)
        world.scheduler.at(1_200, world.mirror.start)

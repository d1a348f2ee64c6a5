"""What every virtual client has: connections to brokers, requests in real frames, metadata."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire.codec import decode_response, encode_request
from josefine_broker.wire.entities import metadata
from tests.simulation.cluster.network import Connection

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Client", "Target"]

METADATA, METADATA_VERSION = 3, 12
IMPATIENT_MS = 60
"""Less than an acknowledgement by all replicas takes, often."""

Then = Callable[[Any], None]
"""Gets the answer; None when there is none in time."""


class Target(NamedTuple):
    """A partition as a client knows it."""

    topic_id: UUID
    name: str
    partition: int


class _Open(NamedTuple):
    broker_id: int
    api: tuple[int, int]
    then: Then


class Client:
    """Implements `network.Caller`. One request may be under way at each broker and more."""

    never_goes_back = False
    """Whether it keeps to a leader when a broker names one of an older leader epoch, as the Java
    client and librdkafka since 2.1 do (KIP-320). The others show how brokers bear it."""

    def __init__(self, world: World, node: int, rng: Random) -> None:
        self.world = world
        self.node = node
        self.rng = rng
        self.leaders: dict[Target, int] = {}
        self.epochs: dict[Target, int] = {}
        """The newest leader epoch of each partition that this client heard of."""
        self.replicas: dict[Target, tuple[int, ...]] = {}
        self._connections: dict[int, Connection] = {}
        self._open: dict[int, _Open] = {}
        self._number = 0
        self._temper = Random(1_000 * world.seed + node)

    def start(self) -> None:
        """Begin to work."""
        raise NotImplementedError

    # -- requests

    def ask(
        self, broker_id: int, api: tuple[int, int], request: Any, timeout_ms: int, then: Then | None
    ) -> None:
        """Send it; `then` gets the answer once, None after a failure or the timeout."""
        self._number += 1
        number = self._number
        connection = self._connections.get(broker_id)
        if connection is None:
            machine = self.world.machines[broker_id]
            connection = Connection(self.world.network, self, self.node, machine)
            self._connections[broker_id] = connection
        if then is not None:
            self._open[number] = _Open(broker_id, api, then)
            self.world.scheduler.at(self._patience_ms(timeout_ms), partial(self._late, number))
        connection.send(b"".join(encode_request(*api, number, f"client-{self.node}", request)))

    def _patience_ms(self, timeout_ms: int) -> int:
        """How long it waits for this answer: some give up while it is on its way, and ask again."""
        if self._temper.random() >= self.world.faults.client_impatient:
            return timeout_ms
        self.world.met["impatient request"] += 1
        return 2 + int(self._temper.random() * IMPATIENT_MS)

    def answered(self, connection: Connection, frame: bytes) -> None:
        number = int.from_bytes(frame[4:8], "big")
        opened = self._open.pop(number, None)
        if opened is not None:
            _, response = decode_response(*opened.api, memoryview(bytearray(frame))[4:])
            opened.then(response)

    def broken(self, connection: Connection) -> None:
        broker_id = connection.port.id
        if self._connections.get(broker_id) is connection:
            self._give_up(broker_id)

    def _late(self, number: int) -> None:
        opened = self._open.get(number)
        if opened is not None:
            self.world.met["answer too late for its client"] += 1
            self._give_up(opened.broker_id)

    def _give_up(self, broker_id: int) -> None:
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            connection.close()
        lost = [number for number, each in self._open.items() if each.broker_id == broker_id]
        opened = [self._open.pop(number) for number in lost]
        for each in opened:
            each.then(None)

    def after_ms(self, delay_ms: int, event: Callable[[], None]) -> None:
        self.world.scheduler.at(delay_ms, event)

    def any_broker(self) -> int:
        """One that belongs to the cluster, or is to."""
        return self.rng.choice(self.world.broker_ids)

    # -- metadata

    def refresh(self, then: Callable[[], None]) -> None:
        """Ask any broker who leads what, then go on, with or without an answer."""
        broker_id = self.any_broker()
        request = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)

        def learnt(response: metadata.MetadataResponse | None) -> None:
            if response is not None:
                self._learn(response)
            then()

        self.ask(broker_id, (METADATA, METADATA_VERSION), request, 800, learnt)

    def take_leader(self, target: Target, leader_id: int, epoch: int) -> bool:
        """A broker names it; whether it is believed."""
        known = self.epochs.get(target, -1)
        if self.never_goes_back and epoch < known:
            self.world.met["leader of an older epoch ignored"] += 1
            return False
        self.epochs[target] = max(epoch, known)
        self.leaders[target] = leader_id
        return True

    def _learn(self, response: metadata.MetadataResponse) -> None:
        before, self.leaders = self.leaders, {}
        self.replicas.clear()
        for topic in response.topics:
            if topic.error_code is not ErrorCode.none or topic.topic_id is None:
                continue
            assert topic.name is not None
            for part in topic.partitions:
                target = Target(topic.topic_id, topic.name, part.partition_index)
                if not self.take_leader(target, part.leader_id, part.leader_epoch):
                    self.leaders[target] = before.get(target, -1)
                self.replicas[target] = part.replica_nodes

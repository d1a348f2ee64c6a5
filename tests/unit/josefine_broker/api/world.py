"""A broker without sockets: real handlers, cores and logs; files, clock and Raft in memory."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.context import BrokerSettings, Context, RequestInfo, new_context
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import (
    At,
    BrokerState,
    Change,
    CreateTopic,
    Decision,
    DeleteTopic,
    Origin,
    RegisterBroker,
)
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Endpoint, FeatureRange, MetadataImage
from josefine_broker.engine.metadata_quorum.apply_committed import apply_block, reconcile
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.synced import log_synced
from josefine_broker.host.log.group_sync import GroupSync
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records
from josefine_broker.wire.codec import RequestHeader
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from tests.simulation.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"
TERM = 1
"""That of every block."""
ELSEWHERE = Origin(99, 1)
"""An origin that is no open proposal of ours."""


class ManualClock:
    """Time that tests move."""

    def __init__(self) -> None:
        self.elapsed_ms = 0

    def now_ms(self) -> int:
        return NOW_MS + self.elapsed_ms

    def monotonic_ms(self) -> int:
        return self.elapsed_ms


class QueueRaft:
    """Raft of one voter: a payload is committed when the test delivers it, or at once."""

    def __init__(self) -> None:
        self.at_once = True
        self.committed: list[bytes] = []
        self.waiting: list[bytes] = []
        self.world: World | None = None

    def propose(self, payload: bytes, deadline_ms: int) -> None:
        self.waiting.append(payload)
        if self.at_once:
            self.deliver()

    def deliver(self) -> None:
        assert self.world is not None
        while self.waiting:
            payload = self.waiting.pop(0)
            self.committed.append(payload)
            self.world.apply(payload)


class Produced(NamedTuple):
    """The interesting part of one partition's answer."""

    error: int
    base_offset: int


class World:
    """One broker in memory. `restart` opens the same files anew."""

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        brokers: int = 1,
        features: tuple[FeatureRange, ...] = SUPPORTED,
        files: MemoryFiles | None = None,
        history: list[bytes] | None = None,
        reconciled: bool = True,
        group: GroupSync | None = None,
    ) -> None:
        """`group`: as of LogManager; without one, a log that is to be synced is within appends."""
        self.settings = settings or BrokerSettings(auto_create_topics=False, data_directory="/data")
        self.features = features
        """What brokers understand that are started here."""
        self.files = files or MemoryFiles()
        self.height = 0
        self._is_answering = False
        self.clock = ManualClock()
        self.raft = QueueRaft()
        self.raft.world = self
        self.manager = LogManager(self.files, group=group)
        self.hosting = Hosting(self.manager, self.clock)
        self.ctx: Context = new_context(
            broker_id=1,
            image=MetadataImage(cluster_id="test-cluster"),
            clock=self.clock,
            rng=Random(7),
            raft=self.raft,
            logs=self.hosting,
            settings=self.settings,
        )
        if group is not None:
            group.on_synced = partial(log_synced, self.ctx)
        if history is None:
            for broker_id in range(1, brokers + 1):
                self.start_broker(broker_id)
        else:
            for payload in history:
                self.apply(payload, replaying=True)
            self.raft.committed = list(history)
            if reconciled:
                self.follow()

    def follow(self) -> None:
        """The image is known to be of this incarnation: host what it says."""
        self.ctx.cluster.incarnation = self.ctx.image.brokers[1].incarnation
        reconcile(self.ctx)

    def apply(self, payload: bytes, *, replaying: bool = False) -> None:
        """The next committed block; nothing is hosted while the image does not know who we are."""
        self.height += 1
        incarnation = self.ctx.cluster.incarnation
        self.ctx.cluster.incarnation = "" if replaying else incarnation
        apply_block(self.ctx, payload, At(TERM, self.height))
        self.ctx.cluster.incarnation = incarnation

    def start_broker(self, broker_id: int, rack: str | None = None) -> None:
        """A new incarnation, registered and unfenced."""
        at = Endpoint(LISTENER, f"host{broker_id}", 9090 + broker_id)
        name = f"{broker_id}-{self.height}"
        if broker_id == self.ctx.broker_id:
            self.ctx.cluster.incarnation = name
        register = RegisterBroker(
            broker_id=broker_id,
            incarnation=name,
            endpoints=(at,),
            rack=rack,
            features=self.features,
        )
        self.propose(register)
        self.fence(broker_id, fenced=False)

    def fence(self, broker_id: int, *, fenced: bool = True) -> None:
        """As the controller does, but for elections."""
        self.judge(broker_id, fenced=fenced)

    def judge(self, broker_id: int, *, fenced: bool = False, shutting_down: bool = False) -> None:
        """What the controller holds of a broker."""
        epoch = self.ctx.image.brokers[broker_id].epoch
        state = BrokerState(broker_id, epoch, fenced, shutting_down, False)
        decision = Decision(controller_term=TERM, reason="test", brokers=(state,))
        self.propose(decision)

    def restart(self, *, clean: bool = False) -> World:
        if clean:
            self.hosting.close(self.ctx.broker_epoch)
        return World(self.settings, files=self.files, history=self.raft.committed)

    def ask(
        self,
        api_key: int,
        request: Any,
        *,
        version: int | None = None,
        client_id: str = "t",
        principal: str = ANONYMOUS,
        listener: str = LISTENER,
    ) -> Any:
        """The handler's answer or its refusal, as the host would encode it; maybe a Parked."""
        api = SERVED[api_key]
        header = RequestHeader(
            api_key, api.spec.max_version if version is None else version, 1, client_id, 0
        )
        info = RequestInfo(header, principal, "127.0.0.1:5", listener)
        try:
            answer = api.handle(self.ctx, info, request)
        except KafkaError as error:
            answer = api.refuse(request, error)
        self.answer()
        return answer

    def answer(self) -> None:
        """As the host's event loop does after each input: a client may ask again as it hears."""
        if not self._is_answering:
            self._is_answering = True
            self.ctx.parked.run_completed()
            self._is_answering = False

    def advance(self, ms: int) -> None:
        self.clock.elapsed_ms += ms
        self.ctx.parked.tick(self.clock.elapsed_ms)
        self.answer()

    def propose(self, change: Change) -> None:
        """As another broker would."""
        self.raft.propose(encode_change(change, ELSEWHERE), 0)

    def topic_id(self) -> UUID:
        return UUID(int=self.ctx.ports.rng.getrandbits(128), version=4)

    def create(self, name: str = "orders", partitions: int = 1, **config: str) -> UUID:
        """A topic with all replicas here; `max_message_bytes="10"` sets max.message.bytes."""
        change = CreateTopic(
            name=name,
            topic_id=self.topic_id(),
            replicas=((1,),) * partitions,
            config=tuple((key.replace("_", "."), value) for key, value in config.items()),
        )
        self.propose(change)
        return change.topic_id

    def delete(self, name: str) -> None:
        self.propose(DeleteTopic(topic_id=self.ctx.image.topics[name].topic_id))

    def produce(
        self,
        batch: bytes | None = None,
        *,
        topic: str = "orders",
        partition: int = 0,
        acks: int = -1,
        version: int = 12,
        topic_id: UUID | None = None,
    ) -> ProducePartitionResponse:
        records = memoryview(bytearray(batch if batch is not None else batch_of(b"v")))
        parts = (ProducePartition(partition, records),)
        request = ProduceRequest(None, acks, 1000, (ProduceTopic(topic, topic_id, parts),))
        answer = self.ask(0, request, version=version)
        found: ProducePartitionResponse = answer.topics[0].partitions[0]
        return found

    def fetch(self, offset: int = 0, **changes: Any) -> Any:
        """One partition's answer, or the Parked that waits for it."""
        answer = self.ask(1, fetch_request(offset, **changes))
        return answer if isinstance(answer, Parked) else answer.topics[0].partitions[0]


def fetch_request(
    offset: int = 0,
    *,
    topic: str = "orders",
    topic_id: UUID | None = None,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
    leader_epoch: int = -1,
    replica_id: int = -1,
) -> FetchRequest:
    part = FetchPartition(partition, leader_epoch, offset, -1, -1, partition_max_bytes)
    return FetchRequest(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        0,
        -1,
        (FetchTopic(topic, topic_id, (part,)),),
    )


def batch_of(*values: bytes, timestamp_ms: int = NOW_MS, **fields: int) -> bytes:
    """One batch of records with these values; `fields` are build_batch's."""
    records = [Record(b"k", value, (), timestamp_ms) for value in values]
    return bytes(build_batch(records, **fields))


def values_in(answer: FetchResponse | FetchPartitionResponse) -> list[bytes | None]:
    """The values of every record in a partition's answer."""
    assert isinstance(answer, FetchPartitionResponse)
    found = []
    for buffer in answer.records or ():
        data = memoryview(buffer)
        for pos, header in iter_batches(data):
            found += [r.value for r in read_records(data[pos : pos + header.size_bytes])]
    return found


def world_of(**topic: Any) -> World:
    """One broker with the topic `orders`; `topic` as for `World.create`."""
    world = World()
    world.create(**topic)
    return world

"""A cluster without sockets: real contexts, handlers and logs; one chain of blocks; a test moves
every fetch, delivers every answer, and may hold back a broker's blocks.

The controller is `metadata/elections.py` over who is live; `kill` is kill -9 (the page cache
stays).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import BrokerSettings, Context, RequestInfo, new_context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import (
    At,
    BrokerState,
    Change,
    CreateTopic,
    Decision,
    Origin,
    PartitionState,
    RegisterBroker,
)
from josefine_broker.engine.metadata.image import Endpoint, MetadataImage, PartitionEntry
from josefine_broker.engine.metadata.leader_election import ElectionRules, Liveness, settle
from josefine_broker.engine.metadata_quorum.apply_committed import apply_block
from josefine_broker.engine.partition.replica_fetch import FetchLimits, ReplicaFetcher
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.following import hear
from josefine_broker.engine.replicas.leading import isr_steps
from josefine_broker.engine.replicas.synced import log_synced
from josefine_broker.host.log.group_sync import GroupSync
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records
from josefine_broker.wire.codec import RequestHeader
from josefine_broker.wire.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from josefine_broker.wire.fetch_request import decode_request, encode_request
from josefine_broker.wire.fetch_response import decode_response, encode_response
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import (
    LISTENER,
    TERM,
    ManualClock,
    batch_of,
    fetch_request,
)

FETCH, PRODUCE = 1, 0
FETCH_VERSION = 17
NOBODY = Origin(99, 1)


class _Raft:
    """One broker's way to the chain."""

    def __init__(self, cluster: Replicas) -> None:
        self.cluster = cluster

    def propose(self, payload: bytes, deadline_ms: int) -> None:
        self.cluster.chain.append(payload)
        if self.cluster.at_once:
            self.cluster.deliver()


class Waiting(NamedTuple):
    """A follower's request whose answer the test has still to deliver."""

    follower: Context
    fetcher: ReplicaFetcher
    number: int
    leader: Context
    answer: Any


class Replicas:
    """Brokers 1 to n. `run` lets followers fetch until nothing moves any more."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: bool | Mapping[int, str] = False,
        limits: FetchLimits | None = None,
        clock: Any = None,
        groups: Mapping[int, GroupSync] | None = None,
    ) -> None:
        """`groups`: of brokers whose logs are synced apart from their appends."""
        self.groups = groups or {}
        self.clock = clock or ManualClock()
        self.settings = BrokerSettings(
            auto_create_topics=False,
            replica_fetch=replace(limits or FetchLimits(), lag_time_max_ms=1_000),
        )
        named = {broker_id: f"rack{broker_id}" for broker_id in range(1, brokers + 1)}
        self.racks: Mapping[int, str] = (
            racks if isinstance(racks, Mapping) else named if racks else {}
        )
        self.chain: list[bytes] = []
        self.applied: dict[int, int] = {}
        self.held: set[int] = set()
        """Brokers whose blocks do not arrive."""
        self.at_once = True
        self._delivering = False
        self.ctx: dict[int, Context] = {}
        self.hosting: dict[int, Hosting] = {}
        self.files = {broker_id: MemoryFiles() for broker_id in range(1, brokers + 1)}
        self.waiting: list[Waiting] = []
        self.image = MetadataImage(cluster_id="c")
        """What the chain says up to its end, as the controller sees it."""
        self._seen = 0
        self.starts = 0
        for broker_id in self.files:
            self.start(broker_id)

    # Blocks.

    def propose(self, change: Change) -> None:
        self.chain.append(encode_change(change, NOBODY))
        self.deliver()

    def deliver(self) -> None:
        """Apply what every broker has not applied yet, but for those held."""
        if self._delivering:
            return
        self._delivering = True
        try:
            moved = True
            while moved:
                moved = False
                for broker_id in list(self.ctx):
                    moved |= broker_id not in self.held and self._apply_next(broker_id)
        finally:
            self._delivering = False
        self._see()

    def _apply_next(self, broker_id: int) -> bool:
        at = self.applied[broker_id]
        if at >= len(self.chain):
            return False
        self.applied[broker_id] = at + 1
        apply_block(self.ctx[broker_id], self.chain[at], At(TERM, at + 1))
        return True

    def _see(self) -> None:
        from josefine_broker.engine.metadata.apply import apply
        from josefine_broker.engine.metadata.change_codec import decode_change

        while self._seen < len(self.chain):
            change, _ = decode_change(self.chain[self._seen])
            self._seen += 1
            try:
                self.image = apply(self.image, change, At(TERM, self._seen))
            except KafkaError:
                continue

    # Brokers.

    def start(self, broker_id: int) -> Context:
        """A new incarnation on the files there are; registered, unfenced, elections held."""
        self.starts += 1
        group = self.groups.get(broker_id)
        manager = LogManager(self.files[broker_id], group=group)
        hosting = Hosting(manager, self.clock)
        ctx = new_context(
            broker_id=broker_id,
            image=MetadataImage(cluster_id="c"),
            clock=self.clock,
            rng=Random(self.starts),
            raft=_Raft(self),
            logs=hosting,
            settings=self.settings,
        )
        if group is not None:
            group.on_synced = partial(log_synced, ctx)
        ctx.cluster.incarnation = f"{broker_id}-{self.starts}"
        self.ctx[broker_id], self.hosting[broker_id] = ctx, hosting
        self.applied[broker_id] = 0
        self.held.discard(broker_id)
        self.propose(
            RegisterBroker(
                broker_id=broker_id,
                incarnation=ctx.cluster.incarnation,
                endpoints=(self.endpoint(broker_id),),
                rack=self.racks.get(broker_id),
                clean=manager.clean_shutdown,
                previous_epoch=manager.previous_epoch,
            )
        )
        self.elect()
        self.fence(broker_id, fenced=False)
        return ctx

    def endpoint(self, broker_id: int) -> Endpoint:
        """Where this broker says it is."""
        return Endpoint(LISTENER, f"host{broker_id}", 9090)

    def kill(self, broker_id: int, *, fenced: bool = True) -> None:
        """kill -9; the controller notices if `fenced`."""
        ctx = self.ctx.pop(broker_id)
        self.hosting.pop(broker_id)
        self.held.discard(broker_id)
        self.waiting = [w for w in self.waiting if ctx not in (w.follower, w.leader)]
        for other in self.ctx.values():
            fetcher = other.hosted.fetchers.by_leader.get(broker_id)
            if fetcher is not None:
                fetcher.leader_lost(self.clock.elapsed_ms)
                fetcher.disconnected()
        if fenced:
            self.fence(broker_id)

    def stop(self, broker_id: int) -> None:
        """A clean stop."""
        self.hosting[broker_id].close(self.image.brokers[broker_id].epoch)
        self.kill(broker_id)

    def fence(self, broker_id: int, *, fenced: bool = True) -> None:
        broker = self.image.brokers[broker_id]
        state = BrokerState(broker_id, broker.epoch, fenced, False, False)
        self.propose(Decision(controller_term=TERM, reason="test", brokers=(state,)))
        self.elect()

    def elect(self) -> None:
        """What the controller makes of who is live."""
        live = Liveness.of(self.image.brokers)
        states = []
        for topic in self.image.topics.values():
            config = dict(topic.config)
            rules = ElectionRules(
                min_insync_replicas=int(config.get("min.insync.replicas", 1)),
                unclean_allowed=config.get("unclean.leader.election.enable") == "true",
            )
            for index, entry in enumerate(topic.partitions):
                after = settle(entry, live, rules)
                if after is not entry:
                    states.append(PartitionState.of(topic.topic_id, index, entry, after))
        if states:
            change = Decision(controller_term=TERM, reason="elect", partitions=tuple(states))
            self.propose(change)

    def create(
        self,
        name: str = "orders",
        replicas: tuple[tuple[int, ...], ...] = ((1, 2, 3),),
        **config: str,
    ) -> UUID:
        topic_id = UUID(int=len(self.chain) + 1, version=4)
        pairs = tuple((key.replace("_", "."), value) for key, value in config.items())
        self.propose(CreateTopic(name=name, topic_id=topic_id, replicas=replicas, config=pairs))
        return topic_id

    def lead(
        self,
        leader: int,
        isr: tuple[int, ...] | None = None,
        index: int = 0,
        topic_name: str = "orders",
    ) -> None:
        """The controller elects this one."""
        topic = self.image.topics[topic_name]
        old = topic.partitions[index]
        new = PartitionState.of(topic.topic_id, index, old, old)._replace(
            leader=leader, leader_epoch=old.leader_epoch + 1, isr=old.isr if isr is None else isr
        )
        self.propose(Decision(controller_term=TERM, reason="test", partitions=(new,)))

    def fence_and_lead(self, killed: int, leader: int, isr: tuple[int, ...]) -> None:
        """The controller's decision about a broker that is gone."""
        topic, broker = self.image.topics["orders"], self.image.brokers[killed]
        old = topic.partitions[0]
        new = PartitionState.of(topic.topic_id, 0, old, old)._replace(
            leader=leader, leader_epoch=old.leader_epoch + 1, isr=isr
        )
        state = BrokerState(killed, broker.epoch, True, False, False)
        self.propose(
            Decision(controller_term=TERM, reason="test", brokers=(state,), partitions=(new,))
        )

    # Looking.

    def entry(self, index: int = 0) -> PartitionEntry:
        return self.image.topics["orders"].partitions[index]

    def hosted(self, broker_id: int, index: int = 0) -> HostedPartition:
        return self.ctx[broker_id].hosted.partitions["orders", index]

    def high_watermark(self, broker_id: int, index: int = 0) -> int:
        return self.hosted(broker_id, index).partition.high_watermark

    def log_end(self, broker_id: int, index: int = 0) -> int:
        return self.hosted(broker_id, index).log.log_end_offset

    def records(
        self, broker_id: int, index: int = 0, below: int | None = None
    ) -> list[tuple[int, int, bytes | None]]:
        """(offset, leader epoch, value) of every record in a replica's log."""
        its_log = self.hosted(broker_id, index).log
        found = []
        offset, end = its_log.log_start_offset, its_log.log_end_offset
        while offset < end:
            for buffer in its_log.read(offset, 1 << 20, end_offset=end):
                data = memoryview(buffer)
                for pos, header in iter_batches(data):
                    for record in read_records(data[pos : pos + header.size_bytes]):
                        found.append((record.offset, header.leader_epoch, record.value))
                    offset = header.end_offset
        return [each for each in found if below is None or each[0] < below]

    # Requests.

    def ask(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        version: int | None = None,
        listener: str = LISTENER,
        connected_ms: int | None = None,
    ) -> Any:
        api = SERVED[api_key]
        header = RequestHeader(
            api_key, api.spec.max_version if version is None else version, 1, "t", 0
        )
        info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", listener, connected_ms)
        try:
            return api.handle(self.ctx[broker_id], info, request)
        except KafkaError as error:
            return api.refuse(request, error)

    def produce(
        self,
        leader: int,
        *values: bytes,
        acks: int = -1,
        index: int = 0,
        timeout_ms: int = 500,
        batch: bytes | None = None,
    ) -> Any:
        """One partition's answer, the Parked that waits for it, or the Hangup instead of it."""
        records = memoryview(bytearray(batch or batch_of(*(values or (b"v",)))))
        parts = (ProducePartition(index, records),)
        request = ProduceRequest(None, acks, timeout_ms, (ProduceTopic("orders", None, parts),))
        answer = self.ask(leader, PRODUCE, request, 12)
        return result_of(answer) if isinstance(answer, ProduceResponse) else answer

    def fetch(self, broker_id: int, offset: int = 0, *, rack: str = "", **changes: Any) -> Any:
        """A consumer's fetch from one broker."""
        version = changes.pop("version", 12)
        request = fetch_request(offset, **changes)._replace(rack_id=rack)
        answer = self.ask(broker_id, FETCH, request, version)
        return answer if isinstance(answer, Parked) else answer.topics[0].partitions[0]

    def advance(self, ms: int) -> None:
        self.clock.elapsed_ms += ms
        for ctx in list(self.ctx.values()):
            ctx.parked.tick(self.clock.elapsed_ms)
            ctx.parked.run_completed()

    def check_isrs(self) -> None:
        for ctx in list(self.ctx.values()):
            list(isr_steps(ctx))

    # Replication.

    def send(self, follower: int, leader: int) -> bool:
        """One request of a follower, through the wire format; False when it has none to send."""
        ctx, now_ms = self.ctx[follower], self.clock.monotonic_ms()
        fetcher = ctx.hosted.fetchers.by_leader.get(leader)
        if fetcher is None or leader not in self.ctx or not fetcher.wants_request(now_ms):
            return False
        number, request = fetcher.request(now_ms, ctx.broker_epoch)
        answer = self.ask(leader, FETCH, over_wire(request), FETCH_VERSION)
        self.waiting.append(Waiting(ctx, fetcher, number, self.ctx[leader], answer))
        return True

    def receive(self, waiting: Waiting) -> bool:
        """Deliver one answer; False when the leader has not given it yet."""
        answer = waiting.answer
        if isinstance(answer, Parked):
            if not answer.done:
                return False
            answer = answer.response
        self.waiting.remove(waiting)
        hear(waiting.follower, waiting.fetcher, waiting.number, back_over_wire(answer))
        return True

    def step(self) -> bool:
        """Every follower sends and receives what it can; whether anything moved."""
        moved = False
        for ctx in list(self.ctx.values()):
            moved |= ctx.parked.has_completed
            ctx.parked.run_completed()
        for follower in list(self.ctx):
            for leader in list(self.ctx):
                moved |= follower != leader and self.send(follower, leader)
        for waiting in list(self.waiting):
            moved |= self.receive(waiting)
        return moved

    def run(self, steps_max: int = 200) -> None:
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError("replication does not come to rest")


def result_of(answer: Any) -> ProducePartitionResponse:
    """The one partition of a produce answer, a parked one's too."""
    if isinstance(answer, Parked):
        assert answer.done
        answer = answer.response
    found: ProducePartitionResponse = answer.topics[0].partitions[0]
    return found


def fetched(answer: Any) -> FetchPartitionResponse:
    if isinstance(answer, Parked):
        assert answer.done
        answer = answer.response
    if isinstance(answer, FetchResponse):
        return answer.topics[0].partitions[0]
    assert isinstance(answer, FetchPartitionResponse)
    return answer


def over_wire(request: FetchRequest) -> FetchRequest:
    out = bytearray()
    encode_request(out, request, FETCH_VERSION)
    return decode_request(memoryview(out), 0, FETCH_VERSION)[0]


def back_over_wire(response: FetchResponse) -> FetchResponse:
    out = bytearray()
    frame = b"".join(bytes(each) for each in encode_response(out, response, FETCH_VERSION))
    return decode_response(memoryview(bytearray(frame)), 0, FETCH_VERSION)[0]

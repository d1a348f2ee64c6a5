"""A follower that has everything is answered without handler, codec and log: with the same bytes,
and with the same session, follower and high watermark afterwards.

Two clusters do the same. In one the leader serves each fetch of a follower as the broker does, in
the other the handler does, with the codec.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import pytest

from josefine_broker.api.plain_replica_fetch import CaughtUp, fetch_for_follower
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.metadata.changes import RegisterBroker
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked
from josefine_broker.engine.replicas.following import hear
from josefine_broker.engine.replicas.following_next import NextBatches, next_batches
from josefine_broker.engine.replicas.leading import isr_steps
from josefine_broker.engine.replicas.plain_batches import append_groups
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.records.plain_produce import Key, PlainRequest, compiled
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.entities.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from josefine_broker.wire.fetch import FetchRequest
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from josefine_broker.wire.replica_frames import RepeatedRequest, encode_replica_request
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import batch_of

pytestmark = pytest.mark.skipif(compiled is None, reason="there is no extension here")

FETCH, PRODUCE, DELETE_RECORDS, VERSION = 1, 0, 21, 18
PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")
LEADER, FOLLOWERS = 1, (2, 3)


class Side:
    """A cluster of three whose followers' frames a test moves one by one."""

    def __init__(self, partitions: int, *, serves_plain: bool) -> None:
        self.partitions = partitions
        self.serves_plain = serves_plain
        self.met: Counter[str] = Counter()
        self.cluster = Replicas(3)
        self.topic_id = self.cluster.create(
            replicas=((1, 2, 3),) * partitions, min_insync_replicas="2"
        )
        self.ctx = self.cluster.ctx[LEADER]
        self.answers: dict[int, list[bytes]] = {each: [] for each in FOLLOWERS}
        self.sent: list[bytes] = []
        self.asked: dict[int, tuple[int, FetchRequest, bytes]] = {}
        """Of each follower, its last request."""
        self.rounds: dict[int, NextBatches] = {}
        for index in range(partitions):  # an empty segment is not plain
            self.cluster.produce(LEADER, b"first", index=index, acks=1)

    def produce(self, index: int, sizes: list[int], *, acks: int) -> None:
        """Plain requests of one turn, of as many records each."""
        assert compiled is not None
        groups: dict[Key, list[PlainRequest]] = {}
        for size in sizes:
            # Of two requests one names the topic by its id: these are not appended together.
            by_id = len(groups) == 1 and acks == 1
            batch = memoryview(bytearray(batch_of(*[b"x" * 20] * size)))
            name, topic_id = ("", self.topic_id) if by_id else ("orders", None)
            topic = ProduceTopic(name, topic_id, (ProducePartition(index, batch),))
            body = ProduceRequest(None, acks, 1_000, (topic,))
            frame = b"".join(encode_request(PRODUCE, 13 if by_id else 8, 1, "test", body))
            request = compiled.parse(memoryview(bytearray(frame))[4:])
            assert request is not None
            groups.setdefault(request[0], []).append(request)
        append_groups(self.ctx, compiled, groups)
        self.ctx.parked.run_completed()

    def send(self, follower: int) -> None:
        """Everything that this follower asks for now."""
        ctx = self.cluster.ctx[follower]
        fetcher = ctx.hosted.fetchers.by_leader[LEADER]
        while fetcher.wants_request(ctx.clock.monotonic_ms()):
            number, request = fetcher.request(ctx.clock.monotonic_ms(), ctx.broker_epoch)
            frame = b"".join(encode_request(FETCH, VERSION, number, f"replica-{follower}", request))
            self.asked[follower] = number, request, frame
            self.rounds.pop(follower, None)
            self._serve(follower, frame)
        self.ctx.parked.run_completed()

    def receive(self, follower: int) -> bool:
        """The oldest answer to this follower; whether it has sent the next request at once."""
        if not self.answers[follower]:
            return False
        view = memoryview(bytearray(self.answers[follower].pop(0)))[4:]
        number, response = decode_response(FETCH, VERSION, view)
        ctx = self.cluster.ctx[follower]
        fetcher = ctx.hosted.fetchers.by_leader[LEADER]
        last, request, frame = self.asked[follower]
        name = f"replica-{follower}"
        if self.serves_plain and encode_replica_request(VERSION, last, name, request) == frame:
            rounds = self.rounds.get(follower) or next_batches(ctx, fetcher, last, request)
            taken = None if rounds is None else rounds.take(number, view)
            if rounds is not None and taken is not None:
                self.asked[follower] = taken[0], request, frame
                self.rounds[follower] = rounds
                self.met["asked at once"] += 1
                self._serve(follower, RepeatedRequest(memoryview(frame)[4:]).frame(*taken))
                rounds.finish()
                self.ctx.parked.run_completed()
                return True
        hear(ctx, fetcher, number, response)
        return False

    def pass_time(self, ms: int) -> None:
        self.cluster.clock.elapsed_ms += ms
        self.ctx.parked.tick(self.ctx.clock.monotonic_ms())
        self.ctx.parked.run_completed()
        list(isr_steps(self.ctx))
        self.ctx.parked.run_completed()

    def delete(self, index: int) -> None:
        """DeleteRecords up to the high watermark, which waits for the followers."""
        parts = (DeleteRecordsPartition(partition_index=index, offset=-1),)
        topics = (DeleteRecordsTopic(name="orders", partitions=parts),)
        request = DeleteRecordsRequest(topics=topics, timeout_ms=400)
        self.cluster.ask(LEADER, DELETE_RECORDS, request, 2)
        self.ctx.parked.run_completed()

    def facts(self) -> object:
        """What later answers depend on."""
        partitions = []
        for index in range(self.partitions):
            partition = self.cluster.hosted(LEADER, index).partition
            assert partition.followers is not None
            states = [str(partition.followers.get(each)) for each in FOLLOWERS]
            partitions.append((partition.high_watermark, partition.isr, states))
        sessions = [
            (each.epoch, each.used_ms, each.looked_ms, tuple(each.partitions.items()))
            for each in self.ctx.clients.sessions._sessions.values()
        ]
        sent = self.ctx.hosted.traffic.total().bytes_out
        return partitions, sessions, self.answers, len(self.ctx.parked), sent, *self._copies()

    def _copies(self) -> tuple[object, ...]:
        """The followers' side, and what they have asked."""
        copies = []
        for follower in FOLLOWERS:
            ctx = self.cluster.ctx[follower]
            fetchers = ctx.hosted.fetchers.by_leader.get(LEADER, ())
            marks = [self.cluster.high_watermark(follower, n) for n in range(self.partitions)]
            counters = ctx.hosted.counters
            counted = counters.replicated_bytes, counters.replicated_batches
            copies.append(([str(each) for each in fetchers], marks, counted))
        return copies, self.sent

    def _serve(self, follower: int, frame: bytes) -> None:
        self.sent.append(frame)
        view = memoryview(bytearray(frame))[4:]
        header, answer = parse_request_header(view), None
        if self.serves_plain:
            found = fetch_for_follower(self.ctx, view, PEER, self._handle)
            answer = None if found is None else found[1]
        if answer is None:
            answer = self._handle(header, decode_request(header, view))
        if isinstance(answer, Parked) and not answer.done:
            answer.on_done = partial(self._answered, follower, header)
        else:
            self._put(follower, header, answer)

    def _answered(self, follower: int, header: RequestHeader, parked: Parked) -> None:
        is_caught_up = isinstance(parked, CaughtUp)
        self.met["waited"] += is_caught_up
        self.met["from the append"] += is_caught_up and parked.is_answered_from_append  # type: ignore[attr-defined]
        self._put(follower, header, parked)

    def _put(self, follower: int, header: RequestHeader, answer: Any) -> None:
        if isinstance(answer, Parked):
            answer = answer.response
        if isinstance(answer, Encoded):
            answer = answer.buffers
        if not isinstance(answer, list):
            answer = encode_response(FETCH, header.api_version, header.correlation_id, answer)
        self.answers[follower].append(b"".join(answer))

    def _handle(self, header: RequestHeader, request: FetchRequest) -> Any:
        info = RequestInfo(header, PEER.principal, PEER.address, PEER.listener)
        try:
            return SERVED[FETCH].handle(self.ctx, info, request)
        except KafkaError as error:
            return SERVED[FETCH].refuse(request, error)


def step(sides: list[Side], rng: Random) -> None:
    """The same for both."""
    kind = rng.choices(
        ("produce", "round", "send", "receive", "time", "delete", "lead", "deliver"),
        (8, 8, 6, 6, 3, 1, 0.5, 2),
    )[0]
    index, follower = rng.randrange(sides[0].partitions), rng.choice(FOLLOWERS)
    sizes = [rng.choice((1, 1, 3)) for _ in range(rng.choice((1, 1, 1, 2)))]
    acks, ms = rng.choice((1, -1)), rng.choice((0, 1, 30, 600))
    asks_at_once = False
    for side in sides:
        if kind == "produce":
            side.produce(index, sizes, acks=acks)
        elif kind == "round":
            for each in FOLLOWERS:
                side.receive(each)
                side.send(each)
        elif kind == "send":
            side.send(follower)
        elif kind == "receive":
            if asks_at_once:
                side.receive(follower)
                side.send(follower)
            asks_at_once = not asks_at_once and side.receive(follower)
        elif kind == "time":
            side.pass_time(ms)
        elif kind == "delete":
            side.delete(index)
        elif kind == "lead":  # a follower may learn of the epoch later
            side.cluster.held.add(follower)
            side.cluster.lead(LEADER, index=index)
        else:
            side.cluster.held.clear()
            side.cluster.deliver()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("partitions", [1, 2])
def test_what_waits_for_the_next_record_is_served_as_the_handler_serves_it(
    partitions: int, seed: int
) -> None:
    rng = Random(seed)
    sides = [Side(partitions, serves_plain=True), Side(partitions, serves_plain=False)]
    for _ in range(600):
        step(sides, rng)
        assert sides[0].facts() == sides[1].facts()

    assert sides[0].met["waited"] > 5
    assert sides[0].met["from the append"] > 3
    assert sides[0].met["asked at once"] > 3
    for each in (LEADER, *FOLLOWERS):
        for index in range(partitions):
            assert sides[0].cluster.records(each, index) == sides[1].cluster.records(each, index)


def test_an_answer_with_what_was_appended_does_not_hide_the_watermark_of_another_partition() -> (
    None
):
    """Both followers wait; one of them commits a record of the other partition in the meantime."""
    sides = [Side(2, serves_plain=True), Side(2, serves_plain=False)]
    first, second = FOLLOWERS

    def go(side: Side, *followers: int) -> None:
        for each in followers:
            side.receive(each)
            side.send(each)

    for side in sides:
        for _ in range(6):
            go(side, *FOLLOWERS)
        side.produce(1, [1], acks=1)
        go(side, first)  # the second one keeps its answer
        for _ in range(3):
            side.produce(0, [1], acks=1)
            go(side, first)
        before = side.cluster.high_watermark(LEADER, 1)
        go(side, second, second)
        assert side.cluster.high_watermark(LEADER, 1) > before
        side.produce(0, [1], acks=1)

    assert sides[0].met["waited"] > 0
    assert sides[0].facts() == sides[1].facts()


@pytest.mark.parametrize("by", ["rules", "listener", "registration"])
def test_a_follower_that_is_not_let_in_any_more_is_refused_as_by_the_handler(by: str) -> None:
    """Its access rule is removed, or it comes through a listener of clients, or another process
    has its broker id."""
    sides = [Side(1, serves_plain=True), Side(1, serves_plain=False)]
    follower = FOLLOWERS[0]
    for side in sides:
        for _ in range(6):
            side.receive(follower)
            side.send(follower)
        side.produce(0, [1], acks=1)
        before = side.met["waited"]
        if by == "rules":
            side.ctx.clients.authorizer = Authorizer(frozenset())
        elif by == "registration":
            side.cluster.held.add(follower)  # it does not know
            side.cluster.propose(
                RegisterBroker(broker_id=follower, incarnation="another", endpoints=())
            )
        else:
            side.ctx.clients.listeners_apart = frozenset((PEER.listener,))
        for _ in range(3):
            side.receive(follower)
            side.send(follower)
        side.produce(0, [1], acks=1)
        assert side.met["waited"] == before

    assert sides[0].facts() == sides[1].facts()

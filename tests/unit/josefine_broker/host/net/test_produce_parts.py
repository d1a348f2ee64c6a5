"""Produce requests for several partitions, served by the turn: the same logs, facts and answers as
by the general path, which appends them batch by batch."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.api.produce import refuse_late, refuse_parts
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.replicas.plain_batches import append_alone, append_groups, is_open
from josefine_broker.engine.replicas.plain_parts import append_parts
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.host.net.late_answers import LateAnswers, Later
from josefine_broker.host.net.produce_turn import PARTS_MAX, Appends, ProduceTurn
from josefine_broker.records.batch import stamp_crc
from josefine_broker.records.plain_produce import compiled
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import (
    decode_request,
    decode_response,
    encode_response,
    parse_request_header,
)
from tests.support.garbage import alive, uncollected
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import LISTENER, NOW_MS, World
from tests.unit.josefine_broker.engine.replicas.test_plain_batches import facts
from tests.unit.josefine_broker.engine.replicas.test_plain_replicas import state
from tests.unit.josefine_broker.plain_frames import VERSIONS, batch_with, frame_of, frame_with

pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


class General:
    """A broker's general path, with the answers that it gave or will give."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.taken = 0
        """Requests that the general path served."""
        self.slots: dict[int, Any] = {}

    def serve(self, frame: memoryview) -> None:
        self.taken += 1
        header = parse_request_header(frame)
        info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", LISTENER)
        answer = SERVED[PRODUCE].handle(self.ctx, info, decode_request(header, frame))
        self.slots[header.correlation_id] = (header, answer)

    def seen(self) -> dict[int, bytes | None]:
        """Whole answers by correlation id; None while a request waits, b"" for a hangup or none."""
        return {number: self._seen(slot) for number, slot in self.slots.items()}

    def codes(self, number: int) -> list[ErrorCode]:
        """Of the partitions of an answer in version 9."""
        answer = self.seen()[number]
        assert answer
        response = decode_response(PRODUCE, 9, memoryview(bytearray(answer))[4:])[1]
        parts = [part for topic in response.topics for part in topic.partitions]
        return [ErrorCode(part.error_code) for part in parts]

    def _seen(self, slot: Any) -> bytes | None:
        if isinstance(slot, bytes):
            return slot
        if isinstance(slot, Later):
            return None if slot.buffers is None else b"".join(slot.buffers)
        header, answer = slot
        if isinstance(answer, Parked):
            if not answer.done:
                return None
            answer = answer.response
        if answer is None or isinstance(answer, Hangup):
            return b""
        whole = encode_response(PRODUCE, header.api_version, header.correlation_id, answer)
        return b"".join(whole)


class Turn(General):
    """A broker's turn, with one connection, which hands on what is not plain."""

    peer = Peer(listener=LISTENER, address="127.0.0.1:5")

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        assert compiled is not None
        self.metrics = Metrics()
        self.fatal: list[BaseException] = []
        self.released = 0
        late = LateAnswers(
            compiled, partial(refuse_late, ctx), partial(refuse_parts, ctx), ctx.parked.cancel,
            self.metrics.api("Produce"),
        )  # fmt: skip
        self.turn = ProduceTurn(
            compiled,
            Appends(
                partial(append_alone, ctx, compiled), partial(append_groups, ctx, compiled),
                partial(append_parts, ctx, compiled),
            ),
            partial(is_open, ctx), late, self.metrics.connections, self.fatal.append,
            lambda work: None,
        )  # fmt: skip

    def serve_together(self, frames: Iterable[memoryview]) -> None:
        for frame in frames:
            if not self.turn.stage(frame, self):
                self.turn.run()
                self.serve(frame)
            elif self.turn.is_full:
                self.turn.run()
        self.turn.run()
        assert not self.fatal
        assert not self.metrics.connections.handler_failures

    def send_at_once(self, answer: bytes) -> None:
        raise AssertionError("no request is served alone")

    def answer_staged(self, frame: memoryview, answer: bytes | Later | None) -> bool:
        if answer is None:
            self.serve(frame)
        else:
            self.slots[parse_request_header(frame).correlation_id] = answer
        return False

    def continue_work(self) -> None:
        raise AssertionError("nothing waits for it")

    def release(self) -> None:
        self.released += 1

    def send_now(self, place: object, answer: object) -> bool:
        return False

    def abort(self) -> bool:
        raise AssertionError("the turn failed")

    @property
    def counted(self) -> int:
        """Answered requests of the turn, as the metrics have them."""
        return sum(self.metrics.api("Produce").buckets)


def damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def compressed(batch: bytes) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">h", changed, 21, 1)
    stamp_crc(changed)
    return bytes(changed)


BATCHES = {
    "good": batch_with(b"v"),
    "two records": batch_with(b"v", b"w"),
    "no key": batch_with(b"v", key=None),
    "early": batch_with(b"v", timestamp_ms=NOW_MS - 70),
    "damaged": damaged(batch_with(b"v")),
    "compressed": compressed(batch_with(b"v" * 9)),
    "oversized": batch_with(b"v" * 200),
    "empty": b"",
}
KINDS = st.sampled_from(["good"] * 9 + list(BATCHES))
PARTITION = st.tuples(
    # Of the three partitions of `orders` the last one has had no record; there is no fourth.
    st.sampled_from([("orders", 0), ("orders", 0), ("orders", 1), ("other", 0), ("orders", 2),
                     ("other", 1), ("orders", 3), ("unknown", 0)]),
    KINDS,
)  # fmt: skip
REQUEST = st.tuples(
    st.lists(PARTITION, min_size=1, max_size=4),
    st.sampled_from([1, 1, 1, -1, -1, 0]),
    st.sampled_from([9, 9, 9, *VERSIONS]),
)
CONFIGS: list[dict[str, str]] = [
    {}, {}, {},
    {"cleanup_policy": "compact"},
    {"message_timestamp_type": "LogAppendTime"},
    {"max_message_bytes": "100"},
    {"segment_bytes": "1024"},
    {"flush_messages": "1"},
    {"flush_messages": "3"},
    {"compression_type": "gzip"},
    {"message_timestamp_before_max_ms": "10"},
]  # fmt: skip
TROUBLES = st.sampled_from([""] * 8 + ["full", "failed", "follows", "back"])


def made_world(config: dict[str, str]) -> World:
    world = World()
    world.create(partitions=3, **config)
    world.create("other", partitions=2)
    for topic, index in (("orders", 0), ("orders", 1), ("other", 0), ("other", 1)):
        world.produce(topic=topic, partition=index)
    return world


def trouble(world: World, what: str) -> None:
    hosted = world.ctx.hosted.partitions["orders", 1]
    log: Any = hosted.log
    entry = world.ctx.image.partition("orders", 1)
    assert entry is not None
    if what == "full":
        world.ctx.storage.is_full = True
    elif what == "failed":
        log._sync.failure = "sync failed"
    elif what == "follows":
        hosted.partition.follow(replace(entry, leader=2), 1)
    elif what == "back":
        world.ctx.storage.is_full = False
        log._sync.failure = ""


def request_frame(
    world: World, parts: list[tuple[tuple[str, int], str]], acks: int, version: int, number: int
) -> memoryview:
    topics: list[Any] = []
    for (topic, index), kind in parts:
        name: str | UUID = topic
        if version >= 13:
            entry = world.ctx.image.topics.get(topic)
            name = UUID(int=99) if entry is None else entry.topic_id
        if not topics or topics[-1][0] != name:
            topics.append((name, []))
        topics[-1][1].append((index, BATCHES[kind]))
    return frame_with(topics, version=version, acks=acks, correlation_id=number)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(REQUEST, min_size=1, max_size=4), TROUBLES), min_size=1, max_size=5
    ),
    st.sampled_from(CONFIGS),
)
def test_turns_leave_what_the_same_requests_leave_one_by_one(
    turns: list[Any], config: dict[str, str]
) -> None:
    ours, theirs = made_world(config), made_world(config)
    turn, general = Turn(ours.ctx), General(theirs.ctx)
    number = 0
    for asked, what in turns:
        frames = []
        for parts, acks, version in asked:
            number += 1
            frames.append((parts, acks, version, number))
        turn.serve_together(request_frame(ours, *each) for each in frames)
        for each in frames:
            general.serve(request_frame(theirs, *each))
        for world in (ours, theirs):
            world.answer()
            trouble(world, what)
        assert turn.seen() == general.seen()
        assert facts(ours) == facts(theirs)


SENT = st.tuples(
    # Producer (-1: none) and its epoch.
    st.sampled_from([-1, 5, 5, 5, 6]),
    st.sampled_from([0, 0, 0, 0, 0, 1]),
    # Partitions, each with how far its sequence number is from the expected one.
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0] * 9 + [-1, 1])), min_size=1,
             max_size=4),
    st.sampled_from([1, -1]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(SENT, min_size=1, max_size=4), max_size=6))
def test_idempotent_batches_are_stored_repeated_and_refused_as_one_by_one(turns: list[Any]) -> None:
    ours, theirs = made_world({}), made_world({})
    turn, general = Turn(ours.ctx), General(theirs.ctx)
    expected: dict[tuple[int, int, int], int] = {}
    number = 0
    for asked in turns:
        made = []
        for producer, epoch, parts, acks in asked:
            number += 1
            batches = []
            for index, shift in parts:
                sequence = expected.get((producer, epoch, index), 0) + shift
                if not shift:
                    expected[producer, epoch, index] = sequence + 1
                sent = (-1, -1, -1) if producer < 0 else (producer, epoch, max(0, sequence))
                batches.append((index, batch_with(b"v", producer=sent)))
            made.append(([("orders", batches)], acks, number))
        turn.serve_together(
            frame_with(topics, acks=acks, correlation_id=n) for topics, acks, n in made
        )
        for topics, acks, n in made:
            general.serve(frame_with(topics, acks=acks, correlation_id=n))
        assert turn.seen() == general.seen()
        assert facts(ours) == facts(theirs)


def test_requests_of_a_turn_are_one_write_for_each_partition() -> None:
    world = made_world({})
    turn = Turn(world.ctx)
    writes = 0
    for hosted in world.ctx.hosted.partitions.values():
        log: Any = hosted.log
        if not log.log_end_offset:
            continue
        file = log._segments[-1].file()

        class Counting(type(file)):  # type: ignore[misc]
            def write_at_end(self, buffers: Any) -> int:
                nonlocal writes
                writes += 1
                return int(super().write_at_end(buffers))

        file.__class__ = Counting
    good = BATCHES["good"]

    turn.serve_together(
        [
            frame_with([("orders", [(0, good), (1, good)]), ("other", [(0, good)])]),
            frame_of(good, correlation_id=8),
            frame_with([("other", [(0, good)]), ("orders", [(1, good), (0, good)])],
                       correlation_id=9),
        ]
    )  # fmt: skip

    assert (turn.taken, writes, turn.counted) == (0, 3, 3)
    assert [turn.codes(n) for n in (7, 8, 9)] == [[ErrorCode.none] * n for n in (3, 1, 3)]


@pytest.mark.parametrize("bad", [("orders", 3), ("unknown", 0)])
def test_a_bad_partition_leaves_its_request_to_the_general_path_and_the_others_to_the_turn(
    bad: tuple[str, int],
) -> None:
    world = made_world({})
    turn = Turn(world.ctx)
    good = BATCHES["good"]

    turn.serve_together(
        [
            frame_with([("orders", [(0, good)]), (bad[0], [(bad[1], good)])], correlation_id=1),
            frame_with([("orders", [(0, good), (1, good)])], correlation_id=2),
            frame_with([("other", [(0, good), (1, good)])], correlation_id=3),
        ]
    )

    # The second one names a partition with the first: it must not overtake it.
    assert turn.taken == 2
    unknown = ErrorCode.unknown_topic_or_partition
    assert [turn.codes(n) for n in (1, 2, 3)] == [
        [ErrorCode.none, unknown], [ErrorCode.none] * 2, [ErrorCode.none] * 2,
    ]  # fmt: skip


def test_a_request_is_left_out_with_a_later_one_that_shares_a_partition_with_it() -> None:
    ours, theirs = made_world({}), made_world({})
    turn, general = Turn(ours.ctx), General(theirs.ctx)
    good = BATCHES["good"]
    frames = [
        frame_with([("other", [(0, good), (1, good)])], correlation_id=1),
        frame_with([("orders", [(0, good), (1, good)])], correlation_id=2),
        frame_with([("orders", [(1, good), (3, good)])], correlation_id=3),
    ]

    turn.serve_together([memoryview(bytearray(each)) for each in frames])
    for each in frames:
        general.serve(each)

    assert turn.taken == 2
    assert turn.seen() == general.seen()
    assert facts(ours) == facts(theirs)


def test_offsets_count_the_records_of_the_requests_before() -> None:
    ours, theirs = made_world({}), made_world({})
    turn, general = Turn(ours.ctx), General(theirs.ctx)
    two = BATCHES["two records"]
    frames = [
        frame_with([("orders", [(0, two), (1, two)]), ("other", [(0, two)])], correlation_id=n)
        for n in range(3)
    ]
    for world in (ours, theirs):  # and log starts are those of each partition
        world.ctx.hosted.partitions["orders", 1].log.delete_before(1)

    turn.serve_together([memoryview(bytearray(each)) for each in frames])
    for each in frames:
        general.serve(each)

    assert turn.taken == 0
    assert turn.seen() == general.seen()
    assert facts(ours) == facts(theirs)


def test_a_partition_named_by_name_and_by_id_is_left_to_the_general_path_once() -> None:
    world = made_world({})
    turn, other = Turn(world.ctx), Turn(world.ctx)
    topic_id = world.ctx.image.topics["orders"].topic_id
    good = BATCHES["good"]
    by_name = frame_with([("orders", [(0, good), (1, good)])], correlation_id=1)
    by_id = frame_with([(topic_id, [(0, good), (1, good)])], version=13, correlation_id=2)
    # Of two connections: one that names topics both ways takes the general path at once.
    assert turn.turn.stage(by_name, turn)
    assert turn.turn.stage(by_id, other)

    turn.turn.run()

    assert (turn.taken, other.taken) == (0, 1)
    assert world.ctx.hosted.partitions["orders", 0].log.log_end_offset == 3


def test_a_connection_that_names_topics_both_ways_takes_the_general_path() -> None:
    world = made_world({})
    turn = Turn(world.ctx)
    topic_id = world.ctx.image.topics["orders"].topic_id
    good = BATCHES["good"]

    turn.serve_together(
        [
            frame_with([("orders", [(0, good), (1, good)])], correlation_id=1),
            frame_with([(topic_id, [(0, good), (1, good)])], version=13, correlation_id=2),
        ]
    )

    assert turn.taken == 2


def test_quotas_leave_requests_to_the_general_path() -> None:
    world = made_world({})
    world.ctx.clients.authorizer = Any  # type: ignore[assignment]
    turn = Turn(world.ctx)

    assert not turn.turn.stage(frame_of(BATCHES["good"], BATCHES["good"]), turn)
    turn.turn.run()


def test_a_disk_that_fills_up_within_a_request_refuses_the_rest_of_its_batches() -> None:
    ours, theirs = made_world({}), made_world({})
    turn, general = Turn(ours.ctx), General(theirs.ctx)
    good = BATCHES["good"]
    for world in (ours, theirs):
        used = sum(len(inode.data) for inode in world.files.names.values())
        world.files.space_bytes = used + len(good) + 10
    frame = frame_with([("orders", [(0, good), (1, good)]), ("other", [(0, good)])])

    with uncollected():
        before = alive(KafkaError)  # those of other tests
        turn.serve_together([memoryview(bytearray(frame))])
        # Its error would keep the frame until the collector comes.
        assert alive(KafkaError) == before
    general.serve(frame)

    assert turn.codes(7) == [ErrorCode.none, *[ErrorCode.kafka_storage_error] * 2]
    assert turn.seen() == general.seen()
    assert facts(ours) == facts(theirs)
    assert (turn.taken, turn.counted) == (0, 1)


def test_a_turn_is_full_once_it_has_many_batches() -> None:
    turn = Turn(made_world({}).ctx)
    frame = frame_of(*[BATCHES["good"]] * (PARTS_MAX // 2))

    assert turn.turn.stage(frame, turn)
    assert not turn.turn.is_full
    assert turn.turn.stage(frame, turn)
    assert turn.turn.is_full

    turn.turn.run()
    assert not turn.turn.is_full


# With replicas.


def three(*, with_records: bool = True) -> Replicas:
    """Two partitions led by broker 1, with a record and their followers at rest."""
    cluster = Replicas()
    cluster.create(replicas=((1, 2, 3), (1, 2, 3)), min_insync_replicas="2")
    for index in (0, 1):
        cluster.lead(1, index=index)
    cluster.run()
    for index in (0, 1) if with_records else ():
        cluster.produce(1, b"first", acks=1, index=index)
    cluster.run()
    return cluster


ASKED = st.tuples(
    st.lists(st.integers(0, 1), min_size=1, max_size=3), st.sampled_from([1, -1, -1]),
    st.sampled_from([1000, 1000, 300]),
)  # fmt: skip
STEPS = st.lists(
    st.lists(ASKED, min_size=1, max_size=4)
    | st.sampled_from(["run", "run", "late", "depose 0", "depose 1", "lose a follower", "return"]),
    max_size=10,
)


def act(cluster: Replicas, step: Any) -> None:
    if step == "run":
        cluster.run()
    elif step == "late":
        cluster.advance(400)
    elif isinstance(step, str) and step.startswith("depose"):
        index = int(step[-1])
        leader = cluster.entry(index).leader
        cluster.lead(1 if leader != 1 else 2 if 2 in cluster.ctx else 1, index=index)
    elif step == "lose a follower" and 3 in cluster.ctx:
        cluster.kill(3)
    elif step == "return" and 3 not in cluster.ctx:
        cluster.start(3)
    for ctx in cluster.ctx.values():
        ctx.parked.run_completed()


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_replicas_and_answers_are_those_of_the_same_requests_one_by_one(steps: list[Any]) -> None:
    ours, theirs = three(), three()
    turn, general = Turn(ours.ctx[1]), General(theirs.ctx[1])
    number = 0
    for step in steps:
        if isinstance(step, list):
            made = []
            for indexes, acks, timeout_ms in step:
                number += 1
                batches = [(index, batch_with(b"%d" % number)) for index in indexes]
                made.append((batches, acks, timeout_ms, number))
            frames = [
                [
                    frame_with([("orders", batches)], acks=acks, timeout_ms=ms, correlation_id=n)
                    for batches, acks, ms, n in made
                ]
                for _ in range(2)
            ]
            turn.serve_together(frames[0])
            for frame in frames[1]:
                general.serve(frame)
        act(ours, step)
        act(theirs, step)
        assert turn.seen() == general.seen(), step
        assert ours.entry(0) == theirs.entry(0)
        assert ours.entry(1) == theirs.entry(1)
    for cluster in (ours, theirs):
        cluster.run()
        cluster.advance(2_000)
        act(cluster, "run")
    assert turn.seen() == general.seen()
    assert None not in turn.seen().values()
    assert turn.counted == number - turn.taken
    assert state(ours) == state(theirs)

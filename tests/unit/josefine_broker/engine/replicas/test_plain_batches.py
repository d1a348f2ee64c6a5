"""Plain produce requests appended together leave the same bytes, facts and answers as the general
path, which appends them one by one; what that path would refuse or delay is left to it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.api.table import SERVED
from josefine_broker.base.ids import ProducerId
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.replicas.plain_batches import (
    SENT,
    append_alone,
    append_groups,
    is_open,
)
from josefine_broker.host.log.group_sync import GroupSync
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.plain_produce import PlainRequest, compiled
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import decode_request, encode_response, parse_request_header
from tests.unit.josefine_broker.api.world import NOW_MS, World, world_of
from tests.unit.josefine_broker.plain_frames import (
    PLAIN_RECORDS,
    VERSIONS,
    batch_with,
    frame_of,
)

pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def general(world: World, frame: memoryview) -> bytes:
    """The general path's whole response."""
    header = parse_request_header(frame)
    info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", "PLAINTEXT")
    answer = SERVED[PRODUCE].handle(world.ctx, info, decode_request(header, frame))
    world.answer()
    return b"".join(encode_response(PRODUCE, header.api_version, header.correlation_id, answer))


def parsed(frames: list[memoryview]) -> list[PlainRequest]:
    assert compiled is not None
    found = [compiled.parse(frame) for frame in frames]
    return [each for each in found if each is not None]


def together(world: World, *frames: memoryview) -> list[bytes] | None:
    """The answers of the plain path to requests of one partition."""
    assert compiled is not None
    requests = parsed(list(frames))
    assert len(requests) == len(frames)
    if len(requests) == 1:
        sent: list[bytes] = []
        stored = append_alone(world.ctx, compiled, requests[0], sent.append)
        assert (stored is SENT) == bool(sent)
        if sent:
            return sent
    else:
        (stored,) = append_groups(world.ctx, compiled, {requests[0][0]: requests}).values()
    assert stored is None or not stored.waits
    return None if stored is None else stored.answers


def hosted_in(world: World, index: int = 0) -> HostedPartition:
    return world.ctx.hosted.partitions["orders", index]


def facts(world: World) -> list[Any]:
    """Everything that an append changes."""
    found: list[Any] = [sorted((name, bytes(i.data)) for name, i in world.files.names.items())]
    for hosted in world.ctx.hosted.partitions.values():
        log: Any = hosted.log
        for segment in log._segments:
            index = segment.index()
            found.append((segment.summary(), index.offsets, index.positions, index.times))
        partition = hosted.partition
        found.append((partition.high_watermark, partition.appended_bytes, hosted.traffic))
        found.append((partition.producers.snapshot(), len(partition.refusals)))
        found.append((partition.committed_bytes, log.durable_end_offset, log.log_end_offset))
    return found


CONFIGS: list[dict[str, str]] = [
    {},
    {"cleanup_policy": "compact"},
    {"message_timestamp_type": "LogAppendTime"},
    {"max_message_bytes": "100"},
    {"segment_bytes": "1024"},
    {"index_interval_bytes": "200"},
    {"flush_messages": "1"},
    {"flush_messages": "3"},
    {"compression_type": "gzip"},
    {"message_timestamp_before_max_ms": "10"},
]
TURNS = st.lists(
    st.lists(
        st.tuples(PLAIN_RECORDS, st.sampled_from(VERSIONS), st.sampled_from([1, 1, -1])),
        min_size=1,
        max_size=5,
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(TURNS, st.sampled_from(CONFIGS))
def test_turns_of_requests_leave_what_the_same_requests_leave_one_by_one(
    turns: list[list[tuple[list[Record], int, int]]], config: dict[str, str]
) -> None:
    ours, theirs = world_of(**config), world_of(**config)
    topic_id = ours.ctx.image.topics["orders"].topic_id
    for turn in turns:
        made = [
            (bytes(build_batch(records)), {"version": version, "acks": acks, "correlation_id": n})
            for n, (records, version, acks) in enumerate(turn)
        ]
        groups: dict[bool, list[Any]] = {}
        for batch, fields in made:
            groups.setdefault(fields["version"] >= 13, []).append((batch, fields))
        for group in groups.values():
            answers = together(ours, *[frame_of(b, topic_id=topic_id, **f) for b, f in group])
            if answers is None:
                answers = [general(ours, frame_of(b, topic_id=topic_id, **f)) for b, f in group]
            wanted = [general(theirs, frame_of(b, topic_id=topic_id, **f)) for b, f in group]
            assert answers == wanted
    assert facts(ours) == facts(theirs)


BATCH = st.tuples(
    st.sampled_from([-1, 5, 5, 5, 6]),
    st.sampled_from([0, 0, 0, 0, 0, 1]),
    # How far the sequence number is from the one that is expected.
    st.sampled_from([0, 0, 0, 0, 0, 0, -1, 1]),
    st.integers(1, 3),
    st.sampled_from([1, -1]),
)
"""Producer (-1: none), epoch, sequence, records, acks."""


class Sender:
    """Numbers batches as idempotent producers do."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.next: dict[tuple[int, int], int] = {}

    def batch(self, producer: int, epoch: int, shift: int, records: int) -> bytes:
        values = [b"v"] * records
        if producer < 0:
            return batch_with(*values)
        expected = self.next.get((producer, epoch), 0 if epoch else self.first)
        sequence = (expected + shift) & 0x7FFFFFFF
        if not shift:
            self.next[producer, epoch] = (expected + records) & 0x7FFFFFFF
        return batch_with(*values, producer=(producer, epoch, sequence))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(BATCH, min_size=1, max_size=5), max_size=8),
    st.sampled_from([0, 2**31 - 4]),
)
def test_idempotent_batches_are_stored_repeated_and_refused_as_one_by_one(
    turns: list[list[tuple[int, int, int, int, int]]], first: int
) -> None:
    ours, theirs, sender = world_of(), world_of(), Sender(first)
    for turn in turns:
        made = [(sender.batch(*fields), acks) for *fields, acks in turn]
        answers = together(ours, *[frame_of(batch, acks=acks) for batch, acks in made])
        if answers is None:
            answers = [general(ours, frame_of(batch, acks=acks)) for batch, acks in made]
        assert answers == [general(theirs, frame_of(batch, acks=acks)) for batch, acks in made]
        assert facts(ours) == facts(theirs)


def numbered(sequence: int, *, producer: int = 5, epoch: int = 0, records: int = 1) -> memoryview:
    return frame_of(batch_with(*[b"v"] * records, producer=(producer, epoch, sequence)))


def with_producer() -> World:
    """Producer 5 has sent sequence 0."""
    world = world_of()
    general(world, frame_of(batch_with(b"first")))
    general(world, numbered(0))
    return world


def test_the_next_batches_of_known_producers_are_appended_together() -> None:
    world = with_producer()
    general(world, numbered(7, producer=6))

    assert together(world, numbered(1, records=2), numbered(8, producer=6), numbered(3)) is not None

    assert hosted_in(world).log.log_end_offset == 7
    assert together(world, numbered(4)) is not None


def test_sequence_numbers_wrap_to_zero_within_a_turn() -> None:
    world = with_producer()
    general(world, numbered(2**31 - 3, producer=6, records=1))

    found = together(world, numbered(2**31 - 2, producer=6, records=2), numbered(0, producer=6))

    assert found is not None
    entry = hosted_in(world).partition.producers.entry(ProducerId(6))
    assert entry is not None
    assert entry.next_sequence == 1


@pytest.mark.parametrize(
    "frames",
    [
        [numbered(0)],
        [numbered(2)],
        [numbered(1), numbered(1)],
        [numbered(1), numbered(3)],
        [numbered(1, epoch=1)],
        [numbered(0, epoch=1)],
        [numbered(0, producer=6)],
        [numbered(1), numbered(0, producer=6)],
    ],
)
def test_duplicates_gaps_new_epochs_and_unknown_producers_are_left_to_the_general_path(
    frames: list[memoryview],
) -> None:
    world = with_producer()
    before = facts(world)

    assert together(world, *frames) is None

    assert facts(world) == before


def test_a_batch_after_a_refused_one_is_left_to_the_general_path() -> None:
    world = with_producer()
    world.ctx.storage.is_full = True
    general(world, numbered(1))
    world.ctx.storage.is_full = False

    assert together(world, numbered(1)) is None
    assert together(world, frame_of(batch_with(b"v"))) is not None, "it has no producer"


def test_a_batch_outside_of_its_producers_open_transaction_is_left_to_the_general_path() -> None:
    world = with_producer()
    producers = hosted_in(world).partition.producers
    producers.transactions.begin(ProducerId(6), 2, NOW_MS)
    assert together(world, numbered(1)) is not None

    producers.transactions.begin(ProducerId(5), 2, NOW_MS)
    assert together(world, numbered(2)) is None


@pytest.mark.parametrize("config", CONFIGS)
def test_every_topic_config_has_its_effect_on_requests_served_together(
    config: dict[str, str],
) -> None:
    ours, theirs = world_of(**config), world_of(**config)
    turns = [
        [batch_with(b"v")],
        [batch_with(b"v"), batch_with(b"w")],
        [batch_with(b"v" * 90), batch_with(b"w")],
        [batch_with(b"v", key=None)],
        [batch_with(b"v", timestamp_ms=NOW_MS - 70)],
    ]
    for turn in turns:
        answers = together(ours, *map(frame_of, turn))
        answers = answers or [general(ours, frame_of(batch)) for batch in turn]
        assert answers == [general(theirs, frame_of(batch)) for batch in turn]
    assert facts(ours) == facts(theirs)


def test_a_turn_is_one_write_and_wakes_waiting_fetches_once() -> None:
    world = world_of()
    general(world, frame_of(batch_with(b"first")))
    waiting = world.fetch(1, max_wait_ms=1000)
    writes: list[int] = []
    log: Any = hosted_in(world).log
    file = log._segments[-1].file()
    write = type(file).write_at_end

    class Counting(type(file)):  # type: ignore[misc]
        def write_at_end(self, buffers: Any) -> int:
            writes.append(len(buffers))
            return int(write(self, buffers))

    file.__class__ = Counting

    assert together(world, *[frame_of(batch_with(b"v")) for _ in range(5)]) is not None

    assert writes == [1]
    assert waiting.done
    assert hosted_in(world).partition.high_watermark == 6


PLAIN = frame_of(batch_with(b"v"), acks=-1)


def nothing(world: World) -> None:
    pass


def storage_is_full(world: World) -> None:
    world.ctx.storage.is_full = True


def batch_is_validated(world: World) -> None:
    world.ctx.clients.validations.partitions["orders", 0] = Any  # type: ignore[assignment]


def headers_only(world: World) -> None:
    hosted = hosted_in(world)
    log = replace(hosted.settings.log, validates_records=False)
    hosted.settings = replace(hosted.settings, log=log)


def log_has_failed(world: World) -> None:
    hosted_in(world).log._sync.failure = "sync failed"  # type: ignore[attr-defined]


def follows(world: World) -> None:
    entry = world.ctx.image.partition("orders", 0)
    assert entry is not None
    hosted_in(world).partition.follow(replace(entry, leader=2), 1)


def is_stranded(world: World) -> None:
    hosted_in(world).partition.is_stranded = True


@pytest.mark.parametrize(
    "change",
    [
        storage_is_full, batch_is_validated, headers_only, log_has_failed, follows, is_stranded,
    ],
)  # fmt: skip
def test_a_partition_that_does_not_take_every_batch_at_once_is_left_to_the_general_path(
    change: Any,
) -> None:
    world = world_of()
    general(world, frame_of(batch_with(b"first")))
    change(world)
    before = facts(world)

    assert together(world, PLAIN) is None

    assert facts(world) == before


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(batch_with(b"v"), topic="unknown"),
        frame_of(batch_with(b"v"), index=1),
        frame_of(batch_with(b"v"), topic="__consumer_offsets"),
        frame_of(batch_with(b"v"), version=13),
        frame_of(batch_with(b"v", timestamp_ms=NOW_MS + 3_600_001)),
    ],
)
def test_a_request_that_is_refused_is_left_to_the_general_path(frame: memoryview) -> None:
    world = world_of()
    general(world, frame_of(batch_with(b"first")))
    before = facts(world)

    assert together(world, frame) is None

    assert facts(world) == before


def test_access_control_and_quotas_close_the_plain_path() -> None:
    world = world_of()
    assert is_open(world.ctx)

    world.ctx.clients.authorizer = Any  # type: ignore[assignment]
    assert not is_open(world.ctx)

    world.ctx.clients.authorizer = None
    world.ctx.image = replace(world.ctx.image, quotas={("user", None): {"x": 1.0}})  # type: ignore[dict-item]
    assert not is_open(world.ctx)


def test_a_full_disk_leaves_the_log_as_it_was_and_the_general_path_reports_it() -> None:
    world = world_of()
    general(world, frame_of(batch_with(b"first")))
    used = sum(len(inode.data) for inode in world.files.names.values())
    before = facts(world)

    for room in (0, 1, 60, 100):
        world.files.space_bytes = used + room
        assert together(world, *[frame_of(batch_with(b"v" * 40)) for _ in range(3)]) is None
        assert facts(world) == before

    world.files.space_bytes = None
    assert together(world, frame_of(batch_with(b"v"))) is not None
    assert hosted_in(world).log.log_end_offset == 2


def test_nothing_is_committed_before_its_sync_where_the_topic_requires_one() -> None:
    jobs: list[Any] = []
    group = GroupSync(jobs.append, lambda *_: None)
    world = World(group=group)
    world.create(flush_messages="1")
    general(world, frame_of(batch_with(b"first")))

    assert together(world, PLAIN) is None, "acks=all waits for a sync"
    assert together(world, frame_of(batch_with(b"v"))) is not None

    assert hosted_in(world).partition.high_watermark == 0
    assert hosted_in(world).log.log_end_offset == 2


def test_what_was_appended_together_survives_a_crash_as_whole_batches() -> None:
    rng = Random(5)
    for _ in range(20):
        world = world_of()
        general(world, frame_of(batch_with(b"first")))
        assert together(world, *[frame_of(batch_with(b"v" * n)) for n in range(4)]) is not None
        world.files = world.files.power_loss(rng)

        again = world.restart()

        assert 0 <= hosted_in(again).log.log_end_offset <= 5

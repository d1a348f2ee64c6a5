"""Validation of produced batches, most of all where it takes long: order, answers, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.validation import produced_batch, queue
from josefine_broker.engine.validation.produced_batch import (
    LOOP_ROOM_BYTES,
    RECORD_ERRORS_MAX,
    RecordsRefusedError,
    loop_room,
    validate_batch,
)
from josefine_broker.engine.validation.stored_codec import validate_for_storage
from josefine_broker.records import body
from josefine_broker.records.batch import iter_batches, stamp_crc
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.codecs import Compression
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.josefine_broker.api.world import NOW_MS, World, batch_of, values_in

LARGE = LOOP_ROOM_BYTES + 1
ZSTD, LZ4 = 4, 3


class Thread:
    """Work that is done when the test says so, in any order."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[..., Any], Callable[..., None]]] = []
        self.is_full = False

    def __call__(self, job: Any, is_wanted: Any, done: Any) -> None:
        if self.is_full:
            raise KafkaError(ErrorCode.request_timed_out, "full")
        self.jobs.append((job, done))

    def finish(self, at: int = 0) -> None:
        job, done = self.jobs.pop(at)
        done(job(lambda: None))


@pytest.fixture
def thread(world: World) -> Thread:
    thread = Thread()
    world.ctx.ports.validation = thread
    return thread


def large(mark: bytes, **fields: int) -> bytes:
    """A batch that expands past what is opened on the loop."""
    return batch_of(mark + b"x" * LARGE, compression=ZSTD, **fields)


def unreadable() -> bytes:
    """The same, with a header that states one record more."""
    batch = bytearray(large(b"a"))
    batch[23:27], batch[57:61] = (1).to_bytes(4, "big"), (2).to_bytes(4, "big")
    stamp_crc(batch)
    return bytes(batch)


def send(world: World, batch: bytes, *, acks: int = -1) -> Any:
    part = ProducePartition(0, memoryview(bytearray(batch)))
    request = ProduceRequest(None, acks, 1000, (ProduceTopic("orders", None, (part,)),))
    return world.ask(0, request, version=12)


def answer_of(answer: Any) -> Any:
    response = answer.response if isinstance(answer, Parked) else answer
    return response.topics[0].partitions[0]


def marks(world: World) -> list[bytes]:
    return [bytes(value or b"")[:1] for value in values_in(world.fetch(0, max_bytes=1 << 30))]


def test_a_large_batch_is_validated_elsewhere_and_answered_when_it_is_stored(
    world: World, thread: Thread
) -> None:
    token = send(world, large(b"a"))

    assert isinstance(token, Parked)
    assert not token.done
    assert world.fetch(0).high_watermark == 0

    thread.finish()

    assert token.done
    assert answer_of(token).base_offset == 0
    assert world.fetch(0).high_watermark == 1


def test_a_batch_is_recompressed_elsewhere_unless_it_is_small_and_not_compressed(
    thread: Thread,
) -> None:
    settings = TopicSettings(log=LogConfig(compression=Compression.GZIP))
    wide = loop_room()

    def on_the_loop(batch: bytes) -> bool:
        view = memoryview(bytearray(batch))
        return validate_for_storage(settings, view, NOW_MS, room=wide, is_loop=True) is not None

    assert on_the_loop(batch_of(b"x" * 10_000))
    assert on_the_loop(batch_of(b"x" * 100_000, compression=Compression.GZIP))
    assert not on_the_loop(batch_of(b"x" * 20_000))
    assert not on_the_loop(batch_of(b"x", compression=LZ4))


def test_recompressed_batches_keep_their_order(thread: Thread, world: World) -> None:
    world.create("packed", compression_type="zstd")
    parts = [
        ProducePartition(0, memoryview(bytearray(batch)))
        for batch in (batch_of(b"a", compression=LZ4), batch_of(b"b"))
    ]
    tokens = [
        world.ask(
            0, ProduceRequest(None, -1, 1000, (ProduceTopic("packed", None, (part,)),)), version=12
        )
        for part in parts
    ]

    thread.finish(1)
    assert not tokens[1].done
    thread.finish()

    assert [answer_of(each).base_offset for each in tokens] == [0, 1]
    stored = b"".join(world.ctx.hosted.partitions["packed", 0].log.read(0, 1 << 20))
    assert [header.compression for _, header in iter_batches(stored)] == [ZSTD, ZSTD]


def test_batches_of_a_partition_are_appended_in_the_order_in_which_they_came(
    world: World, thread: Thread
) -> None:
    """Small ones, which alone would not wait, among them; and threads that end in any order."""
    tokens = [
        send(world, batch) for batch in (large(b"a"), batch_of(b"b"), large(b"c"), batch_of(b"d"))
    ]

    thread.finish(2)
    thread.finish(2)
    thread.finish(1)
    assert [token.done for token in tokens] == [False] * 4
    thread.finish()

    assert [answer_of(token).base_offset for token in tokens] == [0, 1, 2, 3]
    assert marks(world) == [b"a", b"b", b"c", b"d"]
    assert answer_of(send(world, batch_of(b"e"))).base_offset == 4
    assert len(world.ctx.clients.validations) == 0


def test_a_batch_that_is_let_in_by_an_append_queues_behind_those_that_wait(
    world: World, thread: Thread
) -> None:
    """An answer lets a connection's next request in."""
    first, second = send(world, large(b"a")), send(world, large(b"b"))
    later: list[Any] = []
    first.on_done = lambda _: later.append(send(world, batch_of(b"c")))

    thread.finish()
    world.answer()
    thread.finish()
    thread.finish()

    assert marks(world) == [b"a", b"b", b"c"]
    assert answer_of(second).base_offset == 1
    assert answer_of(later[0]).base_offset == 2


def test_one_partition_does_not_wait_for_another(world: World, thread: Thread) -> None:
    world.create("other")
    send(world, large(b"a"))

    assert world.produce(topic="other").error_code == 0


def test_an_idempotent_producers_batches_keep_their_order(world: World, thread: Thread) -> None:
    numbered = {"producer_id": 7, "producer_epoch": 0}
    tokens = [
        send(world, large(b"a", base_sequence=0, **numbered)),
        send(world, batch_of(b"b", base_sequence=1, **numbered)),
    ]

    thread.finish(1)
    thread.finish()

    assert [answer_of(token).error_code for token in tokens] == [0, 0]


def test_a_large_batch_that_cannot_be_read_is_refused(world: World, thread: Thread) -> None:
    token = send(world, unreadable())

    thread.finish()

    assert answer_of(token).error_code == ErrorCode.invalid_record
    assert "record 1 of 2" in answer_of(token).error_message
    assert answer_of(send(world, batch_of(b"b"))).base_offset == 0


def test_a_refused_batch_without_acks_ends_its_connection(world: World, thread: Thread) -> None:
    refused, stored = send(world, unreadable(), acks=0), send(world, large(b"b"), acks=0)

    thread.finish()
    thread.finish()

    assert isinstance(refused.response, Hangup)
    assert stored.response is None
    assert marks(world) == [b"b"]


def test_a_client_that_is_gone_has_its_batch_stored_all_the_same(
    world: World, thread: Thread
) -> None:
    token = send(world, large(b"a"))
    world.ctx.parked.cancel(token)

    thread.finish()

    assert marks(world) == [b"a"]


def test_a_partition_that_goes_meanwhile_refuses_its_batch(world: World, thread: Thread) -> None:
    token = send(world, large(b"a"))
    world.delete("orders")

    thread.finish()

    assert answer_of(token).error_code == ErrorCode.not_leader_or_follower


def test_where_too_much_waits_a_batch_is_validated_at_once(
    world: World, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread.is_full = True
    assert answer_of(send(world, large(b"a"))).base_offset == 0
    thread.is_full = False
    monkeypatch.setattr(queue, "QUEUED_BYTES_MAX", 10)

    assert answer_of(send(world, large(b"b"))).base_offset == 1
    assert thread.jobs == []


def test_a_broker_that_stops_answers_what_it_did_not_validate(world: World, thread: Thread) -> None:
    token = send(world, large(b"a"))
    _, done = thread.jobs.pop()

    done(None)

    assert answer_of(token).error_code == ErrorCode.request_timed_out
    assert marks(world) == []


def test_headers_alone_are_checked_where_the_broker_is_told_so() -> None:
    defaults = TopicSettings(log=LogConfig(validates_records=False))
    world = World(BrokerSettings(auto_create_topics=False, topic_defaults=defaults))
    world.create()
    batch = bytearray(batch_of(b"value"))
    batch[61] = 9
    stamp_crc(batch)

    assert world.produce(bytes(batch)).error_code == 0
    batch[-1] ^= 1
    assert world.produce(bytes(batch)).error_code == ErrorCode.corrupt_message


def test_records_that_expand_too_far_are_refused_as_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java's producer splits its batch on that answer."""
    monkeypatch.setattr(body, "PRODUCED_BYTES_MAX", 1 << 20)
    batch = memoryview(bytearray(batch_of(b"x" * (1 << 20), compression=ZSTD)))

    with pytest.raises(KafkaError, match="expand to more than") as caught:
        validate_batch(TopicSettings(), batch, NOW_MS)

    assert caught.value.code == ErrorCode.message_too_large
    assert len(batch) < 1000


@pytest.mark.parametrize("codec", range(1, 5))
def test_what_is_opened_on_the_loop_is_bounded(codec: int) -> None:
    small = memoryview(bytearray(batch_of(b"x" * 1000, compression=codec)))
    large = memoryview(bytearray(batch_of(b"x" * LARGE, compression=codec)))

    assert (
        validate_batch(TopicSettings(), small, NOW_MS, room=loop_room(), is_loop=True) is not None
    )
    assert validate_batch(TopicSettings(), large, NOW_MS, room=loop_room(), is_loop=True) is None
    assert validate_batch(TopicSettings(), large, NOW_MS) is not None
    assert validate_batch(TopicSettings(), large, NOW_MS, room=loop_room()) is not None


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    """Java's client does not read them."""
    batch = bytearray(batch_of(b"x" * 10, compression=LZ4))
    batch[61 + 4] &= ~0x20
    stamp_crc(batch)

    with pytest.raises(KafkaError, match="depend on each other"):
        validate_batch(TopicSettings(), memoryview(batch), NOW_MS)


def test_the_largest_timestamp_is_that_of_the_records() -> None:
    """As Kafka puts it right: lookups by timestamp go by it."""
    batch = bytearray(batch_of(b"a"))
    batch[35:43] = (NOW_MS + 5).to_bytes(8, "big")
    stamp_crc(batch)

    validated = validate_batch(TopicSettings(), memoryview(batch), NOW_MS)

    assert validated is not None
    assert validated.header.max_timestamp_ms == NOW_MS
    assert validate_batch(TopicSettings(), memoryview(batch), NOW_MS) == validated


def test_the_records_that_a_refusal_names_are_bounded() -> None:
    settings = TopicSettings(log=LogConfig(cleanup_policy=frozenset({"compact"})))
    keyless = build_batch([Record(None, b"", (), NOW_MS)] * (RECORD_ERRORS_MAX + 5))

    with pytest.raises(RecordsRefusedError) as caught:
        validate_batch(settings, memoryview(keyless), NOW_MS)

    assert len(caught.value.faults) == RECORD_ERRORS_MAX


def test_an_uncompressed_batch_takes_long_only_without_the_compiled_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = memoryview(bytearray(batch_of(*[b"x" * 100] * 500)))
    room = loop_room()

    assert validate_batch(TopicSettings(), batch, NOW_MS, room=room, is_loop=True) is not None
    monkeypatch.setattr(produced_batch, "is_compiled", False)
    assert validate_batch(TopicSettings(), batch, NOW_MS, room=room, is_loop=True) is None

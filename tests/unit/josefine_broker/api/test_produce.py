"""Produce: what is stored, what is refused, what is answered."""

from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.records.batch import parse_header, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.josefine_broker.api.world import ELSEWHERE, NOW_MS, World, batch_of, values_in


def idempotent(sequence: int, *values: bytes, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch_of(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_produced_records_are_fetched_in_order(world: World) -> None:
    """Checklist row 22."""
    first = world.produce(batch_of(b"a", b"b"))
    second = world.produce(batch_of(b"c"))

    assert (first.base_offset, second.base_offset) == (0, 2)
    assert values_in(world.fetch(0)) == [b"a", b"b", b"c"]
    assert values_in(world.fetch(2)) == [b"c"]


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_batch_is_stored_as_the_producer_compressed_it(world: World, codec: int) -> None:
    """Checklist row 22."""
    sent = batch_of(b"x" * 500, compression=codec)

    world.produce(sent)

    stored = b"".join(world.fetch(0).records)
    assert stored[21:] == sent[21:]
    assert values_in(world.fetch(0)) == [b"x" * 500]


def test_every_acks_stores_and_only_zero_has_no_answer(world: World) -> None:
    records = memoryview(bytearray(batch_of(b"v")))
    parts = (ProducePartition(0, records),)

    silent = world.ask(0, ProduceRequest(None, 0, 1000, (ProduceTopic("orders", None, parts),)))

    assert silent is None
    assert world.produce(acks=1).base_offset == 1
    assert world.produce(acks=-1).base_offset == 2


def test_acks_other_than_minus_one_zero_one_is_refused(world: World) -> None:
    assert world.produce(acks=2).error_code == ErrorCode.invalid_required_acks


def test_flipped_bit_is_refused_and_nothing_is_stored(world: World) -> None:
    """Checklist rows 22 and 29."""
    batch = bytearray(batch_of(b"value"))
    batch[-3] ^= 1

    answer = world.produce(bytes(batch))

    assert answer.error_code == ErrorCode.corrupt_message
    assert values_in(world.fetch(0)) == []


@pytest.mark.parametrize("size", [0, 1, 60, 61, 70])
def test_cut_batch_is_refused(world: World, size: int) -> None:
    answer = world.produce(batch_of(b"value" * 10)[:size])

    assert answer.error_code in (ErrorCode.corrupt_message, ErrorCode.invalid_record)


def test_two_batches_for_one_partition_are_refused(world: World) -> None:
    answer = world.produce(batch_of(b"a") + batch_of(b"b"))

    assert answer.error_code == ErrorCode.invalid_record
    assert values_in(world.fetch(0)) == []


def test_control_batch_of_a_client_is_refused(world: World) -> None:
    batch = bytes(build_batch([Record(b"k", b"v")], control=True))

    assert world.produce(batch).error_code == ErrorCode.invalid_record


def test_transactional_batch_of_a_producer_without_transactions_is_refused(world: World) -> None:
    batch = bytes(
        build_batch(
            [Record(b"k", b"v")],
            transactional=True,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
        )
    )

    assert world.produce(batch).error_code == ErrorCode.invalid_txn_state


def test_batch_above_max_message_bytes_is_refused() -> None:
    world = World()
    world.create(max_message_bytes="100")

    assert world.produce(batch_of(b"x" * 100)).error_code == ErrorCode.message_too_large
    assert world.produce(batch_of(b"x")).error_code == 0


def test_batch_of_exactly_max_message_bytes_is_stored() -> None:
    batch = batch_of(b"x" * 100)
    world = World()
    world.create(max_message_bytes=str(len(batch)))

    assert world.produce(batch).error_code == ErrorCode.none
    assert world.produce(batch_of(b"x" * 101)).error_code == ErrorCode.message_too_large


def test_refusal_that_another_leader_does_not_explain_names_none(world: World) -> None:
    """KIP-951: a client that is told of a leader goes there with the same batch."""
    refused = world.produce(batch_of(b"x") + b"more")

    assert refused.error_code == ErrorCode.invalid_record
    assert (refused.leader_id, refused.leader_epoch) == (-1, -1)


def test_batch_behind_one_that_a_full_disk_refused_waits_for_it(world: World) -> None:
    """No gap of the producer's: the first will come again."""
    world.ctx.storage.is_full = True
    assert world.produce(idempotent(0, b"a")).error_code == ErrorCode.kafka_storage_error
    world.ctx.storage.is_full = False

    assert world.produce(idempotent(1, b"b")).error_code == ErrorCode.kafka_storage_error
    assert world.produce(idempotent(0, b"a")).error_code == ErrorCode.none
    assert world.produce(idempotent(1, b"b")).error_code == ErrorCode.none


def test_record_without_a_timestamp_is_not_behind_the_clock() -> None:
    """-1 is no time of 1969."""
    world = World()
    world.create(message_timestamp_before_max_ms="1000")

    answer = world.produce(batch_of(b"a", timestamp_ms=-1))

    assert answer.error_code == ErrorCode.none


def test_unknown_topic_partition_and_id_have_their_own_errors(world: World) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    assert world.produce(topic="nope").error_code == unknown
    assert world.produce(partition=1).error_code == unknown
    by_id = world.produce(topic="", topic_id=UUID(int=5), version=13)
    assert by_id.error_code == ErrorCode.unknown_topic_id


def test_topic_is_found_by_id(world: World) -> None:
    topic_id = world.ctx.image.topics["orders"].topic_id

    answer = world.produce(topic="", topic_id=topic_id, version=13)

    assert (answer.error_code, answer.base_offset) == (0, 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_from_before_record_batches_are_refused(world: World, magic: int) -> None:
    """Produce 0 to 2 are listed for old librdkafka's sake (KAFKA-18659); their formats are not
    stored (KIP-724)."""
    message_set = bytearray(batch_of(b"x" * 100))
    message_set[16] = magic

    for version in (0, 1, 2, 3):
        result = world.produce(bytes(message_set), version=version)
        assert result.error_code == ErrorCode.unsupported_for_message_format


def test_zstd_needs_version_seven(world: World) -> None:
    zstd = batch_of(b"x" * 100, compression=4)

    assert world.produce(zstd, version=6).error_code == ErrorCode.unsupported_compression_type
    assert world.produce(zstd, version=7).error_code == 0


def test_acks_all_needs_no_more_replicas_in_sync_than_there_are() -> None:
    """As in Kafka: a topic of one copy is served by a cluster whose default is two in sync."""
    world = World()
    world.create(min_insync_replicas="2")

    assert world.produce(acks=-1).error_code == 0
    assert world.produce(acks=1).error_code == 0


def test_log_append_time_stamps_batch_and_answer() -> None:
    world = World()
    world.create(message_timestamp_type="LogAppendTime")
    world.advance(5)

    answer = world.produce(batch_of(b"v", timestamp_ms=1))

    stored = b"".join(world.fetch(0).records)
    header = parse_header(stored)
    verify(stored, 0, header)
    assert answer.log_append_time_ms == NOW_MS + 5
    assert (header.timestamp_type, header.max_timestamp_ms) == (1, NOW_MS + 5)


def test_create_time_answers_no_append_time(world: World) -> None:
    assert world.produce().log_append_time_ms == -1


def test_timestamp_an_hour_ahead_is_refused(world: World) -> None:
    """KIP-937's default."""
    ahead = batch_of(b"v", timestamp_ms=NOW_MS + 3_600_001)

    assert world.produce(ahead).error_code == ErrorCode.invalid_timestamp
    assert world.produce(batch_of(b"v", timestamp_ms=NOW_MS + 3_600_000)).error_code == 0
    assert world.produce(batch_of(b"v", timestamp_ms=0)).error_code == 0


def test_timestamp_too_far_behind_is_refused_when_configured() -> None:
    world = World()
    world.create(message_timestamp_before_max_ms="1000")

    old = world.produce(batch_of(b"v", timestamp_ms=NOW_MS - 1001))

    assert old.error_code == ErrorCode.invalid_timestamp


def test_retried_batch_is_answered_with_its_offset_and_not_stored(world: World) -> None:
    """Checklist row 24."""
    world.produce(batch_of(b"before"))
    first = world.produce(idempotent(0, b"a", b"b"))
    world.produce(idempotent(2, b"c"))

    again = world.produce(idempotent(0, b"a", b"b"))

    assert again.base_offset == first.base_offset == 1
    assert again.error_code == 0
    assert values_in(world.fetch(0)) == [b"before", b"a", b"b", b"c"]
    assert world.ctx.counters.duplicate_batches == 1


def test_retry_is_recognized_after_a_restart(world: World) -> None:
    """Checklist row 24."""
    for clean in (False, True):
        world = world.restart(clean=clean)
        first = world.produce(idempotent(0, b"a", producer_id=100 + clean))
        world = world.restart(clean=clean)

        again = world.produce(idempotent(0, b"a", producer_id=100 + clean))

        assert again.base_offset == first.base_offset


def test_sequence_gap_is_out_of_order(world: World) -> None:
    """Checklist row 24."""
    world.produce(idempotent(0, b"a"))

    answer = world.produce(idempotent(2, b"c"))

    assert answer.error_code == ErrorCode.out_of_order_sequence_number


def test_refused_write_leaves_the_partition_as_it_was(world: World) -> None:
    world.produce(idempotent(0, b"a"))
    world.files.space_bytes = sum(len(i.data) for i in world.files.names.values()) + 10

    failed = world.produce(idempotent(1, b"b"))
    world.files.space_bytes = None
    behind = world.produce(idempotent(2, b"c"))
    again = world.produce(idempotent(1, b"b"))

    assert failed.error_code == ErrorCode.kafka_storage_error
    assert behind.error_code == ErrorCode.kafka_storage_error, "no gap: the first comes again"
    assert (again.error_code, again.base_offset) == (0, 1)
    assert values_in(world.fetch(0)) == [b"a", b"b"]


def test_batch_is_stamped_with_its_offset_and_the_leader_epoch(world: World) -> None:
    """KIP-101: both lie outside the CRC."""
    world.produce(batch_of(b"a", b"b"))
    entry = replace(world.ctx.image.topics["orders"].partitions[0], leader_epoch=5)
    world.ctx.hosted.partitions["orders", 0].partition.lead(entry, 2, 0)

    world.produce(batch_of(b"c"))

    stored = b"".join(world.fetch(2).records)
    header = parse_header(stored)
    verify(stored, 0, header)
    assert (header.base_offset, header.leader_epoch) == (2, 5)


def test_offsets_go_on_after_a_restart(world: World) -> None:
    """Checklist row 33."""
    world.produce(batch_of(b"a", b"b"))

    world = world.restart()

    assert world.produce().base_offset == 2


def test_partitions_of_one_request_fail_alone(world: World) -> None:
    good = ProducePartition(0, memoryview(bytearray(batch_of(b"v"))))
    bad = ProducePartition(9, memoryview(bytearray(batch_of(b"v"))))
    request = ProduceRequest(None, -1, 1000, (ProduceTopic("orders", None, (bad, good)),))

    answers = world.ask(0, request).topics[0].partitions

    assert [each.index for each in answers] == [9, 0]
    assert [each.error_code for each in answers] == [ErrorCode.unknown_topic_or_partition, 0]


def test_topic_with_a_second_broker_only_is_not_led_here() -> None:
    world = World(BrokerSettings(auto_create_topics=False), brokers=2)
    change = CreateTopic(name="away", topic_id=UUID(int=9), replicas=((2,),))
    world.raft.propose(encode_change(change, ELSEWHERE), 0)

    assert world.produce(topic="away").error_code == ErrorCode.not_leader_or_follower


def test_missing_records_are_refused(world: World) -> None:
    parts = (ProducePartition(0, None),)
    topics = (ProduceTopic("orders", None, parts),)

    empty = world.ask(0, ProduceRequest(None, -1, 1000, topics)).topics[0].partitions[0]

    assert empty.error_code == ErrorCode.invalid_record


@pytest.mark.parametrize("is_by_id", [False, True])
def test_batch_behind_one_that_came_before_its_topic_waits_for_it(is_by_id: bool) -> None:
    """The client heard of the topic from another broker; taken as its producer's beginning, the
    second would shut the first out."""
    world = World()
    topic_id = UUID(int=9)

    def told(sequence: int) -> int:
        found = world.produce(
            idempotent(sequence, b"v"),
            topic="new",
            topic_id=topic_id if is_by_id else None,
            version=13 if is_by_id else 12,
        )
        return found.error_code

    assert told(0) in (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition)
    world.propose(CreateTopic(name="new", topic_id=topic_id, replicas=((1,),)))

    assert told(1) == ErrorCode.not_leader_or_follower
    assert [told(0), told(1)] == [ErrorCode.none] * 2

"""The accumulator: order, sequences, sealing, and the end after an error."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.partitioner import murmur2, partition_for_key
from josefine_broker.client.producing import SEQUENCE_MASK, Accumulator
from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import RECORD_OVERHEAD_BYTES_MAX, RecordBatchBuilder
from josefine_broker.records.reader import read_records

T0, T1 = (TopicPartition("t", p) for p in range(2))
IDENTITY = ProducerIdentity(77, 3)


def accumulator(batch_bytes_max: int = 1_000, identity: ProducerIdentity | None = IDENTITY):  # type: ignore[no-untyped-def]
    return Accumulator(identity, Random(1), batch_bytes_max=batch_bytes_max)


def drain(acc: Accumulator) -> dict[TopicPartition, list[bytearray]]:
    """All batches, in the order taken; each settled at once."""
    acc.seal_all()
    batches: dict[TopicPartition, list[bytearray]] = {}
    while acc.has_sealed:
        for tp, data in acc.take().items():
            batches.setdefault(tp, []).append(data)
            acc.settle(tp, 0, None)
    return batches


@given(
    records=st.lists(
        st.tuples(
            st.sampled_from([T0, T1]),
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=400),
        ),
        max_size=60,
    )
)
def test_records_come_out_in_order_with_unbroken_sequences(
    records: list[tuple[TopicPartition, bytes | None, bytes | None]],
) -> None:
    acc = accumulator(batch_bytes_max=500)
    for tp, key, value in records:
        acc.append(tp, key, value, (), 5)

    batches = drain(acc)

    for tp in (T0, T1):
        mine = batches.get(tp, [])
        read = [(r.key, r.value) for data in mine for r in read_records(data)]
        assert read == [(key, value) for where, key, value in records if where == tp]
        sequence = 0
        for data in mine:
            header = parse_header(data)
            assert (header.producer_id, header.producer_epoch) == (77, 3)
            assert header.base_sequence == sequence
            sequence += header.record_count
            assert len(data) <= 500 or header.record_count == 1
    assert acc.buffered_bytes == 0


def test_without_an_identity_batches_carry_no_sequence() -> None:
    acc = accumulator(identity=None)
    acc.append(T0, None, b"v", (), 5)

    (data,) = drain(acc)[T0]

    assert parse_header(data).producer_id == -1
    assert parse_header(data).base_sequence == -1


def test_sequences_wrap_to_zero_behind_the_largest() -> None:
    acc = accumulator()
    acc._sequences[T0] = SEQUENCE_MASK
    acc.append(T0, None, b"a", (), 5)
    acc.append(T0, None, b"b", (), 5)
    acc.seal_all()
    acc.append(T0, None, b"c", (), 5)

    first, second = (parse_header(data) for data in drain(acc)[T0])

    assert (first.base_sequence, first.last_sequence) == (SEQUENCE_MASK, 0)
    assert second.base_sequence == 1


def test_only_one_batch_of_a_partition_is_under_way() -> None:
    acc = accumulator()
    for _ in range(2):
        acc.append(T0, None, b"x" * 900, (), 5)
    acc.seal_all()

    acc.take()

    with pytest.raises(AssertionError, match="not settled"):
        acc.take()


def test_a_failed_batch_ends_the_producer() -> None:
    acc = accumulator()
    acc.append(T0, None, b"v", (), 5)
    acc.seal_all()
    acc.take()
    acc.settle(T0, -1, KafkaError(ErrorCode.message_too_large, "too large"))

    frames = set[int]()
    for _ in range(3):
        with pytest.raises(KafkaError, match="too large") as caught:
            acc.append(T1, None, b"v", (), 5)
        # Else each record of a program that continues would stay in memory.
        frames.add(len(caught.traceback))
    assert frames == {2}
    with pytest.raises(KafkaError, match="too large") as caught:
        acc.raise_error()
    assert len(caught.traceback) == 2


def test_the_first_error_is_the_one_that_is_told() -> None:
    """What fails after it may only be its consequence."""
    acc = accumulator()
    for tp in (T0, T1):
        acc.append(tp, None, b"v", (), 5)
    acc.seal_all()
    acc.take()

    acc.settle(T0, -1, KafkaError(ErrorCode.message_too_large, "too large"))
    acc.settle(T1, -1, KafkaError(ErrorCode.out_of_order_sequence_number, "a gap"))

    with pytest.raises(KafkaError, match="too large"):
        acc.raise_error()


def test_an_offset_that_the_broker_did_not_tell_is_not_taken_for_the_first_one() -> None:
    """A batch that was there already has none (DUPLICATE_SEQUENCE_NUMBER)."""
    acc = accumulator()
    for base_offset in (-1, 103):
        for _ in range(3):
            acc.append(T0, None, b"v", (), 5)
        acc.seal_all()
        acc.take()
        acc.settle(T0, base_offset, None)

    done = acc.delivered[T0]

    assert (done.record_count, done.first_offset, done.last_offset) == (6, 103, 105)


@pytest.mark.parametrize(("spare_bytes", "batches"), [(0, 1), (-1, 2)])
def test_a_record_that_fits_to_the_byte_is_in_the_batch(spare_bytes: int, batches: int) -> None:
    first = RecordBatchBuilder()
    first.append(None, b"x" * 300, (), 5)
    value_bytes = 200
    room = first.size_bytes + RECORD_OVERHEAD_BYTES_MAX + value_bytes
    acc = accumulator(batch_bytes_max=room + spare_bytes)

    acc.append(T0, None, b"x" * 300, (), 5)
    acc.append(T0, None, b"y" * value_bytes, (), 5)

    assert len(drain(acc)[T0]) == batches


def test_what_was_delivered_is_counted_with_its_offsets() -> None:
    acc = accumulator()
    for base_offset in (100, 103):
        for _ in range(3):
            acc.append(T0, None, b"v", (), 5)
        acc.seal_all()
        acc.take()
        acc.settle(T0, base_offset, None)

    done = acc.delivered[T0]

    assert (done.record_count, done.first_offset, done.last_offset) == (6, 100, 105)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_java_client(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected % 2**32


@given(st.binary(max_size=64))
def test_murmur2_is_that_of_kafka_python(data: bytes) -> None:
    assert murmur2(data) == murmur2_of_kafka_python(data) % 2**32


def test_a_key_goes_to_its_own_partition_and_keyless_records_fill_one_batch_at_a_time() -> None:
    acc = accumulator()
    by_key = {acc.choose_partition("t", b"foobar", 12) for _ in range(5)}
    first = acc.choose_partition("t", None, 12)
    acc.append(TopicPartition("t", first), None, b"v", (), 5)

    assert by_key == {partition_for_key(b"foobar", 12)}
    assert acc.choose_partition("t", None, 12) == first
    chosen = set()
    for _ in range(20):
        drain(acc)
        chosen.add(acc.choose_partition("t", None, 12))
        acc.append(TopicPartition("t", max(chosen)), None, b"v", (), 5)
    assert len(chosen) > 1


def test_a_batch_is_sealed_before_the_record_that_would_not_fit() -> None:
    acc = accumulator(batch_bytes_max=1_000)
    for _ in range(10):
        acc.append(T0, None, b"x" * 300, (), 5)

    batches = drain(acc)[T0]

    assert all(len(data) <= 1_000 for data in batches)
    assert len(batches) == 5

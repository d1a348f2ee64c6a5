"""What a follower makes of answers that an honest leader gives seldom, or never."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.ids import ProducerId
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER_BYTES,
    iter_batches,
    stamp_crc,
)
from josefine_broker.wire.entities import delete_records as e
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.plain_frames import batch_with

DELETE_RECORDS = 21
LEADER_EPOCH_AT = 12


@pytest.fixture
def two_replicas() -> Replicas:
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    return cluster


def test_a_batch_of_an_older_epoch_behind_a_newer_one_is_not_written(
    two_replicas: Replicas,
) -> None:
    """The epoch lies outside the checksum; a log in which epochs fall can be compared with none."""
    two_replicas.lead(1)
    two_replicas.run()
    two_replicas.produce(1, b"of epoch 1")
    two_replicas.run()
    two_replicas.produce(1, b"sent as of epoch 0")
    (waiting,) = two_replicas.waiting
    response: Any = waiting.answer.response
    topic = response.topics[0]
    part = topic.partitions[0]
    older = bytearray(b"".join(bytes(each) for each in part.records))
    older[LEADER_EPOCH_AT : LEADER_EPOCH_AT + 4] = bytes(4)
    topic = topic._replace(partitions=[part._replace(records=(older,))])
    two_replicas.waiting = [waiting._replace(answer=response._replace(topics=[topic]))]

    two_replicas.run()
    assert [epoch for _, epoch, _ in two_replicas.records(2)] == [1]
    assert two_replicas.ctx[2].hosted.counters.replication_errors == 1
    two_replicas.advance(FetchLimits().backoff_ms)
    two_replicas.run()

    assert two_replicas.records(2) == two_replicas.records(1)


@pytest.mark.parametrize("end_offset", [-1, -(2**63)])
def test_a_leader_that_says_nonsense_about_its_end_is_not_followed(
    two_replicas: Replicas, end_offset: int
) -> None:
    """An empty follower began anew at a negative offset."""
    two_replicas.produce(1, b"a")
    (waiting,) = two_replicas.waiting
    response: Any = waiting.answer.response
    topic = response.topics[0]
    part = topic.partitions[0]._replace(records=(), diverging=(-1, end_offset))
    topic = topic._replace(partitions=[part])
    two_replicas.waiting = [waiting._replace(answer=response._replace(topics=[topic]))]

    two_replicas.run()
    assert two_replicas.log_end(2) == 0
    assert two_replicas.ctx[2].hosted.counters.replication_errors == 1
    two_replicas.advance(FetchLimits().backoff_ms)
    two_replicas.run()

    assert two_replicas.records(2) == two_replicas.records(1)


def test_a_follower_that_is_cut_below_the_leaders_start_begins_anew_there(
    two_replicas: Replicas,
) -> None:
    """Their common epoch ended here before the place at which the leader's log begins by now."""
    two_replicas.produce(1, b"both have it")
    two_replicas.run()
    two_replicas.kill(2)
    for _ in range(3):
        two_replicas.produce(1, b"of epoch 0", acks=1)
    two_replicas.kill(1, fenced=False)
    two_replicas.start(2)
    two_replicas.lead(2, isr=(2,))  # unclean
    for _ in range(7):
        two_replicas.produce(2, b"of epoch 1", acks=1)
    two_replicas.kill(2)
    two_replicas.start(1)
    two_replicas.lead(1, isr=(1,))  # unclean
    two_replicas.produce(1, b"of epoch 2", acks=1)
    part = e.DeleteRecordsPartition(partition_index=0, offset=3)
    topic = e.DeleteRecordsTopic(name="orders", partitions=(part,))
    two_replicas.ask(1, DELETE_RECORDS, e.DeleteRecordsRequest(topics=(topic,), timeout_ms=0))
    assert two_replicas.hosted(1).log.log_start_offset == 3

    two_replicas.start(2)
    two_replicas.run()

    assert two_replicas.records(2) == two_replicas.records(1)
    assert two_replicas.hosted(2).log.log_start_offset == 3


def test_high_watermark_of_a_log_that_begins_within_a_batch_is_not_past_its_end(
    two_replicas: Replicas,
) -> None:
    """The leader's log starts within the batch, which a full disk then refuses (life 80477): as a
    leader this replica would have called its next record committed at once."""
    two_replicas.produce(1, b"both have it")
    two_replicas.run()
    two_replicas.kill(2)
    two_replicas.lead(1, isr=(1,))
    two_replicas.produce(1, b"1", b"2", b"3", acks=1)
    part = e.DeleteRecordsPartition(partition_index=0, offset=3)
    topic = e.DeleteRecordsTopic(name="orders", partitions=(part,))
    two_replicas.ask(1, DELETE_RECORDS, e.DeleteRecordsRequest(topics=(topic,), timeout_ms=0))
    two_replicas.start(2)
    files = two_replicas.files[2]
    files.full_errno, files.full_at = errno.ENOSPC, files.growths

    for _ in range(10):
        two_replicas.run()
        two_replicas.advance(100)
    assert two_replicas.log_end(2) == 1
    assert two_replicas.high_watermark(2) == 1
    files.full_at = None
    for _ in range(10):
        two_replicas.run()
        two_replicas.advance(100)

    assert two_replicas.records(2) == two_replicas.records(1)
    assert two_replicas.high_watermark(2) == 4


def test_a_replica_in_sync_is_not_throttled() -> None:
    """The throttle is for those that catch up; one in sync holds the producers up."""
    limits = FetchLimits(throttle_bytes_per_second=100, partition_bytes_max=500)
    cluster = Replicas(2, limits=limits)
    cluster.create(replicas=((1, 2),))
    cluster.run()

    for _ in range(10):
        cluster.produce(1, b"x" * 300)
        cluster.run()

    assert cluster.high_watermark(1) == 10


def an_answer_with_batches(cluster: Replicas, count: int) -> tuple[Any, bytearray]:
    """The follower's waiting answer that has `count` batches, and their bytes, which a test may
    change before it delivers the answer with `changed`."""
    cluster.produce(1, b"first", acks=1)
    for number in range(count):
        cluster.produce(1, b"%d" % number, acks=1)
    cluster.receive(cluster.waiting[0])
    assert cluster.send(2, 1)
    (waiting,) = cluster.waiting
    answer = waiting.answer
    response = answer.response if isinstance(answer, Parked) else answer
    records = response.topics[0].partitions[0].records
    return waiting, bytearray(b"".join(bytes(each) for each in records))


def deliver(cluster: Replicas, waiting: Any, records: bytes | bytearray) -> None:
    answer = waiting.answer
    response = answer.response if isinstance(answer, Parked) else answer
    topic = response.topics[0]
    part = topic.partitions[0]._replace(records=(bytearray(records),))
    cluster.waiting = [
        waiting._replace(answer=response._replace(topics=[topic._replace(partitions=[part])]))
    ]
    cluster.receive(cluster.waiting[0])


def test_the_batches_of_an_answer_are_stored_by_one_write(two_replicas: Replicas) -> None:
    waiting, records = an_answer_with_batches(two_replicas, 4)
    writes: list[int] = []
    log: Any = two_replicas.hosted(2).log
    file = log._segments[-1].file()
    write = type(file).write_at_end

    class Counting(type(file)):  # type: ignore[misc]
        def write_at_end(self, buffers: Any) -> int:
            writes.append(len(buffers))
            return int(write(self, buffers))

    file.__class__ = Counting

    deliver(two_replicas, waiting, records)

    assert writes == [1]
    assert two_replicas.log_end(2) == 5
    assert two_replicas.hosted(2).partition.appended_bytes == log.size_bytes
    assert two_replicas.ctx[2].hosted.counters.replicated_batches == 5
    two_replicas.run()
    assert two_replicas.records(2) == two_replicas.records(1)


def test_of_an_answer_with_a_damaged_batch_those_before_it_are_stored() -> None:
    size = 0
    for at in range(0, 1_000, 7):
        cluster = Replicas(2)
        cluster.create(replicas=((1, 2),))
        cluster.run()
        waiting, records = an_answer_with_batches(cluster, 4)
        size = len(records) // 4
        if at >= len(records):
            break
        if LEADER_EPOCH_AT <= at % size < LEADER_EPOCH_AT + 4:
            continue  # outside of the checksum: a newer epoch is as good as the leader's word
        records[at] ^= 0x55

        deliver(cluster, waiting, records)

        # A changed length ends the answer early, as a limit of its size would.
        assert cluster.records(2) == cluster.records(1)[: 1 + at // size], at
        cluster.advance(FetchLimits().backoff_ms)
        cluster.run()
        assert cluster.records(2) == cluster.records(1)
    assert at >= 4 * size


def test_an_answer_that_ends_within_a_batch_is_stored_up_to_it(two_replicas: Replicas) -> None:
    waiting, records = an_answer_with_batches(two_replicas, 4)

    deliver(two_replicas, waiting, records[:-1])

    assert two_replicas.log_end(2) == 4
    two_replicas.run()
    assert two_replicas.records(2) == two_replicas.records(1)


def test_copies_of_idempotent_producers_are_remembered(two_replicas: Replicas) -> None:
    two_replicas.produce(1, b"first", acks=1)
    for sequence in range(3):
        batch = batch_with(b"v", producer=(5, 0, sequence))
        two_replicas.produce(1, acks=1, batch=batch)
    two_replicas.run()

    ours, leaders = (two_replicas.hosted(each).partition.producers for each in (2, 1))
    assert ours.snapshot() == leaders.snapshot()
    assert ours.entry(ProducerId(5)) is not None


def copied_in_one_answer(cluster: Replicas, change: Callable[[bytearray], None]) -> None:
    """The follower gets all that it lacks in one answer, changed on the way."""
    leader_log = cluster.hosted(1).log
    whole = leader_log.read(cluster.log_end(2), 10**6, end_offset=leader_log.log_end_offset)
    (waiting,) = cluster.waiting
    response: Any = waiting.answer.response
    topic = response.topics[0]
    part = topic.partitions[0]
    data = bytearray(b"".join(bytes(each) for each in whole))
    change(data)
    topic = topic._replace(partitions=[part._replace(records=(memoryview(data),))])
    cluster.waiting = [waiting._replace(answer=response._replace(topics=[topic]))]
    assert cluster.receive(cluster.waiting[0])


def batch_at(data: bytearray, number: int) -> int:
    """Where that batch of an answer starts."""
    return [pos for pos, _ in iter_batches(data)][number]


def produce_several(cluster: Replicas, count: int) -> None:
    """Records that the leader has alone, after one that both have."""
    cluster.produce(1, b"first")
    cluster.run()
    for number in range(count):
        cluster.produce(1, b"value %d" % number)


def test_batches_of_one_answer_are_written_and_acknowledged_together(
    two_replicas: Replicas,
) -> None:
    produce_several(two_replicas, 6)

    files = two_replicas.hosted(2).log._files  # type: ignore[attr-defined]
    writes = files.growths

    copied_in_one_answer(two_replicas, lambda _: None)

    assert files.growths == writes + 1
    assert two_replicas.records(2) == two_replicas.records(1)
    counters = two_replicas.ctx[2].hosted.counters
    assert counters.replicated_batches == 7
    assert counters.replicated_bytes == two_replicas.hosted(1).log.size_bytes
    two_replicas.run()
    assert two_replicas.high_watermark(1) == 7


@pytest.mark.parametrize("damaged", range(6))
def test_answer_is_written_up_to_its_damaged_batch(two_replicas: Replicas, damaged: int) -> None:
    produce_several(two_replicas, 6)

    def flip(data: bytearray) -> None:
        data[batch_at(data, damaged) + HEADER_BYTES + 3] ^= 1

    copied_in_one_answer(two_replicas, flip)

    assert two_replicas.log_end(2) == 1 + damaged
    assert two_replicas.ctx[2].hosted.counters.replication_errors == 1
    two_replicas.advance(FetchLimits().backoff_ms)
    two_replicas.run()
    assert two_replicas.records(2) == two_replicas.records(1)


@pytest.mark.parametrize("moved", range(1, 6))
def test_answer_is_written_up_to_a_batch_that_does_not_follow(
    two_replicas: Replicas, moved: int
) -> None:
    """The base offset lies outside the checksum."""
    produce_several(two_replicas, 6)

    def skip(data: bytearray) -> None:
        data[batch_at(data, moved) + 7] += 1

    copied_in_one_answer(two_replicas, skip)

    assert two_replicas.log_end(2) == 1 + moved
    assert two_replicas.ctx[2].hosted.counters.replication_errors == 1


def test_answer_with_several_epochs_is_written_with_each(two_replicas: Replicas) -> None:
    produce_several(two_replicas, 3)
    two_replicas.kill(2)
    two_replicas.lead(1, isr=(1,))
    produce_several(two_replicas, 3)
    two_replicas.start(2)

    two_replicas.run()

    assert two_replicas.records(2) == two_replicas.records(1)
    epochs = two_replicas.hosted(2).partition.epochs
    assert epochs.starts == two_replicas.hosted(1).partition.epochs.starts
    assert len(epochs.starts) == 2


@pytest.mark.parametrize("older", range(1, 6))
def test_answer_is_written_up_to_a_batch_of_an_older_epoch(
    two_replicas: Replicas, older: int
) -> None:
    two_replicas.lead(1)
    two_replicas.run()
    produce_several(two_replicas, 6)

    def age(data: bytearray) -> None:
        at = batch_at(data, older) + LEADER_EPOCH_AT
        data[at : at + 4] = bytes(4)

    copied_in_one_answer(two_replicas, age)

    assert two_replicas.log_end(2) == 1 + older
    assert two_replicas.ctx[2].hosted.counters.replication_errors == 1


def test_nothing_is_written_after_a_control_batch_that_cannot_be_read(
    two_replicas: Replicas,
) -> None:
    """The partition learns what a batch does to its producers once the batch is in the log: what
    follows must not be in there before."""
    produce_several(two_replicas, 6)

    def turn_into_control(data: bytearray) -> None:
        start, end = batch_at(data, 2), batch_at(data, 3)
        batch = data[start:end]
        batch[CRC_START + 1] |= CONTROL_BIT
        batch[HEADER_BYTES:] = b"\xff" * (len(batch) - HEADER_BYTES)  # varints without an end
        stamp_crc(batch)
        data[start:end] = batch

    copied_in_one_answer(two_replicas, turn_into_control)

    assert two_replicas.log_end(2) == 1 + 3
    assert two_replicas.ctx[2].hosted.counters.replicated_batches == 1 + 2


def test_a_follower_at_a_limit_that_lasts_notes_it(two_replicas: Replicas) -> None:
    """It is not to be elected: its appends would be refused, too."""
    files = two_replicas.files[2]
    files.full_errno, files.full_at = errno.EDQUOT, files.growths
    two_replicas.produce(1, b"a", acks=1)

    for _ in range(80):
        two_replicas.run()
        two_replicas.advance(100)

    limit = two_replicas.ctx[2].storage.limit
    assert "Errno 122" in limit.reason
    assert two_replicas.ctx[1].storage.limit.reason == ""


def test_a_follower_whose_last_epoch_flipped_to_a_later_one_is_cut_before_it(
    two_replicas: Replicas,
) -> None:
    """No checksum covers the epoch, and the checkpoint of epochs was lost, too (life 44040)."""
    for value in (b"a", b"b"):
        two_replicas.produce(1, value)
        two_replicas.run()
    two_replicas.kill(2)
    two_replicas.lead(1)
    two_replicas.produce(1, b"c", acks=1)
    files = two_replicas.files[2]
    (path,) = (each for each in files.names if each.endswith(".log"))
    *_, (last, _) = iter_batches(bytes(files.names[path].data))
    flipped = two_replicas.entry().leader_epoch
    files.names[path].data[last + LEADER_EPOCH_AT : last + LEADER_EPOCH_AT + 4] = flipped.to_bytes(
        4
    )
    for each in [each for each in files.names if each.endswith("leader-epochs.checkpoint")]:
        files.remove(each)

    two_replicas.start(2)
    two_replicas.run()

    assert two_replicas.records(2) == two_replicas.records(1)
    assert two_replicas.ctx[2].hosted.counters.truncations == 1

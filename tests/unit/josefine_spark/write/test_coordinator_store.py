"""Records of sinks on a broker: the newest per sink, over compacted and deleted offsets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.base.errors import SinkError
from josefine_spark.write.coordinator_store import (
    CONFIGS,
    FENCE,
    PARTITIONS,
    TOPIC,
    SinkStore,
    _RecordReader,
    all_sinks,
)
from josefine_spark.write.protocol import Read
from josefine_spark.write.state import SinkState

TP = TopicPartition(TOPIC, 0)


class Broker:
    """One log of batches for each partition; `start`: the log start offset."""

    def __init__(self, *batches, start=0, exists=True, partitions=PARTITIONS):
        self.batches, self.start, self.exists = batches, start, exists
        self.partitions, self.created = partitions, []

    def metadata(self, names):
        code = ErrorCode.none if self.exists else ErrorCode.unknown_topic_or_partition
        return SimpleNamespace(topics={TOPIC: SimpleNamespace(error_code=code)})

    def create_topics(self, topics):
        self.created += topics
        self.exists = True

    def partition_count(self, name):
        return self.partitions

    def list_offsets(self, wanted):
        return {tp: SimpleNamespace(offset=self.end) for tp in wanted}

    @property
    def end(self):
        return max((offset + count for offset, count, _ in self.batches), default=0)

    def fetch(self, at, *, timeout_ms):
        ((tp, offset),) = at.items()
        code = ErrorCode.offset_out_of_range if offset < self.start else ErrorCode.none
        data = b"".join(each for first, count, each in self.batches if first + count > offset)
        return {tp: SimpleNamespace(error_code=code, log_start_offset=self.start,
                                    records=memoryview(data), high_watermark=self.end)}  # fmt: skip


def batch(offset, *pairs, producer=1, **how):
    records = [Record(key, value, (), 5) for key, value in pairs]
    data = build_batch(records, base_offset=offset, producer_id=producer, producer_epoch=0,
                       base_sequence=0, **how)  # fmt: skip
    return offset, len(pairs), bytes(data)


def read(broker, end=None):
    reader = _RecordReader()
    reader.read(broker, TP, broker.end if end is None else end, 1_000)
    return reader


def test_the_newest_record_of_a_sink_counts_and_its_producer():
    reader = read(Broker(batch(0, (b"a", b"1"), (b"b", b"2")), batch(2, (b"a", b"3"), producer=7)))

    assert reader.records == {b"a": b"3", b"b": b"2"}
    assert (reader.writer("a"), reader.writer("b"), reader.writer("c")) == (7, 1, None)


def test_a_read_continues_where_the_last_one_ended():
    first, second = batch(0, (b"a", b"1")), batch(1, (b"a", None))
    reader = read(Broker(first))

    reader.read(Broker(first, second), TP, 2, 1_000)

    assert reader.records == {b"a": None}
    assert reader.state("a") == SinkState()


def test_offsets_that_are_gone_are_no_error():
    """Compaction and retention leave the newest record of each key."""
    assert read(Broker(batch(6, (b"a", b"1")), start=5)).records == {b"a": b"1"}
    assert read(Broker(batch(0, (b"a", b"1"))), end=1).records == {b"a": b"1"}


def test_compacted_offsets_before_the_end_are_passed_over():
    broker = Broker(batch(0, (b"a", b"1")))
    reader = _RecordReader()
    broker.fetch = lambda at, timeout_ms: {
        TP: SimpleNamespace(error_code=ErrorCode.none, log_start_offset=0, records=memoryview(b""),
                            high_watermark=9)
    }  # fmt: skip

    reader.read(broker, TP, 9, 1_000)

    assert reader.records == {}


def test_control_batches_are_no_records():
    control = batch(0, (b"\0\0\0\1", b"\0\0\0\0\0\0"), control=True, transactional=True)

    assert read(Broker(control, batch(1, (b"a", b"1")))).records == {b"a": b"1"}


def test_an_end_that_no_broker_gives_in_time_is_an_error_with_both_offsets():
    broker = Broker(batch(0, (b"a", b"1")))
    broker.fetch = lambda at, timeout_ms: {}

    with pytest.raises(KafkaError, match="was read up to offset 0 of 1 within 0 ms"):
        _RecordReader().read(broker, TP, 1, 0)


def test_all_sinks_are_listed_without_fences_and_deleted_records():
    state = SinkState().encode()
    broker = Broker(
        batch(0, (b"b", state), (b"a", state), (FENCE + b"a", b""), (b"c", state), (b"c", None)),
        partitions=1,
    )

    assert [*all_sinks(broker, 1_000)] == ["a", "b"]
    assert all_sinks(Broker(exists=False), 1_000) == {}


def steps():
    found = yield Read()
    return found


def test_the_first_sink_creates_the_topic_compacted():
    broker = Broker(exists=False)

    assert SinkStore(broker, "s", 1_000, 1_000).run(steps()) == SinkState()

    (topic,) = broker.created
    assert (topic.name, topic.configs["cleanup.policy"]) == (TOPIC, CONFIGS["cleanup.policy"])


def test_a_topic_with_too_few_partitions_is_refused():
    with pytest.raises(SinkError, match="must have at least 8 partitions"):
        SinkStore(Broker(partitions=3), "s", 1_000, 1_000).run(steps())


def test_an_error_of_a_broker_names_the_sink():
    broker = Broker()
    broker.list_offsets = lambda wanted: (_ for _ in ()).throw(
        KafkaError(ErrorCode.request_timed_out, "too slow")
    )

    with pytest.raises(SinkError, match=r"sink s: .*too slow"):
        SinkStore(broker, "s", 1_000, 1_000).run(steps())

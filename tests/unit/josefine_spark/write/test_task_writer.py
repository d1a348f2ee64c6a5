"""A task's write to a broker made of lists: in pieces, tried again, counted, refused in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import ConfigEntry
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.operations import Outcome
from josefine_broker.client.produce import Written
from josefine_broker.records.batch import parse_header, verify
from josefine_broker.records.reader import Record, read_records
from josefine_spark.base.errors import SinkError
from josefine_spark.options.options import Connection, SinkOptions
from josefine_spark.write.delivery import DeliveryCounts
from josefine_spark.write.task_writer import TaskWriter

NOW_MS = 1_700_000_000_000
CONNECTION = Connection(bootstrap="b:1", request_timeout_ms=1_000)


@dataclass
class Broker:
    """Takes batches in sequence and up to a size; `script` is what it answers instead, in turn."""

    partitions: Mapping[str, int]
    bytes_max: int = 1 << 20
    script: list[KafkaError] = field(default_factory=list)
    tells_configs: bool = True
    logs: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    now_ms: int = 0
    requests: int = 0
    transactional_id: str | None = None

    def partition_count(self, topic: str, *, create: bool, timeout_ms: int) -> int:
        self._fail(timeout_ms)
        if topic in self.partitions:
            return self.partitions[topic]
        assert create
        self.created.append(topic)
        return 1

    def init_producer_id(self, *, timeout_ms: int) -> ProducerIdentity:
        self._fail(timeout_ms)
        return ProducerIdentity(9, 0)

    def describe_configs(self, topics: list[str]) -> dict[str, dict[str, ConfigEntry]]:
        if not self.tells_configs:
            raise KafkaError(ErrorCode.topic_authorization_failed)
        entry = ConfigEntry(
            name="max.message.bytes",
            value=str(self.bytes_max),
            is_default=False,
            read_only=False,
            sensitive=False,
            documentation=None,
        )
        return {topic: {"max.message.bytes": entry} for topic in topics}

    def produce_outcomes(
        self,
        batches: Mapping[TopicPartition, memoryview],
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
    ) -> dict[TopicPartition, Outcome]:
        self.requests += 1
        self.transactional_id = transactional_id
        try:
            self._fail(timeout_ms)
        except KafkaError as error:
            return {tp: Outcome(error=error) for tp in batches}
        return {tp: self._append(tp, bytes(data), acks) for tp, data in batches.items()}

    def _append(self, tp: TopicPartition, data: bytes, acks: int) -> Outcome:
        header = parse_header(data)
        verify(data, 0, header)
        assert header.is_transactional is (self.transactional_id is not None)
        log = self.logs.setdefault(tp, [])
        if len(data) > self.bytes_max:
            return Outcome(error=KafkaError(ErrorCode.message_too_large, "too large"))
        assert header.base_sequence == (len(log) if acks == -1 else -1)
        log += read_records(data)
        return Outcome(Written(0))

    def _fail(self, timeout_ms: int) -> None:
        if self.script:
            self.now_ms += timeout_ms
            raise self.script.pop(0)


def write(broker: Broker, values: list[bytes], **options: Any) -> DeliveryCounts:
    """All values, without keys, into topic `t`."""
    given = SinkOptions(**{"connection": CONNECTION, "topic": "t", **options})
    client: Any = broker
    writer = TaskWriter(client, given, 0, lambda: broker.now_ms)
    writer.add(pa.record_batch({"value": pa.array(values, pa.binary())}), NOW_MS)
    writer.flush(NOW_MS)
    return writer.delivery


def stored(broker: Broker) -> list[bytes | None]:
    return [record.value for log in broker.logs.values() for record in log]


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=60),
    bytes_max=st.integers(1_000, 5_000),
    compression=st.integers(0, 4),
    acks=st.sampled_from([-1, 1]),
    tells_configs=st.booleans(),
)
def test_batches_that_are_too_large_arrive_in_pieces_once_and_in_order(
    sizes: list[int], bytes_max: int, compression: int, acks: int, tells_configs: bool
) -> None:
    broker = Broker({"t": 1}, bytes_max=bytes_max, tells_configs=tells_configs)
    values = [b"%d " % n + bytes(size) for n, size in enumerate(sizes)]

    counts = write(broker, values, compression=compression, acks=acks, batch_bytes=20_000)

    assert stored(broker) == values
    assert counts.of("t").records == len(values)


def test_after_one_batch_in_pieces_the_next_ones_fit_at_once() -> None:
    broker = Broker({"t": 1}, bytes_max=10_000)
    client: Any = broker
    options = SinkOptions(connection=CONNECTION, topic="t", batch_bytes=100_000)
    writer = TaskWriter(client, options, 0, lambda: 0)
    rows = pa.record_batch({"value": pa.array([bytes(900)] * 500, pa.binary())})

    writer.add(rows, NOW_MS)
    writer.flush(NOW_MS)
    before = writer.delivery.of("t").splits
    writer.add(rows, NOW_MS)
    writer.flush(NOW_MS)

    assert before > 0
    assert writer.delivery.of("t").splits == before
    assert len(stored(broker)) == 1000


def test_a_record_that_no_batch_can_hold_is_named_with_its_size_and_the_limit() -> None:
    broker = Broker({"t": 1}, bytes_max=1_000)

    with pytest.raises(SinkError) as caught:
        write(broker, [b"a", bytes(2_000), b"b"])

    assert str(caught.value) == (
        "topic t, partition 0: a record of 2070 bytes is larger than the topic's "
        "max.message.bytes, which is 1000"
    )
    assert stored(broker) == [b"a"]


def test_what_may_pass_is_tried_again_until_the_delivery_timeout() -> None:
    down = KafkaError(ErrorCode.network_exception, "b:1 refused")
    broker = Broker({"t": 1})
    client: Any = broker
    writer = TaskWriter(client, SinkOptions(connection=CONNECTION, topic="t"), 0, lambda: 0)
    writer.add(pa.record_batch({"value": pa.array([b"v"], pa.binary())}), NOW_MS)
    broker.script = [down, KafkaError(ErrorCode.not_leader_or_follower), down]

    writer.flush(NOW_MS)

    assert stored(broker) == [b"v"]
    counts = writer.delivery.of("t")
    assert (counts.retries, counts.batches) == (3, 1)
    assert counts.errors == {"network_exception": 2, "not_leader_or_follower": 1}


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def write_headers(broker: Broker, headers: Any) -> None:
    client: Any = broker
    writer = TaskWriter(client, SinkOptions(connection=CONNECTION, topic="t"), 0)
    values = pa.array([b"v"] * len(headers), pa.binary())
    writer.add(pa.record_batch({"value": values, "headers": headers}), NOW_MS)
    writer.flush(NOW_MS)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("a", b"1")], None),
        ([("a", None)], None),
        ([(None, b"1")], "a row has a header without a key"),
        ([("a", b"1"), None], "a row has a header that is null"),
    ],
)
def test_a_header_without_a_key_is_refused_and_never_written_as_another(
    headers: list[Any], words: str | None
) -> None:
    broker = Broker({"t": 1})
    if words is None:
        write_headers(broker, pa.array([None, headers], HEADERS))
        assert [tuple(h) for h in broker.logs[TopicPartition("t", 0)][1].headers] == headers
        return
    with pytest.raises(SinkError, match=words):
        write_headers(broker, pa.array([None, headers], HEADERS))
    assert broker.logs == {}


def test_a_header_that_is_in_no_row_is_no_mistake() -> None:
    broker = Broker({"t": 1})
    whole = pa.array([[(None, b"1")], [("a", b"2")]], HEADERS)

    write_headers(broker, whole.slice(1))

    (record,) = broker.logs[TopicPartition("t", 0)]
    assert [tuple(header) for header in record.headers] == [("a", b"2")]


def test_a_broker_that_stays_away_ends_the_task_with_its_reason() -> None:
    broker = Broker({"t": 1})
    client: Any = broker
    options = SinkOptions(connection=CONNECTION, topic="t", delivery_timeout_ms=5_000)
    writer = TaskWriter(client, options, 0, lambda: broker.now_ms)
    writer.add(pa.record_batch({"value": pa.array([b"v"], pa.binary())}), NOW_MS)
    broker.script = [KafkaError(ErrorCode.network_exception, "cannot reach b:1")] * 50

    with pytest.raises(SinkError, match=r"^topic t, partition 0: cannot reach b:1$"):
        writer.flush(NOW_MS)

    assert broker.now_ms == 5_000


@pytest.mark.parametrize("code", ["unknown_topic_or_partition", "topic_authorization_failed"])
def test_what_does_not_pass_is_told_at_once(code: str) -> None:
    broker = Broker({"t": 1})
    client: Any = broker
    writer = TaskWriter(client, SinkOptions(connection=CONNECTION, topic="t"), 0, lambda: 0)
    writer.add(pa.record_batch({"value": pa.array([b"v"], pa.binary())}), NOW_MS)
    broker.script = [KafkaError(ErrorCode[code])]

    with pytest.raises(SinkError, match=code.replace("_", " ")):
        writer.flush(NOW_MS)

    assert broker.requests == 1


def test_metadata_and_the_producer_id_are_waited_for_as_long_as_max_block_ms() -> None:
    down = KafkaError(ErrorCode.network_exception, "cannot reach b:1")

    away_for_a_while = Broker({"t": 1}, script=[down] * 3)
    write(away_for_a_while, [b"v"], max_block_ms=60_000)
    assert stored(away_for_a_while) == [b"v"]

    away = Broker({"t": 1}, script=[down] * 100)
    with pytest.raises(KafkaError, match="cannot reach b:1"):
        write(away, [b"v"], max_block_ms=3_500)
    assert away.now_ms == 3_500


def test_a_topic_that_is_not_there_is_asked_for_as_producers_do() -> None:
    broker = Broker({})

    write(broker, [b"v"])

    assert broker.created == ["t"]


def test_a_writes_counts_are_one_line_of_json() -> None:
    whole = DeliveryCounts()
    for _ in range(2):
        one = DeliveryCounts()
        one.of("b").acknowledged(10, 500)
        one.of("a").passed([ErrorCode.network_exception])
        whole.add(one)

    zero = {"records": 0, "bytes": 0, "batches": 0, "retries": 0, "splits": 0, "errors": {}}
    assert "\n" not in whole.line(3)
    assert json.loads(whole.line(3)) == {
        "event": "delivered",
        "batch": 3,
        "topics": {
            "a": {**zero, "retries": 2, "errors": {"network_exception": 2}},
            "b": {**zero, "records": 20, "bytes": 1000, "batches": 2},
        },
    }

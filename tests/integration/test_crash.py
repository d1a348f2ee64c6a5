"""kill -9 of a broker under load: what was acknowledged stays, and the next start says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

PARTITIONS = 3
OUTSTANDING_MAX = 5_000
"""Records sent and not yet acknowledged: enough for several batches in flight at each kill."""


@dataclass
class Load:
    """An idempotent producer that keeps sending numbered records, and what it was told."""

    bootstrap: str
    topic: str
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Record number → (partition, offset)."""
    failed: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._stop = Event()
        self._thread = Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.max.ms": 200,
                "message.timeout.ms": 120_000,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        while not self._stop.is_set():
            if self.sent - len(self.acknowledged) > OUTSTANDING_MAX:
                producer.poll(0.01)
                continue
            number = self.sent
            try:
                producer.produce(
                    self.topic,
                    value=f"{number:09d}".encode(),
                    partition=number % PARTITIONS,
                    on_delivery=self._delivered(number),
                )
            except BufferError:
                producer.poll(0.01)
                continue
            self.sent += 1
            if number % 200 == 0:
                producer.poll(0.001)
        if producer.flush(150):
            self.failed.append("records still unsent after 150 s")

    def _delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def callback(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed.append(f"{number}: {error}")
            else:
                self.acknowledged[number] = (message.partition(), message.offset())

        return callback

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(180)
        assert not self._thread.is_alive()


def read_all(broker: BrokerProcess, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Record number → where it is stored, every place; offsets have no gap and never go back."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "check"})
    places: dict[int, list[tuple[int, int]]] = {}
    for partition in range(PARTITIONS):
        tp = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(tp, timeout=30)
        consumer.assign([TopicPartition(topic, partition, low)])
        expected = low
        while expected < high:
            messages = consumer.consume(min(10_000, high - expected), timeout=60)
            assert messages, f"{expected} of {high} records of partition {partition} read"
            for message in messages:
                assert message.error() is None, message.error()
                assert message.offset() == expected
                expected += 1
                places.setdefault(int(message.value()), []).append((partition, message.offset()))
    consumer.close()
    return places


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize("overrides", [{}, {"log__flush_messages": 1}], ids=["page cache", "fsync"])
def test_nothing_acknowledged_is_lost_and_offsets_never_go_back(
    tmp_path: Path, overrides: dict[str, object]
) -> None:
    """Checklist rows 24, 30, 33. An idempotent producer goes on over three crashes: every record is
    stored once, where the acknowledgement said."""
    overrides = {"topic_defaults__partitions": PARTITIONS, **overrides}
    with BrokerProcess(tmp_path, **overrides) as broker:
        load = Load(broker.bootstrap, "crash")
        try:
            for _ in range(3):
                enough = len(load.acknowledged) + 5_000
                wait_until(lambda n=enough: len(load.acknowledged) > n, 60, "acknowledgements")
                broker.kill()
                broker.start()
        finally:
            load.stop()
        assert load.failed == []
        assert len(load.acknowledged) == load.sent
        stored = read_all(broker, "crash")
        assert stored == {number: [place] for number, place in load.acknowledged.items()}


def test_the_next_start_says_what_it_recovered(tmp_path: Path) -> None:
    """Checklist row 30: a torn tail is cut, nothing before it is lost, and both are said."""
    overrides = {"topic_defaults__partitions": PARTITIONS}
    with BrokerProcess(tmp_path, **overrides) as broker:
        load = Load(broker.bootstrap, "torn")
        try:
            wait_until(lambda: len(load.acknowledged) > 3_000, 60, "acknowledgements")
        finally:
            load.stop()
        broker.kill()
        segment = next((broker.data_dir).rglob("torn-1/*.log"))
        whole = segment.stat().st_size
        with segment.open("ab") as file:
            file.write(segment.read_bytes()[:100])  # a write that power cut short
        said = len(broker.output)
        broker.start()
        output = broker.output[said:]
        assert "unclean shutdown" in output
        (line,) = re.findall(r"^.*torn-1.*$", output, re.MULTILINE)
        assert "100" in line
        assert segment.stat().st_size == whole
        assert len(read_all(broker, "torn")) == len(load.acknowledged)


def test_a_graceful_stop_leaves_nothing_to_recover(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("calm", b"1")
    assert producer.flush(30) == 0
    assert broker.stop() == 0
    said = len(broker.output)
    broker.start()
    assert "unclean shutdown" not in broker.output[said:]


def test_graceful_shutdown_under_load_loses_nothing(tmp_path: Path) -> None:
    """Checklist row 93."""
    settings = {"topic_defaults__partitions": PARTITIONS, "network__shutdown_timeout_ms": 300_000}
    with BrokerProcess(tmp_path, **settings) as broker:
        load = Load(broker.bootstrap, "drain")
        try:
            for _ in range(3):
                enough = len(load.acknowledged) + 5_000
                wait_until(lambda n=enough: len(load.acknowledged) > n, 60, "acknowledgements")
                assert broker.stop() == 0  # in STOP_TIMEOUT_S: it has answered what was in flight
                broker.start()
        finally:
            load.stop()
        assert load.failed == []
        stored = read_all(broker, "drain")
        assert stored == {number: [place] for number, place in load.acknowledged.items()}
        assert "unclean shutdown" not in broker.output

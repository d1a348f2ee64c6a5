"""Client quotas at a real broker: other people's clients are held to them, and nobody else."""

from __future__ import annotations

import json
import re
from threading import Thread
from time import monotonic

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from josefine_broker.engine.limits.quotas import BURST_SECONDS
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.fixtures import broker_fixture

pytestmark = pytest.mark.timeout(240)
PRODUCED, CONSUMED = 400_000, 800_000
"""Bytes a second."""
VALUE = bytes(range(250)) * 4
LOOK_SECONDS = 3.0
BATCH_BYTES = 40_000
"""At most, of a request or an answer: it is done first, and waited for after it."""


def most_bytes(rate: float, seconds: float) -> float:
    """What a client gets through in so long at that rate, with the second that it may save up:
    whenever in that time it stood still itself, and went on."""
    return rate * (seconds + BURST_SECONDS) + 2 * BATCH_BYTES


broker = broker_fixture()


def quotas(broker: BrokerProcess, *arguments: str) -> tuple[int, str]:
    done = josefine(broker.bootstrap, "quotas", *arguments)
    return done.code, done.out + done.err


def throttled(broker: BrokerProcess, key: str) -> float:
    """How many answers."""
    _, page = broker.get("/metrics")
    found = re.search(rf'josefine_quota_throttled_total{{quota="{key}"}} (\S+)', page)
    assert found is not None
    return float(found[1])


def produced(broker: BrokerProcess, client_id: str, waited: list[float]) -> tuple[float, float]:
    """Bytes of values a second that librdkafka got through in a look that begins after the second
    that a client may save up; and the bytes from the beginning to the end of that look."""
    done: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "batch.size": 20_000,
            "linger.ms": 5,
            "queue.buffering.max.messages": 200,
            "throttle_cb": lambda event: waited.append(event.throttle_time),
        }
    )
    began = monotonic()
    while monotonic() < began + 1.5 + LOOK_SECONDS:
        try:
            producer.produce(
                "t", VALUE, on_delivery=lambda error, _: error or done.append(monotonic())
            )
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    producer.purge()
    producer.flush(10)
    since = began + 1.5
    until = since + LOOK_SECONDS
    count = sum(since <= at < until for at in done)
    return count * len(VALUE) / LOOK_SECONDS, sum(at < until for at in done) * len(VALUE)


def test_producer_is_held_to_its_rate_and_others_are_not_slowed(broker: BrokerProcess) -> None:
    command = ("set", "--client-id", "slow", "--producer-byte-rate", str(PRODUCED))
    assert quotas(broker, *command) == (0, "quota of client-id slow set\n")
    before = throttled(broker, "consumer_byte_rate")
    slow_waited: list[float] = []
    free_waited: list[float] = []
    free: list[float] = []
    beside = Thread(target=lambda: free.append(produced(broker, "free", free_waited)[0]))

    beside.start()
    slow, slow_bytes = produced(broker, "slow", slow_waited)
    beside.join(60)

    assert slow >= 0.8 * PRODUCED
    assert slow_bytes <= most_bytes(PRODUCED, 1.5 + LOOK_SECONDS)
    assert slow_waited
    assert free_waited == []
    assert free[0] > 2 * PRODUCED
    assert throttled(broker, "producer_byte_rate") > 0
    assert throttled(broker, "consumer_byte_rate") == before


def test_consumer_is_held_to_its_rate(broker: BrokerProcess) -> None:
    """kafka-python."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 20_000})
    for _ in range(5_000):
        producer.produce("read", VALUE)
        producer.poll(0)
    assert producer.flush(60) == 0
    quotas(broker, "set", "--client-id", "slow", "--consumer-byte-rate", str(CONSUMED))
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        client_id="slow",
        max_partition_fetch_bytes=BATCH_BYTES,
        enable_auto_commit=False,
    )
    partition = TopicPartition("read", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    began, read = monotonic(), 0
    saved_up = CONSUMED * 1.2
    since, before = began, 0
    while read < saved_up + 2 * CONSUMED:
        read += sum(map(len, consumer.poll(1_000).values())) * len(VALUE)
        if not before and read >= saved_up:
            since, before = monotonic(), read
        assert monotonic() < began + 60
    ended = monotonic()
    consumer.close()

    assert (read - before) / (ended - since) >= 0.8 * CONSUMED
    assert read <= most_bytes(CONSUMED, ended - began)
    assert throttled(broker, "consumer_byte_rate") > 0


def test_command_lists_sets_and_removes(broker: BrokerProcess) -> None:
    quotas(broker, "set", "--user", "alice", "--default-client-id", "--request-percentage", "12.5")
    quotas(broker, "set", "--user", "alice", "--default-client-id", "--producer-byte-rate", "7")
    code, said = quotas(broker, "list", "--json")
    assert code == 0
    assert {
        "user": "alice",
        "client-id": None,
        "quotas": {"producer_byte_rate": 7.0, "request_percentage": 12.5},
    } in json.loads(said)
    assert "(default)" in quotas(broker, "list")[1]
    for arguments, words in (
        (("set", "--user", "alice"), "name what to set: --producer-byte-rate"),
        (("set", "--producer-byte-rate", "1"), "name the client: --user"),
        (("set", "--user", "a", "--default-user", "--producer-byte-rate", "1"), "exclude"),
        (("set", "--user", "a", "--request-percentage", "0"), "'request_percentage' is more than"),
        (("set", "--user", "", "--producer-byte-rate", "1"), "--user is empty"),
        (("remove", "--user", "bob", "-y"), "there is no quota of user bob"),
    ):
        code, said = quotas(broker, *arguments)
        assert code != 0
        assert words in said
    code, said = quotas(broker, "remove", "--user", "alice", "--default-client-id", "-y")
    assert (code, said) == (0, "quota of user alice, client-id (default) removed\n")
    assert "alice" not in quotas(broker, "list")[1]

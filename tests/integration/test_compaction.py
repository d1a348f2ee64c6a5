"""A compacted topic on a real broker: foreign clients read the last value of each key, while it is
cleaned, after it, and after a kill in the middle. Checklist row 38."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaPythonPartition

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "65536",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
KEYS = 50
TIMEOUT_S = 60.0


@pytest.fixture
def cleaning_broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path, start=False, log__cleaner_backoff_ms=100)


def produce(broker: BrokerProcess, rounds: int, first: int = 0) -> dict[bytes, bytes | None]:
    """Each key once a round, every seventh deleted in the end; the last value of each."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.num.messages": 100}
    )
    last: dict[bytes, bytes | None] = {}
    for n in range(first, first + rounds):
        for key in range(KEYS):
            value = None if key % 7 == 0 and n == first + rounds - 1 else b"%d " % n + bytes(60)
            last[b"key-%d" % key] = value
            producer.produce("table", value, b"key-%d" % key)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return last


def metric(broker: BrokerProcess, name: str) -> float:
    _, text = broker.get("/metrics")
    lines = [line for line in text.splitlines() if line.startswith(f"josefine_{name}")]
    assert lines, name
    return float(lines[0].split()[-1])


def consumed(broker: BrokerProcess) -> tuple[dict[bytes, bytes | None], int]:
    """What librdkafka reads from the beginning: the last value of each key, and how many records.
    Offsets must grow."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    found: dict[bytes, bytes | None] = {}
    count, last = 0, -1
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition("table", 0), timeout=TIMEOUT_S)
        consumer.assign([TopicPartition("table", 0, OFFSET_BEGINNING)])
        while last < end - 1:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing behind {last} of {end}"
            assert message.error() is None, message.error()
            assert message.offset() > last
            last = message.offset()
            found[message.key()] = message.value()
            count += 1
    finally:
        consumer.close()
    return found, count


def make_topic(broker: BrokerProcess, **config: str) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("table", 1, configs={**COMPACTED, **config})])


def wait_cleaned(broker: BrokerProcess, passes: float = 0) -> None:
    wait_until(lambda: metric(broker, "cleaner_passes_total") > passes, TIMEOUT_S, "a pass")


def test_clients_read_the_last_value_of_each_key_of_a_cleaned_topic(
    cleaning_broker: BrokerProcess,
) -> None:
    with cleaning_broker:
        cleaning_broker.start()
        make_topic(cleaning_broker)
        last = produce(cleaning_broker, rounds=200)

        def is_cleaned() -> bool:
            """Also while it is being cleaned a client reads the last value of each key."""
            found, count = consumed(cleaning_broker)
            assert found == last
            return count < 200 * KEYS / 2

        wait_until(is_cleaned, TIMEOUT_S, "a log of less than half the records")
        theirs = KafkaConsumer(
            bootstrap_servers=cleaning_broker.bootstrap, consumer_timeout_ms=60_000
        )
        theirs.assign([KafkaPythonPartition("table", 0)])
        theirs.seek_to_beginning()
        again: dict[bytes, bytes | None] = {}
        end = theirs.end_offsets([KafkaPythonPartition("table", 0)])
        while (
            theirs.position(KafkaPythonPartition("table", 0))
            < end[KafkaPythonPartition("table", 0)]
        ):
            message = next(theirs)
            again[message.key] = message.value
        theirs.close()
        assert again == last
        assert cleaning_broker.get("/health")[0] == 200
        removed = lambda: metric(cleaning_broker, "cleaner_bytes_removed_total")  # noqa: E731
        wait_until(removed, TIMEOUT_S, "what was removed, which is counted behind the last segment")
        assert metric(cleaning_broker, "cleaner_logs_damaged") == 0


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_broker_killed_while_it_cleans_has_the_last_value_of_each_key(
    cleaning_broker: BrokerProcess,
) -> None:
    """At any moment: it cleans for as long as it is written to."""
    with cleaning_broker:
        cleaning_broker.start()
        make_topic(cleaning_broker)
        last: dict[bytes, bytes | None] = {}
        for n in range(6):
            last = produce(cleaning_broker, rounds=60, first=60 * n)
            cleaning_broker.kill()
            cleaning_broker.start()
            assert consumed(cleaning_broker)[0] == last
        passes = metric(cleaning_broker, "cleaner_passes_total")
        last = produce(cleaning_broker, rounds=60, first=1_000)
        wait_cleaned(cleaning_broker, passes)
        assert consumed(cleaning_broker)[0] == last
        assert "damaged" not in cleaning_broker.output
        assert cleaning_broker.stop() == 0


def committed(broker: BrokerProcess, isolation: str) -> tuple[dict[bytes, bytes], int]:
    """What librdkafka reads of the table from the beginning, and how many records."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    found: dict[bytes, bytes] = {}
    count = 0
    try:
        consumer.assign([TopicPartition("table", 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "nothing, and no end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found, count
            found[message.key() or b""] = message.value() or b""
            count += 1
    finally:
        consumer.close()


def transact(broker: BrokerProcess, rounds: int) -> dict[bytes, bytes]:
    """Transactions of a value for each key, every third aborted; the last committed ones."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(TIMEOUT_S)
    last: dict[bytes, bytes] = {}
    for n in range(rounds):
        producer.begin_transaction()
        values = {b"key-%d" % key: b"%d " % n + bytes(1_000) for key in range(KEYS)}
        for key, value in values.items():
            producer.produce("table", value, key)
        if n % 3 == 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            last = values
    return last


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_what_transactions_wrote_is_compacted_for_readers_of_either_isolation(
    cleaning_broker: BrokerProcess,
) -> None:
    """As a changelog of Kafka Streams with exactly_once_v2."""
    with cleaning_broker:
        cleaning_broker.start()
        make_topic(cleaning_broker, **{"delete.retention.ms": "0"})
        last = transact(cleaning_broker, rounds=30)

        def is_cleaned() -> bool:
            found, count = committed(cleaning_broker, "read_committed")
            assert found == last
            return count < 10 * KEYS

        wait_until(is_cleaned, TIMEOUT_S, "a log of a third of the records or less")
        found, count = committed(cleaning_broker, "read_uncommitted")
        assert set(found) == set(last)
        assert count < 12 * KEYS, "aborted records are left in the last segment only"
        cleaning_broker.kill()
        cleaning_broker.start()
        assert committed(cleaning_broker, "read_committed")[0] == last
        last = transact(cleaning_broker, rounds=4)
        assert committed(cleaning_broker, "read_committed")[0] == last
        assert "damaged" not in cleaning_broker.output


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_topic_that_is_compacted_no_more_goes_on_over_a_restart(
    cleaning_broker: BrokerProcess,
) -> None:
    """What is missing in it was taken away, and is no damage."""
    with cleaning_broker:
        cleaning_broker.start()
        make_topic(cleaning_broker)
        last = produce(cleaning_broker, rounds=100)
        wait_cleaned(cleaning_broker)
        with BlockingClient(cleaning_broker.bootstrap) as client:
            client.alter_configs({"table": {"cleanup.policy": "delete"}})
        cleaning_broker.kill()
        for path in cleaning_broker.data_dir.glob("table-0/*index"):
            path.unlink()

        cleaning_broker.start()

        assert consumed(cleaning_broker)[0] == last
        produce(cleaning_broker, rounds=1, first=500)
        assert cleaning_broker.get("/health")[0] == 200

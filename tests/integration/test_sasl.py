"""Passwords at a real broker, over TLS: other people's clients, and who is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_broker.client.offsets import LATEST
from josefine_broker.client.security import parse_security
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.secured import PASSWORD, USER, Secured, secured_broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(
        tmp_path_factory.mktemp("sasl"),
        tls__reload_check_ms=50,
        sasl__mechanisms=list(MECHANISMS),
    ) as broker:
        yield broker


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(served: Secured, mechanism: str) -> None:
    topic = mechanism.lower()
    settings: dict[str, Any] = {
        "bootstrap.servers": served.broker.bootstrap,
        **served.words(mechanism),
    }
    producer = Producer(settings)
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes] = []
    wait_until(
        lambda: got.extend(m.value() for m in consumer.consume(100, 0.2)) or len(got) >= 100,
        60,
        "the records",
    )
    consumer.close()
    assert got == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_and_aiokafka_come_in(served: Secured, mechanism: str) -> None:
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    words = {
        "bootstrap_servers": served.broker.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    context = ssl.create_default_context(cafile=str(served.ca))

    producer = KafkaProducer(ssl_context=context, **words)
    assert producer.send("kp", b"x").get(60).offset >= 0
    producer.close()

    async def scenario() -> int:
        async with AIOKafkaProducer(ssl_context=context, **words) as other:
            return int((await other.send_and_wait("aio", b"x")).offset)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) >= 0


def test_wrong_password_is_one_clear_error_and_others_are_served(served: Secured) -> None:
    for mechanism in MECHANISMS:
        with pytest.raises(KafkaError) as caught, served.client(mechanism, "guess") as client:
            client.metadata()
        assert caught.value.code is ErrorCode.sasl_authentication_failed
        assert "user 'alice': authentication failed" in str(caught.value)
        assert "guess" not in str(caught.value)
    words = served.words("SCRAM-SHA-256", "guess")
    admin = AdminClient({"bootstrap.servers": served.broker.bootstrap, **words})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)

    with served.client("SCRAM-SHA-256") as client:
        assert client.metadata().brokers
    output = served.broker.output
    assert "authentication failed" in output
    assert "guess" not in output
    assert PASSWORD not in output


def test_changed_password_counts_without_a_restart(served: Secured) -> None:
    before = served.users.read_text()
    served.users.write_text(before + "bob=later\n")
    security = parse_security(
        {
            **served.words("SCRAM-SHA-512"),
            "sasl.username": "bob",
            "sasl.password": "later",
        }
    )

    def is_let_in() -> bool:
        try:
            with BlockingClient(served.broker.bootstrap, security=security) as client:
                return bool(client.metadata().brokers)
        except KafkaError:
            return False

    wait_until(is_let_in, 60, "bob comes in")


WORDS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose sessions end after a second."""
    directory = tmp_path_factory.mktemp("sessions")
    users = directory / "users"
    users.write_text(f"{USER}={PASSWORD}\n")
    users.chmod(0o600)
    with BrokerProcess(
        directory / "broker",
        broker__listeners=["SASL_PLAINTEXT://127.0.0.1:0"],
        sasl__users=str(users),
        sasl__reauthentication_ms=1_000,
    ) as broker:
        yield broker


def count(broker: BrokerProcess, name: str) -> float:
    lines = broker.get("/metrics")[1].splitlines()
    (line,) = (each for each in lines if each.startswith(f"josefine_connection_{name}_total "))
    return float(line.split()[-1])


def test_librdkafka_proves_again_in_a_session_that_ends_and_ours_comes_again(
    hasty: BrokerProcess,
) -> None:
    """KIP-368."""
    written = 0
    rdkafka = Producer({"bootstrap.servers": hasty.bootstrap, **WORDS})
    lost, again = count(hasty, "closed_session"), count(hasty, "reauthentications")
    with BlockingClient(hasty.bootstrap, security=parse_security(WORDS)) as client:
        client.partition_count("ours", create=True)
        ours = BlockingProducer(client)

        def goes_on() -> bool:
            nonlocal written
            rdkafka.produce("rd", b"x")
            assert rdkafka.flush(30) == 0
            ours.send("ours", None, b"x")
            ours.flush()
            written += 1
            ended = count(hasty, "closed_session") > lost
            return ended and count(hasty, "reauthentications") > again + 1

        wait_until(goes_on, 60, "the end of some sessions")
        where = TopicPartition("ours", 0)
        assert client.list_offsets({where: LATEST})[where].offset == written
    assert "its session ended without re-authentication" in hasty.output


@pytest.mark.slow
def test_kafka_python_proves_again_and_aiokafka_comes_again(hasty: BrokerProcess) -> None:
    """KIP-368."""
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    words = {
        "bootstrap_servers": hasty.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    producer, again = KafkaProducer(**words), count(hasty, "reauthentications")
    wait_until(
        lambda: producer.send("kp", b"x").get(30) and count(hasty, "reauthentications") > again + 1,
        60,
        "other proofs of kafka-python",
    )
    producer.close()

    async def scenario() -> None:
        lost = count(hasty, "closed_session")
        async with AIOKafkaProducer(**words) as other:
            while count(hasty, "closed_session") < lost + 2:
                await other.send_and_wait("aio", b"x")

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_the_journals_command_comes_in_with_its_clients_settings(
    served: Secured, tmp_path: Path
) -> None:
    """Also what it starts in the background for the store."""
    config = tmp_path / "client.conf"
    words = served.words("SCRAM-SHA-512") | {"sasl.password": f"file:{tmp_path / 'password'}"}
    (tmp_path / "password").write_text(PASSWORD)
    config.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    where = ("--client-config", str(config), "journal")
    store = ("--store", str(tmp_path / "store"))

    def asked(*arguments: str, stdin: str = "") -> str:
        done = josefine(served.broker.bootstrap, *where, *arguments, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    with served.client("PLAIN") as client:
        client.create_topics([NewTopic("accounts", 1)])
    asked("append", "accounts", "alice", stdin='{"payload": 1}\n{"payload": 2}\n')
    asked("replicate", "accounts", *store, "--once")
    assert '"stored_end": 2, "lag": 0' in asked("status", "accounts", *store, "--json")
    assert asked("read", "accounts", "alice", *store).count("\n") == 2

    refused = josefine(served.broker.bootstrap, "journal", "read", "accounts", "alice")
    assert (refused.code != 0, "Traceback" in refused.err) == (True, False)

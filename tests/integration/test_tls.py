"""TLS of a real broker: our clients and other people's, who is refused and what is said of it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, Policy
from josefine_broker.client.security import PLAINTEXT, Security, parse_security
from tests.support.broker import COMMAND, REPOSITORY, BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
HASTY = Policy(bootstrap_timeout_ms=500)


class Served(NamedTuple):
    """A broker with both kinds of listeners."""

    broker: BrokerProcess
    tls: str
    plain: str
    authority: Authority

    @property
    def security(self) -> Security:
        return parse_security(self.words)

    @property
    def words(self) -> dict[str, str]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.certificate)}

    def metric(self, name: str) -> float:
        lines = self.broker.get("/metrics")[1].splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"josefine_{name}"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory / "ca")
    own = authority.issue("broker")
    tls, plain = free_ports(2)
    with BrokerProcess(
        directory / "broker",
        broker__listeners=[f"OUTSIDE://127.0.0.1:{tls}", f"INSIDE://127.0.0.1:{plain}"],
        broker__listener_security_protocol_map=["OUTSIDE:SSL"],
        tls__certificate=str(own.certificate),
        tls__key=str(own.key),
    ) as broker:
        yield Served(broker, f"127.0.0.1:{tls}", f"127.0.0.1:{plain}", authority)


def write(client: BlockingClient, topic: str, count: int, size: int = 100) -> None:
    client.partition_count(topic, create=True)
    producer = BlockingProducer(client)
    for number in range(count):
        producer.send(topic, b"%d" % number, b"v" * size)
    producer.flush()


def test_large_records_come_through_both_of_our_clients(served: Served) -> None:
    with BlockingClient(served.tls, security=served.security) as client:
        write(client, "large", 40, 500_000)
        fetched = client.fetch({TopicPartition("large", 0): 0})

    async def reading() -> int:
        async with AsyncClient(served.tls, security=served.security) as reader:
            found = await reader.fetch({TopicPartition("large", 0): 0})
            return len(found[TopicPartition("large", 0)].records)

    size = len(fetched[TopicPartition("large", 0)].records)
    assert size > 4_000_000
    assert asyncio.run(reading()) == size


def test_librdkafka_writes_and_reads(served: Served) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": served.tls, **served.words}
    producer = Producer(settings)
    for number in range(1_000):
        producer.produce("rd", b"%d" % number)
    assert producer.flush(60) == 0

    consumer = Consumer({**settings, "group.id": "rd", "auto.offset.reset": "earliest"})
    consumer.subscribe(["rd"])
    got: list[bytes] = []
    wait_until(
        lambda: got.extend(m.value() for m in consumer.consume(500, 0.2)) or len(got) >= 1_000,
        60,
        "the records",
    )
    consumer.close()
    assert got == [b"%d" % number for number in range(1_000)]


def test_kafka_python_writes_and_reads(served: Served) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    words = {
        "bootstrap_servers": served.tls,
        "security_protocol": "SSL",
        "ssl_cafile": str(served.authority.certificate),
    }
    producer = KafkaProducer(**words)
    for number in range(100):
        producer.send("kp", b"%d" % number)
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(
        "kp", auto_offset_reset="earliest", consumer_timeout_ms=60_000, **words
    )

    got = [next(consumer).value for _ in range(100)]

    consumer.close()
    assert got == [b"%d" % number for number in range(100)]


def test_aiokafka_writes_and_reads(served: Served) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def scenario() -> list[bytes]:
        context = ssl.create_default_context(cafile=served.authority.certificate)
        words = {
            "bootstrap_servers": served.tls,
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**words) as producer:
            for number in range(100):
                await producer.send_and_wait("aio", b"%d" % number)
        async with AIOKafkaConsumer("aio", auto_offset_reset="earliest", **words) as consumer:
            return [(await consumer.getone()).value for _ in range(100)]

    got = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert got == [b"%d" % number for number in range(100)]


def refused(where: str, security: Security) -> list[str]:
    """What both of our clients say."""

    async def asking() -> None:
        async with AsyncClient(where, security=security, policy=HASTY) as client:
            await client.metadata()

    with (
        pytest.raises(KafkaError) as one,
        BlockingClient(where, security=security, policy=HASTY) as client,
    ):
        client.metadata()
    with pytest.raises(KafkaError) as other:
        asyncio.run(asking())
    return [str(one.value), str(other.value)]


def test_client_with_another_authority_is_told_so_once(served: Served, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another CA")
    settings = {**served.words, "ssl.ca.location": str(other.certificate)}

    for message in refused(served.tls, parse_security(settings)):
        assert "certificate refused: unable to get local issuer certificate" in message


def test_client_that_dials_a_name_that_the_certificate_lacks_is_told_so(served: Served) -> None:
    dialled = served.tls.replace("127.0.0.1", "127.1")  # the same address in other letters

    for message in refused(dialled, served.security):
        assert "certificate refused" in message
        assert "mismatch" in message


def test_plaintext_client_at_a_tls_port_and_tls_client_at_a_plain_one_are_told(
    served: Served,
) -> None:
    for message in refused(served.tls, PLAINTEXT):
        assert "wants TLS" in message or "speaks TLS" in message
    for message in refused(served.plain, served.security):
        assert "perhaps a listener without TLS" in message


def test_noise_and_plaintext_on_a_tls_port_are_counted_and_told_once(served: Served) -> None:
    before = served.metric("connection_closed_tls_total")
    host, port = served.tls.split(":")
    for number in range(50):
        with socket.create_connection((host, int(port))) as noise:
            noise.sendall(os.urandom(64) if number % 2 else b"\x00\x00\x00\x08\x00\x12\x00\x00")

    wait_until(
        lambda: served.metric("connection_closed_tls_total") >= before + 50, 30, "they are counted"
    )
    assert served.broker.output.count("TLS handshake failed") <= 5
    with BlockingClient(served.tls, security=served.security) as client:
        assert client.metadata().brokers


def test_command_line_reaches_it_with_a_file_of_settings(served: Served, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in served.words.items()))

    def topics(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *options, "topics", "list", "-b", served.tls],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            timeout=60,
        )

    assert topics("--client-config", str(config)).returncode == 0
    plain = topics()
    assert plain.returncode == 1
    assert plain.stderr.count("\n") == 1
    assert "security.protocol" in plain.stderr


def test_expired_certificate_is_said_at_the_start_and_refused_by_clients(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    own = authority.issue("old", days=-3)
    with BrokerProcess(
        tmp_path / "b",
        broker__listeners=["SSL://127.0.0.1:0"],
        tls__certificate=str(own.certificate),
        tls__key=str(own.key),
    ) as broker:
        security = parse_security(
            {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
        )
        assert f"warning: tls.certificate {own.certificate} expired on " in broker.output
        for message in refused(broker.bootstrap, security):
            assert "certificate refused: certificate has expired" in message


def test_renewed_certificate_is_taken_without_a_restart_or_a_lost_connection(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "ca")
    first, second = authority.issue("first", days=2), authority.issue("second", days=20)
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    with BrokerProcess(
        tmp_path / "b",
        broker__listeners=["SSL://127.0.0.1:0"],
        tls__certificate=str(certificate),
        tls__key=str(key),
        tls__reload_check_ms=50,
    ) as broker:
        words = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
        host, port = broker.bootstrap.split(":")

        def shown() -> str:
            return ssl.get_server_certificate((host, int(port))).strip()

        with BlockingClient(broker.bootstrap, security=parse_security(words)) as client:
            write(client, "t", 1)
            assert shown() == first.certificate.read_text().strip()

            for new, path in ((second.key, key), (second.certificate, certificate)):
                (tmp_path / "new").write_bytes(new.read_bytes())
                (tmp_path / "new").replace(path)

            wait_until(lambda: shown() == second.certificate.read_text().strip(), 30, "renewal")
            write(client, "t", 1)
        assert "lost" not in broker.output


def test_bad_file_stops_the_start_with_one_sentence(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path,
        start=False,
        broker__listeners=["SSL://127.0.0.1:0"],
        tls__certificate=str(tmp_path / "none.pem"),
    )
    broker.spawn()
    wait_until(lambda: not broker.alive, 60, "the end")

    (line,) = broker.output.splitlines()
    assert line == f"error: tls.certificate: {tmp_path}/none.pem: no such file or directory"

"""Tokens at a real broker, over TLS: other people's clients and ours, and who is refused."""

from __future__ import annotations

import asyncio
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.security import Security, parse_security
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.cli import josefine
from tests.support.tokens import AUDIENCE, ISSUER, TokenKey, key_server, key_set
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


class Served(NamedTuple):
    """A broker that wants TLS and a token, and lets alice alone write."""

    broker: BrokerProcess
    directory: Path
    key: TokenKey
    jwks: Path
    ca: str

    def words(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.ca,
            "sasl.mechanism": "OAUTHBEARER",
        }

    def librdkafka(self, token: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.broker.bootstrap,
            **self.words(),
            "oauth_cb": lambda _: (token, time.time() + 600),
        }

    def security(self, token: str, name: str = "token") -> Security:
        path = self.directory / name
        path.write_text(token)
        return parse_security({**self.words(), "sasl.oauthbearer.token": f"file:{path}"})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("oauth")
    authority = Authority(directory / "ca")
    own = authority.issue("broker")
    key = TokenKey(directory, "first", "RS256")
    jwks = directory / "jwks.json"
    jwks.write_text(key_set(key))
    with BrokerProcess(
        directory / "broker",
        broker__listeners=["SASL_SSL://127.0.0.1:0"],
        tls__certificate=str(own.certificate),
        tls__key=str(own.key),
        tls__reload_check_ms=50,
        sasl__mechanisms=["OAUTHBEARER"],
        sasl__failure_delay_ms=100,
        oauthbearer__jwks=str(jwks),
        oauthbearer__issuer=ISSUER,
        oauthbearer__audience=[AUDIENCE],
        oauthbearer__clock_skew_ms=0,
        acls__enabled=True,
        acls__super_users=["User:alice"],
    ) as broker:
        yield Served(broker, directory, key, jwks, str(authority.certificate))


def test_librdkafka_writes_and_reads(served: Served) -> None:
    settings = served.librdkafka(served.key.token())
    producer = Producer(settings)
    for number in range(100):
        producer.produce("rd", b"%d" % number)
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": "rd"})
    consumer.assign([TopicPartition("rd", 0, 0)])
    got: list[bytes] = []
    wait_until(
        lambda: got.extend(m.value() for m in consumer.consume(100, 0.2)) or len(got) >= 100,
        60,
        "the records",
    )
    consumer.close()
    assert got == [b"%d" % number for number in range(100)]


def test_kafka_python_and_aiokafka_come_in(served: Served) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider as AioProvider
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    token = served.key.token()

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    class Other(AioProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token

    words = {
        "bootstrap_servers": served.broker.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "ssl_context": ssl.create_default_context(cafile=served.ca),
    }
    producer = KafkaProducer(sasl_oauth_token_provider=Provider(), **words)
    assert producer.send("kp", b"x").get(60).offset >= 0
    producer.close()

    async def scenario() -> int:
        async with AIOKafkaProducer(sasl_oauth_token_provider=Other(), **words) as other:
            return int((await other.send_and_wait("aio", b"x")).offset)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) >= 0


def test_our_clients_and_the_command_take_a_token_from_its_place(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = served.security(served.key.token())
    with BlockingClient(served.broker.bootstrap, security=security) as client:
        assert client.metadata().brokers

    async def scenario() -> bool:
        async with AsyncClient(served.broker.bootstrap, security=security) as client:
            return bool((await client.metadata()).brokers)

    assert asyncio.run(asyncio.wait_for(scenario(), 60))
    words = {**served.words(), "sasl.oauthbearer.token": "env:OUR_TOKEN"}
    config = served.directory / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    monkeypatch.setenv("JOSEFINE_CLIENT_CONFIG", str(config))
    monkeypatch.setenv("OUR_TOKEN", served.key.token())
    done = josefine(served.broker.bootstrap, "topics", "list")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda key: key.token(lasts_s=-5), "the token expired "),
        (lambda key: key.token(aud="else"), 'the audience of the token is "else", not us'),
        (lambda key: key.token(iss="https://else/"), "not ours"),
        (lambda key: key.token()[:-8] + "AAAAAAAA", "invalid_token"),
    ],
)
def test_refused_token_is_one_clear_error(
    served: Served, made: Callable[[TokenKey], str], words: str
) -> None:
    token = made(served.key)
    with (
        pytest.raises(KafkaError) as caught,
        BlockingClient(served.broker.bootstrap, security=served.security(token, "bad")) as client,
    ):
        client.metadata()
    assert caught.value.code is ErrorCode.sasl_authentication_failed
    assert words in str(caught.value)
    assert token not in str(caught.value)


def test_librdkafka_is_told_why_and_no_token_is_in_the_log(served: Served) -> None:
    told: list[str] = []
    token = served.key.token(aud="else")
    admin = AdminClient(
        {**served.librdkafka(token), "error_cb": lambda error: told.append(str(error))}
    )
    wait_until(lambda: admin.poll(0.1) is not None and told, 60, "an error is told")
    assert any("the audience of the token is" in each for each in told), told
    for part in token.split(".")[1:]:
        assert part not in served.broker.output


def test_acls_know_the_token_s_holder(served: Served) -> None:
    security = served.security(served.key.token("bob"), "bob")
    with BlockingClient(served.broker.bootstrap, security=security) as client:
        assert not client.metadata().topics


def test_pages_take_a_token_too(served: Served) -> None:
    def status(token: str) -> int:
        request = urllib.request.Request(f"{served.broker.admin_url}/metrics")
        request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    assert status(served.key.token()) == 200
    assert status(served.key.token("bob")) == 403
    assert status(served.key.token(aud="else")) == 401


def test_new_key_counts_without_a_restart_and_the_old_one_no_longer(served: Served) -> None:
    later = TokenKey(served.directory, "later", "ES256")

    def is_let_in(key: TokenKey) -> bool:
        security = served.security(key.token(), "either")
        try:
            with BlockingClient(served.broker.bootstrap, security=security) as client:
                return bool(client.metadata().brokers)
        except KafkaError:
            return False

    assert not is_let_in(later)
    try:
        served.jwks.write_text(key_set(later))
        wait_until(lambda: is_let_in(later), 60, "the new key counts")
        assert not is_let_in(served.key)
    finally:
        served.jwks.write_text(key_set(served.key))
    wait_until(lambda: is_let_in(served.key), 60, "the old key counts again")


def test_connection_lasts_as_long_as_its_token_and_the_next_one_takes_the_next(
    served: Served,
) -> None:
    security = served.security("", "short")
    path = served.directory / "short"
    with BlockingClient(served.broker.bootstrap, security=security) as client:

        def is_let_in() -> bool:
            path.write_text(served.key.token(lasts_s=1))
            try:
                return bool(client.metadata().brokers)
            except KafkaError:  # a slow machine: it expired on its way
                return False

        wait_until(is_let_in, 60, "it is let in")
        path.write_text(served.key.token(aud="else"))

        def is_asked_again() -> bool:
            try:
                client.metadata()
            except KafkaError as error:
                return error.code is ErrorCode.sasl_authentication_failed
            return False

        wait_until(is_asked_again, 60, "it has to log in again")
        path.write_text(served.key.token())
        assert client.metadata().brokers


def test_keys_of_an_https_address_count_as_those_of_a_file(served: Served, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    own = authority.issue("keys")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)
    place = tmp_path / "token"
    place.write_text(served.key.token())
    words = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token": f"file:{place}",
    }
    with key_server(tls) as server:
        server.body = key_set(served.key).encode()
        with BrokerProcess(
            tmp_path / "broker",
            broker__listeners=["SASL_PLAINTEXT://127.0.0.1:0"],
            sasl__mechanisms=["OAUTHBEARER"],
            sasl__failure_delay_ms=10,
            oauthbearer__jwks=server.url,
            oauthbearer__jwks_ca=str(authority.certificate),
            oauthbearer__issuer=ISSUER,
            oauthbearer__audience=[AUDIENCE],
        ) as broker:

            def is_let_in() -> bool:
                try:
                    with BlockingClient(broker.bootstrap, security=parse_security(words)) as client:
                        return bool(client.metadata().brokers)
                except KafkaError:
                    return False

            wait_until(is_let_in, 60, "the keys are there")
            metrics = urllib.request.urlopen(f"{broker.admin_url}/metrics").read().decode()
            assert "josefine_jwks_keys 1.0" in metrics
    assert server.asked == 1

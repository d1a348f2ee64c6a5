"""Who guesses passwords at a real broker, on many connections at once: few guesses are looked at,
others are served meanwhile. The guesser has an address of its own, as in a network."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from base64 import b64encode
from collections.abc import Iterator

import pytest

from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.security import parse_security
from josefine_broker.engine.limits.login_backoff import FREE
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from tests.support.secured import PASSWORD, USER, Secured, secured_broker

pytestmark = pytest.mark.timeout(120)
GUESSER, AT_PAGES = "127.0.0.2", "127.0.0.3"
GUESSES = 20
"""Of each, at once."""
NAMES = ("authentication_delayed", "admin_refused")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(
        tmp_path_factory.mktemp("guessed"),
        broker__listeners=["SASL_PLAINTEXT://127.0.0.1:0"],
        sasl__mechanisms=["PLAIN"],
        acls__enabled=True,
        acls__super_users=[f"User:{USER}"],
    ) as broker:
        yield broker


def ask(connection: socket.socket, key: int, request: object) -> bytes:
    version = apis.APIS[key].max_version
    connection.sendall(b"".join(codec.encode_request(key, version, 1, "guesser", request)))
    with connection.makefile("rb") as answers:
        (size,) = struct.unpack(">i", answers.read(4))
        return answers.read(size)


def guess(served: Secured) -> None:
    """Of a user that there is not: a look is thousands of rounds of a hash."""
    host, _, port = served.broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 60, (GUESSER, 0)) as connection:
        handshake = e.sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")
        ask(connection, apis.SASL_HANDSHAKE, handshake)
        proof = e.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0mallory\0guess")
        assert b"authentication failed" in ask(connection, apis.SASL_AUTHENTICATE, proof)


def page(served: Secured, password: str, source: str) -> tuple[int, str]:
    """Status and text of a page that wants a name."""
    where = served.broker.admin_url.removeprefix("http://")
    login = b64encode(f"{USER}:{password}".encode()).decode()
    asking = http.client.HTTPConnection(where, timeout=60, source_address=(source, 0))
    try:
        asking.request("GET", "/metrics", headers={"Authorization": f"Basic {login}"})
        answer = asking.getresponse()
        return answer.status, answer.read().decode()
    finally:
        asking.close()


def counted(served: Secured, name: str) -> float:
    status, text = page(served, PASSWORD, "127.0.0.1")
    assert status == 200
    (line,) = (
        each for each in text.splitlines() if each.startswith(f"josefine_connection_{name}_total ")
    )
    return float(line.split()[-1])


def test_a_guesser_has_a_guess_a_second_and_others_are_let_in_and_served(served: Secured) -> None:
    words = served.words("PLAIN") | {"security.protocol": "SASL_PLAINTEXT"}
    del words["ssl.ca.location"]
    delayed, refused = (counted(served, name) for name in NAMES)
    statuses: list[int] = []
    wrong = [
        threading.Thread(target=each)
        for each in (lambda: guess(served), lambda: statuses.append(page(served, "x", AT_PAGES)[0]))
        for _ in range(GUESSES)
    ]
    for thread in wrong:
        thread.start()
    began_s, longest_s, times = time.monotonic(), 0.0, 0
    while any(thread.is_alive() for thread in wrong):
        asked_s = time.monotonic()
        with BlockingClient(served.broker.bootstrap, security=parse_security(words)) as client:
            assert client.metadata().brokers
        assert counted(served, NAMES[0]) >= delayed
        longest_s, times = max(longest_s, time.monotonic() - asked_s), times + 1
    slowed = counted(served, NAMES[0]) - delayed
    assert 2 * GUESSES - slowed <= 2 * (FREE + 1 + time.monotonic() - began_s)
    assert (times > 1, longest_s < 10) == (True, True)
    assert set(statuses) == {401, 429}
    assert counted(served, NAMES[1]) - refused == GUESSES
    assert served.broker.output.count("admin login refused") == 1
    assert served.broker.output.count("authentication refused") == 1
    assert served.broker.output.count("authentication failed") == 1  # its reason: nowhere else

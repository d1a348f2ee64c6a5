"""Where the keys of tokens come from, and what becomes of those that cannot be had."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.engine.security.tokens import TokenError, TokenRules
from josefine_broker.host.net.token_keys import (
    RETRY_MS,
    AddressKeys,
    Bearers,
    FileKeys,
    KeysError,
)
from tests.support.certificates import Authority
from tests.support.tokens import AUDIENCE, ISSUER, KeyServer, TokenKey, key_server, key_set

REFRESH_MS = 3_600_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenKey, TokenKey]:
    directory = tmp_path_factory.mktemp("keys")
    return TokenKey(directory, "one"), TokenKey(directory, "two")


@pytest.fixture
def authority() -> Iterator[KeyServer]:
    with key_server() as found:
        yield found


class Clock:
    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


def at_once(job: Callable[[Any], Any], is_wanted: object, done: Callable[[Any], None]) -> None:
    """As a worker whose thread is very fast."""
    done(job(None))


def of_address(url: str, clock: Clock, context: ssl.SSLContext | None = None) -> AddressKeys:
    return AddressKeys(url, context, REFRESH_MS, at_once, clock.monotonic_ms)


def test_file_is_read_again_when_it_changes_and_a_broken_change_is_not_taken(
    tmp_path: Path, pair: tuple[TokenKey, TokenKey]
) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(key_set(pair[0]))
    keys = FileKeys(path)
    assert keys.keys.find("ES256", "one")

    path.write_text("nonsense")
    keys.reload_changed()
    keys.reload_changed()
    assert keys.keys.find("ES256", "one")
    assert keys.reload_failures == 1

    path.write_text(key_set(pair[1]))
    os.utime(path, (1, 1))
    keys.reload_changed()
    assert keys.keys.find("ES256", "two")
    assert not keys.keys.find("ES256", "one")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"\xff", "is not UTF-8"),
        (b"{}", "has no list of keys: it is not a JWKS"),
        (b'{"keys": []}', "has no public key for RS256 or ES256"),
        (b" " * (1 << 20) + b"{}", "is larger than 1048576 bytes"),
    ],
)
def test_file_that_cannot_be_used_stops_the_start_in_one_sentence(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "jwks.json"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(KeysError, match=rf"^oauthbearer\.jwks: {path}.* {words}"):
        FileKeys(path)


def test_address_is_asked_again_after_a_time_and_when_a_key_is_unknown(
    authority: KeyServer, pair: tuple[TokenKey, TokenKey]
) -> None:
    clock = Clock()
    keys = of_address(authority.url, clock)
    authority.body = key_set(pair[0]).encode()
    keys.reload_changed()
    assert keys.keys.find("ES256", "one")

    authority.body = key_set(*pair).encode()
    clock.now_ms = REFRESH_MS - 1
    keys.reload_changed()
    assert authority.asked == 1
    clock.now_ms += 1
    keys.reload_changed()
    assert keys.keys.find("ES256", "two")

    rules = TokenRules(issuer=ISSUER, audience=frozenset((AUDIENCE,)))
    with pytest.raises(TokenError):
        Bearers(keys, rules, lambda: 0).judge(
            pair[0].of({"alg": "ES256", "kid": "three"}, {"iss": ISSUER})
        )
    clock.now_ms += RETRY_MS - 1
    keys.reload_changed()
    assert authority.asked == 2
    clock.now_ms += 1
    keys.reload_changed()
    clock.now_ms += RETRY_MS
    keys.reload_changed()
    assert authority.asked == 3


def test_address_that_fails_leaves_the_keys_and_is_asked_soon_again(
    authority: KeyServer, pair: tuple[TokenKey, TokenKey], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    keys = of_address(authority.url, clock)
    good = key_set(pair[0]).encode()
    failures = [(500, good), (302, good), (200, b"nonsense"), (200, b" " * (1 << 20) + good)]
    with caplog.at_level(logging.WARNING):
        for number, (authority.status, authority.body) in enumerate(failures, 1):
            keys.reload_changed()
            assert (len(keys.keys), keys.reload_failures) == (0, number)
            clock.now_ms += 60_000
    assert [each.__dict__["reason"] for each in caplog.records[:2]] == [
        "HTTP status 500",
        "HTTP status 302",
    ]

    authority.status, authority.body = 200, good
    keys.reload_changed()
    assert len(keys.keys) == 1
    authority.status = 503
    clock.now_ms += REFRESH_MS
    keys.reload_changed()
    assert len(keys.keys) == 1  # those of before count on


def test_address_where_nobody_listens_is_told(caplog: pytest.LogCaptureFixture) -> None:
    keys = of_address("http://127.0.0.1:9/keys", Clock())

    with caplog.at_level(logging.WARNING):
        keys.reload_changed()

    assert "connection refused" in caplog.records[0].__dict__["reason"]


def test_address_over_tls_is_believed_with_a_certificate_of_the_right_authority_alone(
    tmp_path: Path, pair: tuple[TokenKey, TokenKey], caplog: pytest.LogCaptureFixture
) -> None:
    right, wrong = Authority(tmp_path / "right"), Authority(tmp_path / "wrong")
    own = right.issue("keys")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(own.certificate, own.key)

    def keys_by(authority: Authority, url: str) -> int:
        context = ssl.create_default_context(cafile=authority.certificate)
        keys = of_address(url, Clock(), context)
        keys.reload_changed()
        return len(keys.keys)

    with key_server(serving) as server, caplog.at_level(logging.WARNING):
        server.body = key_set(pair[0]).encode()
        assert keys_by(right, server.url) == 1
        assert keys_by(wrong, server.url) == 0
        elsewhere = server.url.replace("127.0.0.1", "127.0.0.2")  # a name that it has not
        assert keys_by(right, elsewhere) == 0
    assert "certificate verify failed" in caplog.records[0].__dict__["reason"]

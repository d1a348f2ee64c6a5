"""A client's security in the words of librdkafka and of Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.tls_files import TlsError
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.io_tls import client_context, secured
from josefine_broker.client.security import PLAINTEXT, parse_security
from josefine_broker.wire.entities.sasl_handshake import SaslHandshakeResponse

BEARER = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "oauthbearer",
    "sasl.oauthbearer.token": "file:/run/token 1",
}


def test_nothing_said_is_plaintext() -> None:
    assert parse_security({}) == PLAINTEXT
    assert client_context(PLAINTEXT) is None


def test_words_of_both_clients_mean_the_same() -> None:
    ours = {
        "security.protocol": "ssl",
        "ssl.ca.location": "/ca",
        "ssl.certificate.location": "/me",
        "ssl.endpoint.identification.algorithm": "none",
    }
    javas = {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/ca",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/me",
        "ssl.keystore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }

    assert parse_security(ours) == parse_security(javas)
    assert not parse_security(ours).verify_host


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: 'TLS' is not one of"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites: unknown setting"),
        ({"ssl.ca.location": "/x"}, "ssl.ca.location: has no effect with security.protocol=PLAIN"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/x"},
            "ssl.truststore.type: only PEM is read, got 'JKS'",
        ),
        (
            {"security.protocol": "SSL", "ssl.key.location": "/x"},
            "ssl.key.location: needs ssl.certificate.location",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, got 'GSSAPI'",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.oauthbearer.token: is missing: file:PATH or env:NAME",
        ),
        (
            {**BEARER, "sasl.username": "a"},
            "sasl.username: has no effect with sasl.mechanism=OAUTHBEARER",
        ),
        (
            {**BEARER, "sasl.mechanism": "PLAIN"},
            "sasl.oauthbearer.token: has no effect with sasl.mechanism=PLAIN",
        ),
        (
            {**BEARER, "sasl.jaas.config": "x"},
            "sasl.jaas.config: must be OAuthBearerLoginModule required;",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: must be one of"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a"},
            "sasl.password: is missing",
        ),
        (
            {"security.protocol": "SSL", "sasl.username": "a"},
            "sasl.username: has no effect with security.protocol=SSL",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "hunter2",
            },
            "sasl.jaas.config: must be PlainLoginModule or ScramLoginModule required",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"},
            "must be https or none, got 'dns'",
        ),
    ],
)
def test_wrong_setting_is_one_sentence(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=r"^[a-z.]+: ") as caught:
        parse_security(settings)

    assert words in str(caught.value)


def test_secret_is_in_no_repr() -> None:
    security = parse_security({"security.protocol": "SSL", "ssl.key.password": "hunter2"})

    assert security.key_password == "hunter2"
    assert "hunter2" not in repr(security)


def test_missing_file_is_told_before_anything_is_dialled(tmp_path: Path) -> None:
    security = parse_security(
        {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "none")}
    )

    with pytest.raises(TlsError, match=r"^ssl\.ca\.location: .*none: no such file"):
        BlockingClient("127.0.0.1:1", security=security)


def test_login_is_read_in_the_words_of_both_clients_and_its_secret_is_in_no_repr() -> None:
    base = {"security.protocol": "SASL_SSL"}
    ours = {"sasl.mechanisms": "plain", "sasl.username": "al", "sasl.password": 'hunt"er2'}
    javas = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="al" password="hunt\\"er2";',
    }

    security = parse_security(base | ours)

    assert parse_security(base | javas) == security
    assert (security.username, security.password) == ("al", 'hunt"er2')
    assert "er2" not in repr(security)


def test_token_s_place_is_read_in_our_words_and_in_java_s() -> None:
    javas = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///run/token%201",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        " required ;",
    }

    assert parse_security(javas) == parse_security(BEARER)
    assert str(parse_security(BEARER).token) == "file:/run/token 1"


@pytest.mark.parametrize("token", ["hunter2", "file:", "https://a/token"])
def test_token_in_the_place_of_its_place_is_refused_and_not_repeated(token: str) -> None:
    for name in ("sasl.oauthbearer.token", "sasl.oauthbearer.token.endpoint.url"):
        words = {k: v for k, v in BEARER.items() if k != "sasl.oauthbearer.token"}
        with pytest.raises(ValueError, match=f"^{name}: must be file:") as caught:
            parse_security({**words, name: token})
        assert "hunter2" not in str(caught.value)


def test_token_is_read_for_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    place = {**BEARER, "security.protocol": "SASL_PLAINTEXT"}
    place["sasl.oauthbearer.token"] = f"file:{path}"
    how = secured(parse_security(place))

    def said() -> bytes:
        login = how.login()
        assert login is not None
        login.hear(SaslHandshakeResponse())
        return bytes(login.request()[1].auth_bytes)

    for token in ("first", "second"):
        path.write_text(f" {token}\n")
        assert said() == f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    for wrong in ("", "two tokens", "a\x01b"):
        path.write_text(wrong)
        with pytest.raises(KafkaError, match=r"sasl\.oauthbearer\.token: file:.*: holds no token"):
            how.login()
    path.unlink()
    with pytest.raises(KafkaError, match=r"sasl\.oauthbearer\.token: file:.*: no such file"):
        how.login()

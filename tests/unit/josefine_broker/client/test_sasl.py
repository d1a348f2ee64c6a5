"""A client's login: the tokens it says, and which answers it believes."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.sasl import Login
from josefine_broker.client.security import Security, parse_security
from josefine_broker.engine.security.sasl import MECHANISMS, Sasl, Users
from josefine_broker.engine.security.tokens import Holder, TokenError
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

WITH_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = Users({"alice": "secret"}, b"salting", 4096)


def security(mechanism: str, password: str = "secret") -> Security:
    return parse_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
        }
    )


def judge(token: str) -> Holder:
    if token == "alice.s":
        return Holder("alice", 1_000)
    raise TokenError("the token expired 5 s ago", is_signed=True)


def answer(sasl: Sasl, login: Login) -> Any:
    """The broker's answer to the client's next request."""
    key, request = login.request()
    if key == apis.SASL_HANDSHAKE:
        error = sasl.choose(request.mechanism)
        return e.sasl_handshake.SaslHandshakeResponse(error_code=error, mechanisms=MECHANISMS[1:])
    given = sasl.authenticate(request.auth_bytes, USERS, "snonce", judge)
    return e.sasl_authenticate.SaslAuthenticateResponse(
        error_code=given.error, error_message=given.message, auth_bytes=given.token
    )


def logged_in(sasl: Sasl, login: Login) -> int:
    """After so many answers. Raises KafkaError."""
    rounds = 1
    while not login.hear(answer(sasl, login)):
        rounds += 1
    return rounds


@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
def test_login_ends_when_each_side_knows_the_other(mechanism: str) -> None:
    sasl, login = Sasl(MECHANISMS), Login(security(mechanism), "cnonce")

    rounds = logged_in(sasl, login)

    assert sasl.user == "alice"
    assert rounds == (2 if mechanism == "PLAIN" else 3)


@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
def test_refusal_names_the_user_and_not_the_password(mechanism: str) -> None:
    sasl, login = Sasl(MECHANISMS), Login(security(mechanism, "hunter2"), "cnonce")

    with pytest.raises(KafkaError) as caught:
        logged_in(sasl, login)

    assert caught.value.code is ErrorCode.sasl_authentication_failed
    assert "user 'alice'" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_mechanism_that_is_not_taken_is_told_with_those_that_are() -> None:
    login = Login(security("PLAIN"), "cnonce")

    with pytest.raises(KafkaError, match=r"sasl\.mechanism=PLAIN \(it takes SCRAM-SHA-256, "):
        login.hear(answer(Sasl(MECHANISMS[1:]), login))


def test_broker_that_cannot_prove_itself_is_not_believed() -> None:
    sasl, login = Sasl(MECHANISMS), Login(security("SCRAM-SHA-256"), "cnonce")
    for _ in range(2):
        assert not login.hear(answer(sasl, login))

    forged = e.sasl_authenticate.SaslAuthenticateResponse(auth_bytes=b"v=AAAA")
    with pytest.raises(KafkaError, match="the broker does not know our password"):
        login.hear(forged)


def bearer_login(token: str) -> Login:
    words = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token": "env:TOKEN",
    }
    return Login(parse_security(words), "cnonce", token)


def test_token_is_said_once_and_lets_in() -> None:
    sasl = Sasl(MECHANISMS)

    assert logged_in(sasl, bearer_login("alice.s")) == 2
    assert sasl.user == "alice"


def test_refused_token_is_told_with_its_place_and_the_broker_s_reason() -> None:
    with pytest.raises(KafkaError) as caught:
        logged_in(Sasl(MECHANISMS), bearer_login("hunter2"))

    assert caught.value.code is ErrorCode.sasl_authentication_failed
    said = "token of env:TOKEN: invalid_token: the token expired 5 s ago"
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("challenge", [b"{}", b"[1]", b"no JSON \xff", b'{"status": 7}'])
def test_refusal_in_no_words_that_are_known_is_told_as_it_is(challenge: bytes) -> None:
    login = bearer_login("t")
    assert not login.hear(e.sasl_handshake.SaslHandshakeResponse(mechanisms=MECHANISMS))

    assert not login.hear(e.sasl_authenticate.SaslAuthenticateResponse(auth_bytes=challenge))
    assert login.request()[1].auth_bytes == b"\x01"
    with pytest.raises(KafkaError):
        login.hear(e.sasl_authenticate.SaslAuthenticateResponse())  # lets in after all

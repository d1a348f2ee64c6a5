"""Authentication of one connection: who comes in, who does not, and what they are told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.oauth import ACKNOWLEDGED
from josefine_broker.base.oauth import client_first as bearer_first
from josefine_broker.base.scram import client_final, client_first
from josefine_broker.engine.security.sasl import (
    BEARER_BYTES_MAX,
    MECHANISMS,
    TOKEN_BYTES_MAX,
    TRANSITIONS,
    Sasl,
    SaslEvent,
    SaslState,
    Users,
)
from josefine_broker.engine.security.tokens import Holder, TokenError

USERS = Users({"alice": "secret", "bob": "other"}, b"salting", 4096)
FAILED = ErrorCode.sasl_authentication_failed


def chosen(mechanism: str) -> Sasl:
    sasl = Sasl(MECHANISMS)
    assert sasl.choose(mechanism) is ErrorCode.none
    return sasl


def plain(token: bytes) -> Sasl:
    sasl = chosen("PLAIN")
    answer = sasl.authenticate(token, USERS, "nonce")
    assert (answer.error is ErrorCode.none) is (sasl.state is SaslState.KNOWN)
    return sasl


def scram(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> tuple[Sasl, bool]:
    """The machine behind both messages, and whether it proved that it knows the password."""
    sasl = chosen(mechanism)
    first = client_first(user, "cnonce")
    challenge = sasl.authenticate(first.encode(), USERS, "snonce")
    assert challenge.error is ErrorCode.none
    final, awaited = client_final(mechanism, password, first, challenge.token)
    answer = sasl.authenticate(final.encode(), USERS, "unused")
    return sasl, answer.token.decode() == awaited


def test_right_password_comes_in_under_its_name() -> None:
    assert plain(b"\0alice\0secret").user == "alice"
    assert plain(b"alice\0alice\0secret").state is SaslState.KNOWN
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        sasl, is_proved = scram("alice", "secret", mechanism)
        assert (sasl.state, sasl.user, is_proved) == (SaslState.KNOWN, "alice", True)


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0other",
        b"\0bob\0secret",
        b"\0carol\0",
        b"\0\0",
        b"bob\0alice\0secret",
        b"alice\0secret",
        b"\0alice\0secret\0",
        b"",
        b"\0alice\0\xff",
        b"\0alice\0secre",
    ],
)
def test_anything_else_of_plain_is_refused(token: bytes) -> None:
    sasl = plain(token)

    assert (sasl.state, sasl.user) == (SaslState.REFUSED, "")


@pytest.mark.parametrize(("user", "password"), [("alice", "other"), ("carol", "x"), ("carol", "")])
def test_wrong_proof_of_scram_is_refused_and_proves_nothing_back(user: str, password: str) -> None:
    sasl, is_proved = scram(user, password)

    assert (sasl.state, is_proved, sasl.user) == (SaslState.REFUSED, False, "")


def test_user_that_there_is_not_is_challenged_like_any_other_and_always_alike() -> None:
    def challenge(user: str, users: Users) -> bytes:
        said = client_first(user, "c").encode()
        return chosen("SCRAM-SHA-256").authenticate(said, users, "s").token

    assert challenge("carol", USERS) == challenge("carol", USERS)
    assert len(challenge("carol", USERS)) == len(challenge("alice", USERS))
    other = Users({"alice": "secret"}, b"another", 4096)
    assert challenge("carol", USERS) != challenge("carol", other)


def test_mechanism_that_is_not_served_ends_it() -> None:
    sasl = Sasl(("SCRAM-SHA-512",))

    assert sasl.choose("PLAIN") is ErrorCode.unsupported_sasl_mechanism
    assert sasl.state is SaslState.REFUSED


def test_requests_out_of_order_end_it() -> None:
    early, twice = Sasl(MECHANISMS), chosen("PLAIN")

    assert early.authenticate(b"\0alice\0secret", USERS, "n").error is ErrorCode.illegal_sasl_state
    assert twice.choose("PLAIN") is ErrorCode.illegal_sasl_state
    assert {early.state, twice.state} == {SaslState.REFUSED}


def again(sasl: Sasl, token: bytes, mechanism: str = "PLAIN") -> ErrorCode:
    """Of another proof on the same connection."""
    error = sasl.choose(mechanism)
    if error is not ErrorCode.none:
        return error
    assert sasl.state is SaslState.CHOSEN
    return sasl.authenticate(token, USERS, "nonce").error


def in_session(session_ms: int | None) -> Sasl:
    sasl = Sasl(MECHANISMS, session_ms)
    sasl.choose("PLAIN")
    sasl.authenticate(b"\0alice\0secret", USERS, "nonce")
    assert sasl.state is SaslState.KNOWN
    return sasl


def test_known_one_may_prove_again_that_it_is_who_it_was() -> None:
    """KIP-368."""
    sasl = in_session(5_000)

    for _ in range(3):
        assert again(sasl, b"\0alice\0secret") is ErrorCode.none
        assert (sasl.state, sasl.user, sasl.lasts_ms) == (SaslState.KNOWN, "alice", 5_000)


@pytest.mark.parametrize(
    ("session_ms", "token", "mechanism", "error"),
    [
        (5_000, b"\0bob\0other", "PLAIN", FAILED),
        (5_000, b"\0alice\0guess", "PLAIN", FAILED),
        (5_000, b"", "SCRAM-SHA-256", ErrorCode.unsupported_sasl_mechanism),
        (None, b"\0alice\0secret", "PLAIN", ErrorCode.illegal_sasl_state),
    ],
)
def test_another_proof_than_the_first_ends_it(
    session_ms: int | None, token: bytes, mechanism: str, error: ErrorCode
) -> None:
    sasl = in_session(session_ms)

    assert again(sasl, token, mechanism) is error
    assert (sasl.state, sasl.user) == (SaslState.REFUSED, "alice")


def test_another_user_by_scram_is_refused_and_the_broker_proves_nothing_to_it() -> None:
    sasl = Sasl(MECHANISMS, 5_000)
    answers = []
    for user, password in (("alice", "secret"), ("bob", "other")):
        assert sasl.choose("SCRAM-SHA-512") is ErrorCode.none
        first = client_first(user, "cnonce")
        challenge = sasl.authenticate(first.encode(), USERS, "snonce").token
        final, _ = client_final("SCRAM-SHA-512", password, first, challenge)
        answers.append(sasl.authenticate(final.encode(), USERS, "unused"))

    assert [each.error for each in answers] == [ErrorCode.none, FAILED]
    assert (answers[1].token, sasl.user) == (b"", "alice")


@pytest.mark.parametrize(
    ("session_ms", "lasts_ms", "by_token"),
    [(None, 1_000, True), (5_000, 1_000, True), (300, 300, False), (1_000, 1_000, True)],
)
def test_session_ends_with_the_token_at_the_latest(
    session_ms: int | None, lasts_ms: int, by_token: bool
) -> None:
    sasl = Sasl(MECHANISMS, session_ms)
    sasl.choose("OAUTHBEARER")
    sasl.authenticate(bearer_first("t"), USERS, "", lambda _: Holder("alice", 1_000))

    assert (sasl.lasts_ms, sasl.ends_with_token) == (lasts_ms, by_token)


def test_token_that_is_too_long_is_not_looked_at() -> None:
    sasl = chosen("PLAIN")

    answer = sasl.authenticate(b"\0alice\0secret".ljust(TOKEN_BYTES_MAX + 1, b"x"), USERS, "n")

    assert (answer.error, answer.reason) == (FAILED, "a token that is too long")


def test_nobody_leaves_a_refusal_and_nobody_is_known_but_by_proof() -> None:
    assert not [state for state, _ in TRANSITIONS if state is SaslState.REFUSED]
    ways = [event for (_, event), after in TRANSITIONS.items() if after is SaslState.KNOWN]
    assert set(ways) == {SaslEvent.PROVED}


def test_no_secret_is_in_a_repr() -> None:
    assert repr(USERS) == "Users(2)"


PARTS = [b"n,", b",", b"a=alice", b"\x01", b"auth=Bearer ", b"alice.s", b"o.ld", b"host=x"]


def judge(token: str) -> Holder:
    """One token is alice's; one is known to be old; of others nothing is known."""
    if token == "alice.s":
        return Holder("alice", 1_000)
    raise TokenError("the token expired" if token == "o.ld" else "?", is_signed=token == "o.ld")


def bearer(message: bytes) -> tuple[Sasl, bytes, str]:
    """The machine behind the message and, where it was told something, its acknowledgement; what
    it was told, and the reason in our log."""
    sasl = chosen("OAUTHBEARER")
    answer = sasl.authenticate(message, USERS, "n", judge)
    told, reason = answer.token, answer.reason
    if answer.error is ErrorCode.none and told:
        assert sasl.state is SaslState.REJECTED
        answer = sasl.authenticate(ACKNOWLEDGED, USERS, "n", judge)
        assert answer.error is FAILED
        assert told.decode() in answer.message
        reason = answer.reason
    assert (answer.error is ErrorCode.none) is (sasl.state is SaslState.KNOWN)
    return sasl, told, reason


@pytest.mark.parametrize(
    "message",
    [
        bearer_first("alice.s"),
        b"n,a=alice,\x01host=x\x01port=1\x01auth=bearer alice.s\x01\x01",
        b"y,,\x01auth=Bearer alice.s\x01\x01",
    ],
)
def test_good_token_comes_in_under_its_name_for_as_long_as_it_counts(message: bytes) -> None:
    sasl, told, _ = bearer(message)

    assert (sasl.state, sasl.user, sasl.lasts_ms) == (SaslState.KNOWN, "alice", 1_000)
    assert told == b""


def test_refused_token_is_told_as_the_rfc_says_and_why_if_its_authority_made_it() -> None:
    sasl, told, reason = bearer(bearer_first("o.ld"))
    assert (sasl.state, sasl.user, reason) == (SaslState.REFUSED, "", "the token expired")
    assert json.loads(told) == {
        "status": "invalid_token",
        "error_description": "the token expired",
    }

    _, told, reason = bearer(bearer_first("forged"))
    assert (json.loads(told), reason) == ({"status": "invalid_token"}, "?")

    _, told, _ = bearer(b"n,a=bob,\x01auth=Bearer alice.s\x01\x01")
    assert json.loads(told)["error_description"] == "the token is not that user's"


def test_who_was_told_of_a_refusal_cannot_try_another_token() -> None:
    sasl = chosen("OAUTHBEARER")
    assert sasl.authenticate(bearer_first("forged"), USERS, "n", judge).token

    assert sasl.authenticate(bearer_first("alice.s"), USERS, "n", judge).error is FAILED
    assert (sasl.state, sasl.user) == (SaslState.REFUSED, "")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\0alice\0alice.s",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic alice.s\x01\x01",
        b"n,,\x01auth=Bearer alice.s\x01",
        b"n,,\x01auth=Bearer alice.s\x01auth=Bearer o.ld\x01\x01",
        b"n,,\x01auth=Bearer alice.s\xff\x01\x01",
        b"n,,\x01auth=Bearer alice.s b\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer alice.s\x01\x01",
        b"n,,\x01auth=Bearer alice.s\x01\x01x",
    ],
)
def test_anything_else_of_oauthbearer_is_refused(message: bytes) -> None:
    sasl, _, _ = bearer(message)

    assert (sasl.state, sasl.user) == (SaslState.REFUSED, "")


def test_token_may_be_longer_than_a_password_and_has_its_bound() -> None:
    sasl = chosen("OAUTHBEARER")
    answer = sasl.authenticate(bearer_first("x" * (TOKEN_BYTES_MAX + 1)), USERS, "n", judge)
    assert answer.error is ErrorCode.none  # it was looked at

    answer = chosen("OAUTHBEARER").authenticate(b"x" * (BEARER_BYTES_MAX + 1), USERS, "n", judge)
    assert (answer.error, answer.reason) == (FAILED, "a token that is too long")


def test_without_a_judge_no_token_comes_in() -> None:
    sasl = chosen("OAUTHBEARER")

    assert sasl.authenticate(bearer_first("alice.s"), USERS, "n").token
    assert sasl.state is SaslState.REJECTED


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(st.sampled_from(PARTS) | st.binary(max_size=4), max_size=8))
def test_no_first_message_comes_in_but_with_the_good_token(parts: list[bytes]) -> None:
    message = b"".join(parts)
    sasl = chosen("OAUTHBEARER")

    sasl.authenticate(message, USERS, "n", judge)

    assert sasl.state in (SaslState.KNOWN, SaslState.REJECTED, SaslState.REFUSED)
    if sasl.state is SaslState.KNOWN:
        assert message.lower().count(b"auth=bearer alice.s\x01") == 1

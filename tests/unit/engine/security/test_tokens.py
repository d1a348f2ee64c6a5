"""Which tokens count, and what is said of those that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.security.key_set import KeySet, parse_key_set
from josefine_broker.engine.security.tokens import Holder, TokenError, TokenRules, holder_of
from tests.support.tokens import AUDIENCE, ISSUER, TokenKey, base64url, key_set

NOW_S = 1_700_000_000
RULES = TokenRules(issuer=ISSUER, audience=frozenset((AUDIENCE, "other")), clock_skew_ms=30_000)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> TokenKey:
    return TokenKey(tmp_path_factory.mktemp("keys"), "one")


@pytest.fixture(scope="module")
def keys(signer: TokenKey) -> KeySet:
    return parse_key_set(key_set(signer))


def judged(token: str, keys: KeySet, rules: TokenRules = RULES) -> Holder:
    return holder_of(token, keys, rules, 1_000 * NOW_S)


def refused(token: str, keys: KeySet, rules: TokenRules = RULES) -> TokenError:
    with pytest.raises(TokenError) as caught:
        judged(token, keys, rules)
    return caught.value


def test_good_token_names_its_holder_for_as_long_as_it_counts(
    signer: TokenKey, keys: KeySet
) -> None:
    token = signer.token(exp=NOW_S + 60)

    assert judged(token, keys) == Holder("alice", 90_000)
    assert judged(signer.token(exp=NOW_S + 60, aud=["x", "other"]), keys).name == "alice"
    assert judged(signer.token(exp=NOW_S - 29.5), keys).lasts_ms == 500


def test_name_is_in_the_claim_that_is_configured(signer: TokenKey, keys: KeySet) -> None:
    rules = TokenRules(issuer=ISSUER, audience=frozenset((AUDIENCE,)), principal_claim="azp")

    assert judged(signer.token(exp=NOW_S + 1, azp="app"), keys, rules).name == "app"
    assert "no name in azp" in refused(signer.token(exp=NOW_S + 1), keys, rules).reason


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": NOW_S - 30}, "expired 30 s ago"),
        ({"exp": None}, "never expires"),
        ({"exp": "soon"}, "exp of the token is not a valid time"),
        ({"exp": True}, "exp of the token is not a valid time"),
        ({"exp": -1}, "exp of the token is not a valid time"),
        ({"exp": 10**400}, "exp of the token is not a valid time"),
        ({"exp": float("nan")}, "exp of the token is not a valid time"),
        ({"exp": float("inf")}, "exp of the token is not a valid time"),
        ({"nbf": NOW_S + 31}, "31 s too early by its nbf"),
        ({"iat": NOW_S + 31}, "31 s too early by its iat"),
        ({"iat": []}, "iat of the token is not a valid time"),
        ({"iss": "https://other/"}, 'issuer of the token is "https://other/", not ours'),
        ({"iss": None}, "issuer of the token is null"),
        ({"aud": "else"}, 'audience of the token is "else", not us'),
        ({"aud": ["a", {}]}, "not us"),
        ({"aud": None}, "audience of the token is null"),
        ({"aud": {AUDIENCE: 1}}, "not us"),
        ({"sub": ""}, "no name in sub"),
        ({"sub": 7}, "no name in sub"),
        ({"sub": "a\nb"}, "no name in sub"),
        ({"sub": "x" * 1_001}, "no name in sub"),
        ({"sub": None}, "no name in sub"),
    ],
)
def test_signed_token_that_does_not_count_here_is_told_why(
    signer: TokenKey, keys: KeySet, claims: dict[str, Any], words: str
) -> None:
    error = refused(signer.token(**{"exp": NOW_S + 60, **claims}), keys)

    assert words in error.reason
    assert error.is_signed


def test_token_of_nobody_known_is_refused_without_a_word_of_what_it_says(
    tmp_path: Path, signer: TokenKey, keys: KeySet
) -> None:
    forger = TokenKey(tmp_path, "one")
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW_S + 60}
    head, claims, signature = signer.of({"alg": "ES256", "kid": "one"}, good).split(".")
    other = base64url(json.dumps({**good, "sub": "admin"}).encode())
    forgeries = [
        forger.of({"alg": "ES256", "kid": "one"}, good),
        f"{head}.{other}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        f"{head}.{claims}.{signature}.x",
        f"{head}.{claims}\udce9.{signature}",
        signer.of({"alg": "none", "kid": "one"}, good),
        signer.of({"alg": "HS256", "kid": "one"}, good),
        signer.of({"alg": "RS256", "kid": "one"}, good),
        signer.of({"alg": ["ES256"], "kid": "one"}, good),
        signer.of({"alg": "ES256", "kid": "one", "crit": ["exp"]}, good),
        signer.of({"alg": "ES256", "kid": "one", "b64": False}, good),
        signer.of({"alg": "ES256", "kid": 1}, good),
        signer.of({"alg": "ES256", "kid": "two"}, good),
        f"{base64url(b'[]')}.{claims}.{signature}",
        f"{base64url(b'[' * 9_000)}.{claims}.{signature}",
        "a.b.c",
        "...",
        "",
    ]

    for forged in forgeries:
        error = refused(forged, keys)
        assert not error.is_signed, forged
        assert "admin" not in error.reason
    assert [refused(each, keys).lacks_key for each in forgeries].count(True) == 2


def test_token_without_a_key_s_name_needs_the_only_one(
    tmp_path: Path, signer: TokenKey, keys: KeySet
) -> None:
    token = signer.of(
        {"alg": "ES256"}, {"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": NOW_S + 60}
    )
    both = parse_key_set(key_set(signer, TokenKey(tmp_path, "two")))

    assert judged(token, keys).name == "a"
    assert "must have a kid" in refused(token, both).reason


def test_keys_for_something_else_are_passed_over(signer: TokenKey) -> None:
    jwk = signer.jwk()
    others = [
        {**jwk, "use": "enc"},
        {**jwk, "alg": "ES384"},
        {**jwk, "crv": "P-384"},
        {**jwk, "x": jwk["x"][:-2]},
        {**jwk, "y": jwk["x"]},
        {**jwk, "kid": 7},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "small"},
        {"kty": ["RSA"]},
        "x",
    ]

    assert len(parse_key_set(json.dumps({"keys": [*others, jwk]}))) == 1
    with pytest.raises(ValueError, match="has no public key for RS256 or ES256"):
        parse_key_set(json.dumps({"keys": others}))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"keys": {}}', "[" * 100_000])
def test_text_that_is_no_key_set_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|it is not a JWKS"):
        parse_key_set(text)


WORDS = st.sampled_from(["alg", "kid", "crit", "iss", "aud", "sub", "exp", "nbf", "keys", "kty"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["ES256", "one", ISSUER, AUDIENCE, "EC", "P-256", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=6)


@settings(max_examples=100, deadline=None)
@given(header=OBJECTS, claims=OBJECTS, raw=st.text(max_size=20))
def test_nothing_that_calls_itself_a_token_does_more_than_be_refused(
    keys: KeySet, header: dict[str, Any], claims: dict[str, Any], raw: str
) -> None:
    head, body = (base64url(json.dumps(each).encode()) for each in (header, claims))
    for token in (raw, f"{head}.{body}.{raw}", f"{head}.{raw}.{body}", f"{raw}.{body}."):
        with pytest.raises(TokenError):
            judged(token, keys)


MINE = b"mine"


class OpenToAll:
    def signed(self, message: bytes, signature: bytes) -> bool:
        return signature == MINE


def verdict(token: str, keys: KeySet) -> Holder | TokenError:
    try:
        return judged(token, keys)
    except TokenError as error:
        return error


@settings(max_examples=100, deadline=None)
@given(claims=OBJECTS)
def test_whatever_an_authority_says_is_a_holder_or_a_refusal(claims: dict[str, Any]) -> None:
    """Signed by a key that takes whatever it is shown: no signature has to be made."""
    head, body = (base64url(json.dumps(each).encode()) for each in ({"alg": "RS256"}, claims))
    open_to_all = KeySet({("RS256", ""): OpenToAll()})

    found = verdict(f"{head}.{body}.{base64url(MINE)}", open_to_all)

    if isinstance(found, TokenError):
        assert found.is_signed
    else:
        assert (found.name, claims["iss"]) == (claims["sub"], ISSUER)


@settings(max_examples=200, deadline=None)
@given(said=VALUES, raw=st.text(max_size=20))
def test_no_text_does_more_than_be_no_key_set(said: Any, raw: str) -> None:
    for text in (raw, json.dumps(said), json.dumps({"keys": said}), json.dumps({"keys": [said]})):
        with pytest.raises(ValueError, match=r"is not JSON|it is not a JWKS|has no public key"):
            parse_key_set(text)

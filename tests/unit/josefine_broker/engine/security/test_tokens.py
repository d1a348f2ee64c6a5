"""Which tokens count, and what is said of those that do not."""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm

from josefine_broker.engine.security.key_set import KeySet, parse_key_set
from josefine_broker.engine.security.tokens import Holder, TokenError, TokenRules, holder_of
from tests.support.tokens import AUDIENCE, ISSUER, TokenKey, base64url, key_set

NOW_S = 1_700_000_000
RULES = TokenRules(issuer=ISSUER, audience=frozenset((AUDIENCE, "other")), clock_skew_ms=30_000)

WRONG, NO_JWT, NO_JSON = "with an invalid signature", "not a signed JWT", "is not JSON"
UNSIGNED, HEADER = "not signed with RS256 or ES256", "unsupported header"


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
    none = base64url(json.dumps({"alg": "none", "kid": "one"}).encode())
    forgeries = {
        forger.of({"alg": "ES256", "kid": "one"}, good): WRONG,
        f"{head}.{other}.{signature}": WRONG,
        f"{head}.{claims}.": WRONG,
        f"{head}.{claims}": NO_JWT,
        f"{head}.{claims}.{signature}.x": NO_JWT,
        f"{head}.{claims}\udce9.{signature}": "characters that are not ASCII",
        f"{head}.{claims}.{signature}!": NO_JSON,
        signer.of({"alg": "none", "kid": "one"}, good): UNSIGNED,
        f"{none}.{claims}.": UNSIGNED,
        signer.of({"alg": "HS256", "kid": "one"}, good): UNSIGNED,
        signer.of({"alg": "RS256", "kid": "one"}, good): "not in oauthbearer.jwks",
        signer.of({"alg": ["ES256"], "kid": "one"}, good): UNSIGNED,
        signer.of({"alg": "ES256", "kid": "one", "crit": ["exp"]}, good): HEADER,
        signer.of({"alg": "ES256", "kid": "one", "b64": True}, good): HEADER,
        signer.of({"alg": "ES256", "kid": 1}, good): HEADER,
        signer.of({"alg": "ES256", "kid": "two"}, good): "not in oauthbearer.jwks",
        f"{base64url(b'[]')}.{claims}.{signature}": NO_JSON,
        f"{base64url(b'[' * 9_000)}.{claims}.{signature}": NO_JSON,
        f"{base64url(b'[' * 100_000)}.{claims}.{signature}": NO_JSON,
        "a.b.c": NO_JSON,
        "...": NO_JWT,
        "": NO_JWT,
    }

    for forged, reason in forgeries.items():
        error = refused(forged, keys)
        assert not error.is_signed, forged
        assert reason in error.reason
        assert error.lacks_key is ("not in oauthbearer.jwks" in reason)


def test_a_public_key_is_nobody_s_secret(tmp_path: Path) -> None:
    """The forger of CVE-2016-5431 signs with HMAC by the text of the public key."""
    rsa = TokenKey(tmp_path, "rsa", "RS256")
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW_S + 60}
    message = ".".join(
        base64url(json.dumps(each).encode()) for each in ({"alg": "HS256", "kid": "rsa"}, good)
    )

    for secret in (json.dumps(rsa.jwk()), key_set(rsa), rsa.jwk()["n"]):
        mac = hmac.digest(secret.encode(), message.encode(), "sha256")
        error = refused(f"{message}.{base64url(mac)}", parse_key_set(key_set(rsa)))
        assert UNSIGNED in error.reason


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
        {"kty": "RSA", "n": "A" * 3_000_000, "e": "AQAB", "kid": "large"},
        {"kty": "RSA", "n": 7, "e": "AQAB", "kid": "number"},
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


def verdict(token: str, keys: KeySet) -> Holder | TokenError:
    try:
        return judged(token, keys)
    except TokenError as error:
        return error


AUTHORITY = ec.generate_private_key(ec.SECP256R1())
KEYS_OF_AUTHORITY = parse_key_set(
    json.dumps({"keys": [ECAlgorithm.to_jwk(AUTHORITY.public_key(), as_dict=True)]})
)


@settings(max_examples=100, deadline=None)
@given(claims=OBJECTS)
def test_whatever_an_authority_says_is_a_holder_or_a_refusal(claims: dict[str, Any]) -> None:
    signed = PyJWS().encode(json.dumps(claims).encode(), AUTHORITY, "ES256")

    found = verdict(signed, KEYS_OF_AUTHORITY)

    if isinstance(found, TokenError):
        assert found.is_signed
    else:
        assert (found.name, claims["iss"]) == (claims["sub"], ISSUER)


@pytest.mark.parametrize("claims", [b"", b"[]", b"\xff", b"7", b"[" * 100_000])
def test_signed_bytes_that_are_no_claims_are_refused(claims: bytes) -> None:
    error = refused(PyJWS().encode(claims, AUTHORITY, "ES256"), KEYS_OF_AUTHORITY)

    assert error.reason == "a token that is not JSON"


@settings(max_examples=200, deadline=None)
@given(said=VALUES, raw=st.text(max_size=20))
def test_no_text_does_more_than_be_no_key_set(said: Any, raw: str) -> None:
    for text in (raw, json.dumps(said), json.dumps({"keys": said}), json.dumps({"keys": [said]})):
        with pytest.raises(ValueError, match=r"is not JSON|it is not a JWKS|has no public key"):
            parse_key_set(text)

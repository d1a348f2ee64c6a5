"""SCRAM against the examples of its RFCs, and against what is nearly it."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from josefine_broker.base.scram import (
    ScramError,
    client_final,
    client_first,
    credential,
    parse_client_first,
    server_final,
    server_first,
)

SHA_256 = "SCRAM-SHA-256"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={CLIENT_NONCE}"
CHALLENGE = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIED = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_example_of_rfc_7677_from_both_sides() -> None:
    known = credential(SHA_256, "pencil", SALT, 4096)
    first = parse_client_first(FIRST.encode())

    assert client_first("user", CLIENT_NONCE) == FIRST
    assert server_first(first.nonce + SERVER_NONCE, SALT, 4096) == CHALLENGE
    assert client_final(SHA_256, "pencil", FIRST, CHALLENGE.encode()) == (FINAL, VERIFIED)
    assert server_final(SHA_256, known, first, CHALLENGE, FINAL.encode()) == VERIFIED


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "ünïcode", "=2C"])
def test_both_sides_agree_for_any_name(mechanism: str, user: str) -> None:
    known = credential(mechanism, "a,=\0 pass", b"salt", 4096)
    said = client_first(user, "cnonce")
    first = parse_client_first(said.encode())
    challenge = server_first(first.nonce + "snonce", b"salt", 4096)
    final, awaited = client_final(mechanism, "a,=\0 pass", said, challenge.encode())

    assert first.user == user
    assert server_final(mechanism, known, first, challenge, final.encode()) == awaited


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=a,r=x",
        b"n,a=root,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=a,r=",
        b"n,,n=a=b,r=x",
        b"n,,n=a,r=\xff",
        b"n,,m=1,n=a,r=x",
        b"\0a\0b",
    ],
)
def test_what_is_no_first_message_is_refused(said: bytes) -> None:
    with pytest.raises(ScramError):
        parse_client_first(said)


@pytest.mark.parametrize(
    ("old", "new"),
    [("p=dH", "p=dI"), ("biws", "eSws"), ("$k0,p", "$k1,p"), (",p=", ",q="), ("VQ=", "")],
)
def test_any_other_last_message_is_refused(old: str, new: str) -> None:
    known = credential(SHA_256, "pencil", SALT, 4096)
    first = parse_client_first(FIRST.encode())
    assert old in FINAL

    with pytest.raises(ScramError):
        server_final(SHA_256, known, first, CHALLENGE, FINAL.replace(old, new).encode())


def test_right_proof_of_another_binding_is_refused() -> None:
    """The client says that we offered none to bind to: somebody between us may have said so."""
    known = credential(SHA_256, "pencil", SALT, 4096)
    first = parse_client_first(FIRST.encode())
    unproved = f"c=eSws,r={CLIENT_NONCE}{SERVER_NONCE}"
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"{first.bare},{CHALLENGE},{unproved}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()

    with pytest.raises(ScramError, match="no last message of SCRAM to this challenge"):
        server_final(SHA_256, known, first, CHALLENGE, f"{unproved},p={proof}".encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [(CLIENT_NONCE, "another"), (SERVER_NONCE, ""), ("i=4096", "i=1"), ("i=4096", "i=99999999")],
)
def test_challenge_that_is_not_ours_too_cheap_or_too_dear_is_not_answered(
    old: str, new: str
) -> None:
    with pytest.raises(ScramError):
        client_final(SHA_256, "pencil", FIRST, CHALLENGE.replace(old, new).encode())

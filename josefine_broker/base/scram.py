"""SCRAM (RFC 5802, 7677) as values and functions: keys, messages, proofs; for both sides. Pure:
nonces and salts are arguments.

Not supported: channel binding, an authorization id other than the user, SASLprep (names and
passwords are taken as UTF-8, as Kafka does), Kafka's delegation tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanism → hash."""

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Mechanism → its number in Kafka's protocol (KIP-554)."""

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
"""Kafka's bounds (KIP-84): fewer are guessed too fast, more delay both sides."""

NO_BINDING = b64encode(b"n,,").decode()
_FIRST = re.compile(r"([ny]),(?:a=([^,]*))?,(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)")
_SERVER_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=([A-Za-z0-9+/=]+)")


class ScramError(ValueError):
    """An invalid SCRAM message, or a wrong proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A server's data about a user: enough to verify a proof, not to make one."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    """The parsed first message."""

    user: str
    nonce: str
    bare: str
    """The signed part of it."""
    binding: str
    """The part that the last message must repeat."""


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Deliberately slow: milliseconds."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential(mechanism: str, password: str, salt: bytes, iterations: int) -> Credential:
    """The credential of a user with this password."""
    salted = salted_password(mechanism, password, salt, iterations)
    return of_salted(mechanism, salted, salt, iterations)


def digest_bytes(mechanism: str) -> int:
    """The size of a salted password, and of each key."""
    return hashlib.new(HASHES[mechanism]).digest_size


def of_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential of a user with this salted password."""
    return Credential(
        salt=salt,
        iterations=iterations,
        stored_key=_hash(mechanism, _hmac(mechanism, salted, b"Client Key")),
        server_key=_hmac(mechanism, salted, b"Server Key"),
    )


def client_first(user: str, nonce: str) -> str:
    """The client's first message; `nonce` is random, printable and without comma."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    return f"n,,n={name},r={nonce}"


def parse_client_first(message: bytes) -> ClientFirst:
    """Raises ScramError."""
    found = _FIRST.fullmatch(_text(message))
    if found is None:
        raise ScramError("no first message of SCRAM")
    flag, authorized, bare, name, nonce = found.groups()
    if re.search(r"=(?!2C|3D)", name):
        raise ScramError("a name that is not escaped as SCRAM wants it")
    user = name.replace("=2C", ",").replace("=3D", "=")
    if authorized and authorized != name:
        raise ScramError("one user cannot be another")
    header = f"{flag},{'a=' + authorized if authorized else ''},"
    binding = b64encode(header.encode()).decode()
    return ClientFirst(user=user, nonce=nonce, bare=bare, binding=binding)


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """The challenge; `nonce` starts with the client's and continues with ours."""
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}"


def client_final(mechanism: str, password: str, first: str, challenge: bytes) -> tuple[str, str]:
    """The client's last message, and the signature with which the server must prove itself. Raises
    ScramError for a challenge that does not answer `first`, or has too few iterations."""
    bare = first.removeprefix("n,,")
    asked = _text(challenge)
    found = _SERVER_FIRST.fullmatch(asked)
    nonce = bare.rpartition("r=")[2]
    if found is None or not found[1].startswith(nonce) or found[1] == nonce:
        raise ScramError("the broker's challenge is not SCRAM")
    iterations = int(found[3])
    if not ITERATIONS_MIN <= iterations <= 100 * ITERATIONS_MAX:
        raise ScramError(f"the broker asks for {iterations} iterations")
    salted = salted_password(mechanism, password, _bytes(found[2]), iterations)
    key = _hmac(mechanism, salted, b"Client Key")
    unproved = f"c={NO_BINDING},r={found[1]}"
    signed = f"{bare},{asked},{unproved}".encode()
    signature = _hmac(mechanism, _hash(mechanism, key), signed)
    proof = b64encode(_xor(key, signature)).decode()
    server = _hmac(mechanism, _hmac(mechanism, salted, b"Server Key"), signed)
    return f"{unproved},p={proof}", f"v={b64encode(server).decode()}"


def server_final(
    mechanism: str,
    known: Credential,
    first: ClientFirst,
    challenge: str,
    message: bytes,
) -> str:
    """The answer to a correct proof. Raises ScramError for any other."""
    found = _FINAL.fullmatch(_text(message))
    nonce = challenge.partition(",")[0].removeprefix("r=")
    if found is None or found[2] != first.binding or found[3] != nonce:
        raise ScramError("no last message of SCRAM to this challenge")
    signed = f"{first.bare},{challenge},{found[1]}".encode()
    proof, signature = _bytes(found[4]), _hmac(mechanism, known.stored_key, signed)
    if len(proof) != len(signature):
        raise ScramError("a proof of another length")
    key = _xor(proof, signature)
    if not hmac.compare_digest(_hash(mechanism, key), known.stored_key):
        raise ScramError("a wrong proof")
    return f"v={b64encode(_hmac(mechanism, known.server_key, signed)).decode()}"


def _hmac(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def _hash(mechanism: str, message: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], message).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _text(message: bytes) -> str:
    try:
        return bytes(message).decode()
    except UnicodeDecodeError:
        raise ScramError("no UTF-8") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise ScramError("no base64") from None

"""The messages of SASL OAUTHBEARER (RFC 7628, KIP-255), for both ends: who a client is, a token
says that its authority signed. What a token is worth is not known here.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

OAUTHBEARER = "OAUTHBEARER"

ACKNOWLEDGED = b"\x01"
"""What a client says that was told why its token is refused: then it is."""

TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750, section 2.1."""

INVALID_TOKEN = "invalid_token"
_FIRST = re.compile(r"[ny],(?:a=([^,\x01]+))?,\x01((?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01")
_SPARED = re.compile(r"=2C|=3D")
_WORDS = ("status", "error_description")


class OauthError(ValueError):
    """A message that OAUTHBEARER does not have."""


class ClientFirst(NamedTuple):
    """A client's message, taken apart."""

    authorized: str
    """Whom it wants to be taken for; empty: whom the token names."""
    token: str


def client_first(token: str) -> bytes:
    """What a client says."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def parse_client_first(message: bytes) -> ClientFirst:
    """Extensions (KIP-342) are passed over. Raises OauthError, which repeats nothing."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise OauthError("no message of OAUTHBEARER")
    pairs = [pair.partition("=") for pair in found[2].split("\x01")[:-1]]
    said = [value for name, _, value in pairs if name == "auth"]
    if len(said) != 1:
        raise OauthError("not one auth in a message of OAUTHBEARER")
    scheme, _, token = said[0].partition(" ")
    if scheme.lower() != "bearer" or TOKEN.fullmatch(token) is None:
        raise OauthError("no bearer token in a message of OAUTHBEARER")
    authorized = _SPARED.sub(lambda each: "," if each[0] == "=2C" else "=", found[1] or "")
    return ClientFirst(authorized, token)


def refusal(description: str) -> bytes:
    """What a server says of a token (section 3.2.2); `description` may be empty."""
    said = {"status": INVALID_TOKEN} | ({"error_description": description} if description else {})
    return json.dumps(said).encode()


def told(challenge: bytes) -> str:
    """A server's refusal in words; of one that is no such JSON its begin."""
    text = bytes(challenge[:1_000]).decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        return text
    words = [str(said[each]) for each in _WORDS if each in said] if isinstance(said, dict) else []
    return ": ".join(words) or text

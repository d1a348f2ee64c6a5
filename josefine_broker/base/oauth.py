"""The messages of SASL OAUTHBEARER (RFC 7628, KIP-255), for client and server: a signed token names
the client. This module does not verify tokens.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

OAUTHBEARER = "OAUTHBEARER"

ACKNOWLEDGED = b"\x01"
"""The client's answer to the reason of a refusal; after it the server refuses the token."""

TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750, section 2.1."""

INVALID_TOKEN = "invalid_token"
_FIRST = re.compile(r"[ny],(?:a=([^,\x01]+))?,\x01((?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01")
_SPARED = re.compile(r"=2C|=3D")
_WORDS = ("status", "error_description")


class OauthError(ValueError):
    """A message that is not valid in OAUTHBEARER."""


class ClientFirst(NamedTuple):
    """A parsed first message of a client."""

    authorized: str
    """The requested authorization identity; empty: the name in the token."""
    token: str


def client_first(token: str) -> bytes:
    """The first message of a client."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def parse_client_first(message: bytes) -> ClientFirst:
    """Extensions (KIP-342) are ignored. Raises OauthError, whose text repeats no input."""
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
    """A server's refusal of a token (section 3.2.2); `description` may be empty."""
    said = {"status": INVALID_TOKEN} | ({"error_description": description} if description else {})
    return json.dumps(said).encode()


def told(challenge: bytes) -> str:
    """The text of a server's refusal; its first characters if it is not the expected JSON."""
    text = bytes(challenge[:1_000]).decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        return text
    words = [str(said[each]) for each in _WORDS if each in said] if isinstance(said, dict) else []
    return ": ".join(words) or text

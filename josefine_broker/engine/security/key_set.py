"""A key set (JWKS, RFC 7517) for the verification of tokens, parsed from the text that a file or a
URL returned.

Keys for another use or of an unknown type are skipped (section 5); a set without any usable key is
invalid.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from josefine_broker.engine.security.signatures import NUMBER_BYTES, EcKey, Key, RsaKey

RS256, ES256 = "RS256", "ES256"
BYTES_MAX = 1 << 20


class KeySet:
    """The public keys of a JWKS, as a value."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[tuple[str, str], Key]) -> None:
        """(algorithm, name) → key; the name of a key without one is empty."""
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, algorithm: str, name: str | None) -> Key | None:
        """The key with that name; without a name, the only key for this algorithm."""
        if name is not None:
            return self._keys.get((algorithm, name))
        found = [key for (each, _), key in self._keys.items() if each == algorithm]
        return found[0] if len(found) == 1 else None


NO_KEYS = KeySet({})


def parse_key_set(text: str) -> KeySet:
    """Parse a JWKS. Raises ValueError with a sentence."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    keys = said.get("keys") if isinstance(said, dict) else None
    if not isinstance(keys, list):
        raise ValueError("has no list of keys: it is not a JWKS")
    found: dict[tuple[str, str], Key] = {}
    for each in keys:
        named = _parsed(each) if isinstance(each, dict) else None
        if named is not None:
            found.setdefault(named[0], named[1])
    if not found:
        raise ValueError(f"has no public key for {RS256} or {ES256}")
    return KeySet(found)


def _parsed(said: dict[str, Any]) -> tuple[tuple[str, str], Key] | None:
    """A key with its algorithm and name; None if it is not for tokens, or not supported."""
    name = said.get("kid", "")
    is_ec = said.get("kty") == "EC" and said.get("crv") == "P-256"
    algorithm = ES256 if is_ec else RS256 if said.get("kty") == "RSA" else None
    is_for_it = said.get("alg", algorithm) == algorithm and said.get("use", "sig") == "sig"
    if algorithm is None or not is_for_it or not isinstance(name, str):
        return None
    try:
        key = _ec_key(said) if is_ec else RsaKey(_number(said, "n"), _number(said, "e"))
        return (algorithm, name), key.checked()
    except ValueError:
        return None


def _ec_key(said: dict[str, Any]) -> EcKey:
    return EcKey(_number(said, "x", NUMBER_BYTES), _number(said, "y", NUMBER_BYTES))


def _number(said: dict[str, Any], name: str, size: int | None = None) -> int:
    raw = from_base64url(said.get(name))
    if size is not None and len(raw) != size:
        raise ValueError("a coordinate of another size")
    return int.from_bytes(raw, "big")


def from_base64url(text: object) -> bytes:
    """Decode base64url without padding (RFC 7515, section 2). Raises ValueError."""
    if not isinstance(text, str) or not text.isascii() or not text:
        raise ValueError("not base64url")
    if not text.replace("-", "a").replace("_", "a").isalnum():
        raise ValueError("not base64url")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError("not base64url") from None

"""A key set (JWKS, RFC 7517) for the verification of tokens, parsed from the text that a file or a
URL returned.

Keys for something else, or of a kind that is not known here, are passed over (section 5); a set
without any other is none. PyJWT makes the keys and is loaded for the first set: most brokers have
none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
    from jwt import PyJWK

RS256, ES256 = "RS256", "ES256"
BYTES_MAX = 1 << 20
RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 8_192
"""RFC 7518, section 3.3; a larger modulus would take the broker's time."""
EXPONENT_MAX = 2**32
_PUBLIC = {ES256: ("kty", "crv", "x", "y"), RS256: ("kty", "n", "e")}
"""Only these are read: the private half of a pair has no business here."""


class KeySet:
    """The public keys of a JWKS, as a value."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[tuple[str, str], PyJWK]) -> None:
        """(algorithm, name) → key; the name of a key without one is empty."""
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, algorithm: str, name: str | None) -> PyJWK | None:
        """The key with that name; without a name, the only key for this algorithm."""
        if name is not None:
            return self._keys.get((algorithm, name))
        # With several, trying each would let a token choose the key that it passes with.
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
    found: dict[tuple[str, str], PyJWK] = {}
    for each in keys:
        named = _parsed(each) if isinstance(each, dict) else None
        if named is not None:
            # The first of two with one name, so that a key that is appended replaces none.
            found.setdefault(named[0], named[1])
    if not found:
        raise ValueError(f"has no public key for {RS256} or {ES256}")
    return KeySet(found)


def _parsed(said: dict[str, Any]) -> tuple[tuple[str, str], PyJWK] | None:
    """A key with its algorithm and name; None if it is not for tokens, or not supported."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    name = said.get("kid", "")
    is_ec = said.get("kty") == "EC" and said.get("crv") == "P-256"
    algorithm = ES256 if is_ec else RS256 if said.get("kty") == "RSA" else None
    is_for_it = said.get("alg", algorithm) == algorithm and said.get("use", "sig") == "sig"
    if algorithm is None or not is_for_it or not isinstance(name, str):
        return None
    public = {each: said.get(each) for each in _PUBLIC[algorithm]}
    if not all(isinstance(each, str) for each in public.values()):
        return None
    try:
        key = PyJWK(public, algorithm)
    except (PyJWTError, ValueError):
        return None
    return ((algorithm, name), key) if is_ec or _is_strong(key) else None


def _is_strong(key: PyJWK) -> bool:
    """Whether an RSA key is worth a verification: an even modulus or a huge exponent is no key of
    RSA, and costs time."""
    numbers: RSAPublicNumbers = key.key.public_numbers()
    bits = numbers.n.bit_length()
    return RSA_BITS_MIN <= bits <= RSA_BITS_MAX and numbers.n % 2 == 1 and numbers.e < EXPONENT_MAX

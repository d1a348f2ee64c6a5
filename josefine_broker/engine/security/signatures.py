"""Verification of token signatures (RFC 7518): RS256 and ES256, with the library `cryptography`,
which is imported when the first key is read: most brokers have none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 8_192
"""RFC 7518, section 3.3; a larger modulus would take too much of the broker's time."""
EXPONENT_MAX = 2**32
NUMBER_BYTES = 32
"""Size of a P-256 coordinate, and of each half of a signature."""
LOADED_MAX = 64
"""Number of keys cached in the library's form."""


class Key(Protocol):
    """A public key, as a value."""

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether its private key made this signature of this message."""


class RsaKey(NamedTuple):
    """A key for RS256."""

    modulus: int
    exponent: int

    def checked(self) -> RsaKey:
        """The key itself. Raises ValueError if it is not valid."""
        bits = self.modulus.bit_length()
        if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX or self.modulus % 2 == 0:
            raise ValueError(f"an RSA key of {bits} bits")
        if not 3 <= self.exponent < EXPONENT_MAX or self.exponent % 2 == 0:
            raise ValueError("an RSA key with an invalid exponent")
        _rsa(self)
        return self

    def signed(self, message: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            _rsa(self).verify(signature, message, PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


class EcKey(NamedTuple):
    """A key for ES256: a point on P-256."""

    x: int
    y: int

    def checked(self) -> EcKey:
        """The key itself. Raises ValueError if it is not valid."""
        _ec(self)
        return self

    def signed(self, message: bytes, signature: bytes) -> bool:
        """The signature is r and s, 32 bytes each (RFC 7518, section 3.4)."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        if len(signature) != 2 * NUMBER_BYTES:
            return False
        r, s = signature[:NUMBER_BYTES], signature[NUMBER_BYTES:]
        both = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
        try:
            _ec(self).verify(both, message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


@lru_cache(LOADED_MAX)
def _rsa(key: RsaKey) -> RSAPublicKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    return RSAPublicNumbers(key.exponent, key.modulus).public_key()


@lru_cache(LOADED_MAX)
def _ec(key: EcKey) -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicNumbers

    try:
        return EllipticCurvePublicNumbers(key.x, key.y, SECP256R1()).public_key()
    except ValueError:
        raise ValueError("a key that is not on P-256") from None

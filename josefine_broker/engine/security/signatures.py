"""Signatures of tokens (RFC 7518): RS256 and ES256, checked by their public keys.

Only public numbers are computed with, so that the time it takes tells nobody anything; nothing is
signed here. Elliptic points are kept as (X, Y, Z), which means (X/Z², Y/Z³); Z = 0 is infinity.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 8_192
"""RFC 7518, section 3.3; a larger modulus would take the broker's time."""
EXPONENT_MAX = 2**32

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
"""P-256 (FIPS 186-4, D.1.2.3): y² = x³ - 3x + B modulo P, whose base point is of order N."""
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
BASE_X = 0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296
BASE_Y = 0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5
NUMBER_BYTES = 32

SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
"""Before the hash in a padded message (RFC 8017, section 9.2)."""

Point = tuple[int, int, int]
BASE: Point = (BASE_X, BASE_Y, 1)
INFINITY: Point = (1, 1, 0)


class RsaKey(NamedTuple):
    """Raises ValueError where `checked` finds that it is none."""

    modulus: int
    exponent: int

    def checked(self) -> RsaKey:
        """Itself."""
        bits = self.modulus.bit_length()
        if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX or self.modulus % 2 == 0:
            raise ValueError(f"an RSA key of {bits} bits")
        if not 3 <= self.exponent < EXPONENT_MAX or self.exponent % 2 == 0:
            raise ValueError("an RSA key with an exponent that is none")
        return self

    def signed(self, message: bytes, signature: bytes) -> bool:
        """RS256: what the signature stands for is compared as a whole, never taken apart."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        awaited = SHA256_INFO + hashlib.sha256(message).digest()
        padding = b"\xff" * (size - 3 - len(awaited))
        found = pow(number, self.exponent, self.modulus).to_bytes(size, "big")
        return found == b"\x00\x01" + padding + b"\x00" + awaited


class EcKey(NamedTuple):
    """A point of P-256. Raises ValueError where `checked` finds that it is none."""

    x: int
    y: int

    def checked(self) -> EcKey:
        """Itself."""
        x, y = self
        if not (0 <= x < P and 0 <= y < P) or (y * y - x * x * x + 3 * x - B) % P:
            raise ValueError("a key that is not on P-256")
        return self

    def signed(self, message: bytes, signature: bytes) -> bool:
        """ES256 (FIPS 186-4, section 6.4): the signature is r and s, 32 bytes each."""
        if len(signature) != 2 * NUMBER_BYTES:
            return False
        r = int.from_bytes(signature[:NUMBER_BYTES], "big")
        s = int.from_bytes(signature[NUMBER_BYTES:], "big")
        if not (1 <= r < N and 1 <= s < N):
            return False
        hashed = int.from_bytes(hashlib.sha256(message).digest(), "big")
        inverse = pow(s, -1, N)
        x, _, z = _sum_of_products(hashed * inverse % N, r * inverse % N, (self.x, self.y, 1))
        return z != 0 and x * pow(z, -2, P) % P % N == r


Key = RsaKey | EcKey


def _sum_of_products(one: int, other: int, point: Point) -> Point:
    """one · BASE + other · point, both from their highest bit on."""
    addends = (None, BASE, point, _added(BASE, point))
    total = INFINITY
    for bit in range(max(one.bit_length(), other.bit_length()) - 1, -1, -1):
        total = _doubled(total)
        addend = addends[(one >> bit & 1) | (other >> bit & 1) << 1]
        if addend is not None:
            total = _added(total, addend)
    return total


def _doubled(point: Point) -> Point:
    x, y, z = point
    yy, zz = y * y % P, z * z % P
    xyy = 4 * x * yy % P
    slope = 3 * (x - zz) * (x + zz) % P
    new_x = (slope * slope - 2 * xyy) % P
    return new_x, (slope * (xyy - new_x) - 8 * yy * yy) % P, 2 * y * z % P


def _added(one: Point, other: Point) -> Point:
    if one[2] == 0:
        return other
    if other[2] == 0:
        return one
    (x1, y1, z1), (x2, y2, z2) = one, other
    zz1, zz2 = z1 * z1 % P, z2 * z2 % P
    u1, u2 = x1 * zz2 % P, x2 * zz1 % P
    s1, s2 = y1 * zz2 * z2 % P, y2 * zz1 * z1 % P
    if u1 == u2:
        return _doubled(one) if s1 == s2 else INFINITY
    run, rise = (u2 - u1) % P, (s2 - s1) % P
    square = run * run % P
    cube, v = square * run % P, u1 * square % P
    x = (rise * rise - cube - 2 * v) % P
    return x, (rise * (v - x) - s1 * cube) % P, run * z1 * z2 % P

"""What a certificate says of itself, read from its DER: how long it is valid. Pure.

Python's ssl tells that of a peer's certificate only, not of our own.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from datetime import UTC, datetime

_PEM = re.compile(
    r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----", re.ASCII
)
_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0
_FIELDS_BEFORE_VALIDITY = 3
"""serialNumber, signature, issuer (RFC 5280, section 4.1); the version is optional."""


def first_of_pem(text: str) -> bytes:
    """DER of the first certificate in a PEM file. Raises ValueError where there is none."""
    found = _PEM.search(text)
    if found is None:
        raise ValueError("holds no certificate in PEM")
    try:
        return b64decode(found[1])
    except Base64Error:
        raise ValueError("holds no certificate in PEM") from None


def valid_until_s(der: bytes) -> int:
    """The end of a certificate's validity, in Unix seconds. Raises ValueError for other bytes."""
    try:
        certificate, _ = _element(der, 0, _SEQUENCE)
        fields, _ = _element(certificate, 0, _SEQUENCE)
        at = 0
        if fields[0] == _VERSION:
            _, at = _element(fields, at, _VERSION)
        for _ in range(_FIELDS_BEFORE_VALIDITY):
            _, at = _element(fields, at, fields[at])
        validity, _ = _element(fields, at, _SEQUENCE)
        _, at = _element(validity, 0, validity[0])
        until, _ = _element(validity, at, validity[at])
        return _unix_seconds(until.decode("ascii"), validity[at])
    except (IndexError, UnicodeDecodeError):
        raise ValueError("is no X.509 certificate") from None


def _element(der: bytes, at: int, kind: int) -> tuple[bytes, int]:
    """The content of the element at `at`, and where the next one begins."""
    if der[at] != kind:
        raise ValueError("is no X.509 certificate")
    length, begin = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[begin : begin + size], "big")
        begin += size
    if begin + length > len(der):
        raise ValueError("is no X.509 certificate")
    return der[begin : begin + length], begin + length


def _unix_seconds(text: str, kind: int) -> int:
    if kind not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("is no X.509 certificate")
    if kind == _UTC_TIME:  # two digits of a year: RFC 5280, section 4.1.2.5.1
        text = ("20" if text[:2] < "50" else "19") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())

"""What a certificate says of itself, read from its DER: whose it is, how long it is valid. Pure.

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
_SET, _OBJECT_IDENTIFIER, _BMP_STRING = 0x31, 0x06, 0x1E
_ATTRIBUTES = {
    b"\x55\x04\x03": "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x09": "STREET",
    b"\x55\x04\x0a": "O",
    b"\x55\x04\x0b": "OU",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01": "UID",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19": "DC",
}
"""Object identifiers that have a name in RFC 2253; others are told by their numbers."""
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


def subject_name(der: bytes) -> str:
    """Whose it is, the innermost part first (RFC 2253), as Kafka names who shows it. Raises
    ValueError for other bytes."""
    try:
        fields, at = _validity(der)
        _, at = _element(fields, at, _SEQUENCE)
        subject, _ = _element(fields, at, _SEQUENCE)
        parts: list[str] = []
        at = 0
        while at < len(subject):
            attributes, at = _element(subject, at, _SET)
            parts.append(_relative_name(attributes))
    except (IndexError, UnicodeDecodeError):
        raise ValueError("is no X.509 certificate") from None
    return ",".join(reversed(parts))


def _relative_name(attributes: bytes) -> str:
    named: list[str] = []
    at = 0
    while at < len(attributes):
        pair, at = _element(attributes, at, _SEQUENCE)
        kind, begin = _element(pair, 0, _OBJECT_IDENTIFIER)
        value, _ = _element(pair, begin, pair[begin])
        name = _ATTRIBUTES.get(kind)
        if name is None:
            named.append(f"{_dotted(kind)}=#{pair[begin:].hex()}")
        else:
            text = value.decode("utf-16-be" if pair[begin] == _BMP_STRING else "utf-8")
            named.append(f"{name}={_escaped(text)}")
    return "+".join(named)


def _dotted(kind: bytes) -> str:
    numbers = [kind[0] // 40, kind[0] % 40]
    number = 0
    for byte in kind[1:]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return ".".join(map(str, numbers))


def _escaped(text: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", text)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" "):
        text = text[:-1] + "\\ "
    return text


def valid_until_s(der: bytes) -> int:
    """The end of a certificate's validity, in Unix seconds. Raises ValueError for other bytes."""
    try:
        fields, at = _validity(der)
        validity, _ = _element(fields, at, _SEQUENCE)
        _, at = _element(validity, 0, validity[0])
        until, _ = _element(validity, at, validity[at])
        return _unix_seconds(until.decode("ascii"), validity[at])
    except (IndexError, UnicodeDecodeError):
        raise ValueError("is no X.509 certificate") from None


def _validity(der: bytes) -> tuple[bytes, int]:
    """The fields of a certificate, and where its validity begins; its subject is behind that."""
    certificate, _ = _element(der, 0, _SEQUENCE)
    fields, _ = _element(certificate, 0, _SEQUENCE)
    at = 0
    if fields[0] == _VERSION:
        _, at = _element(fields, at, _VERSION)
    for _ in range(_FIELDS_BEFORE_VALIDITY):
        _, at = _element(fields, at, fields[at])
    return fields, at


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

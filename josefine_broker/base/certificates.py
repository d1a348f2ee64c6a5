"""The subject and the end of validity of an X.509 certificate, read with `cryptography`. Pure.

Python's ssl returns neither for a local certificate, and no RFC 2253 name for a peer's. The library
is loaded with the first certificate (9 MB, 20 ms): brokers without TLS and most clients read none.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING
from warnings import catch_warnings

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, NameAttribute, RelativeDistinguishedName

_PEM = re.compile(
    r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----", re.ASCII
)
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Object identifiers that have a keyword in RFC 2253; others are written as their numbers."""


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
    """The subject, the innermost part first (RFC 2253), as Kafka names who shows it. Raises
    ValueError for other bytes."""
    try:
        with catch_warnings(action="ignore"):  # of a value longer than X.520 allows: still a name
            subject = _parsed(der).subject
    except (ValueError, TypeError, KeyError):  # a value that is no text; KeyError: cryptography 43
        raise ValueError("is no X.509 certificate") from None
    return ",".join(_part(each) for each in reversed(subject.rdns))


def valid_until_s(der: bytes) -> int:
    """The end of a certificate's validity, in Unix seconds. Raises ValueError for other bytes."""
    return int(_parsed(der).not_valid_after_utc.timestamp())


def _parsed(der: bytes) -> Certificate:
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        return load_der_x509_certificate(der)
    except (ValueError, InvalidVersion):
        raise ValueError("is no X.509 certificate") from None


def _part(attributes: RelativeDistinguishedName) -> str:
    return "+".join(map(_pair, attributes))


def _pair(attribute: NameAttribute[str | bytes]) -> str:
    oid, value = attribute.oid.dotted_string, attribute.value
    keyword = _KEYWORDS.get(oid)
    if keyword is None or not isinstance(value, str):
        return f"{oid}=#{_der_of_value(attribute).hex()}"
    return f"{keyword}={_escaped(value)}"


def _der_of_value(attribute: NameAttribute[str | bytes]) -> bytes:
    """The library encodes names only: SEQUENCE { SET { SEQUENCE { identifier, value } } }."""
    from cryptography.x509 import Name

    der = Name([attribute]).public_bytes()
    at = 0
    for _ in range(3):
        at += 2 + (der[at + 1] & 0x7F if der[at + 1] & 0x80 else 0)
    return der[at + 2 + der[at + 1] :]


def _escaped(text: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", text)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" ") and text != "\\ ":
        text = text[:-1] + "\\ "
    return text

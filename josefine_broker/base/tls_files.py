"""Certificates and keys from files into a TLS context, with one sentence per problem.

A broker's listeners and our client read them alike; a sentence names the setting, as its user wrote
it, and the file, never the content.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from josefine_broker.base.certificates import first_of_pem, valid_until_s


class TlsError(ValueError):
    """TLS is impossible with these settings or files; the message is one sentence for the user."""


class OwnNames(NamedTuple):
    """The names of the three settings."""

    certificate: str
    key: str
    password: str


def load_own(
    context: ssl.SSLContext,
    certificate: PathLike[str],
    key: PathLike[str] | None,
    password: Callable[[], str] | None,
    names: OwnNames,
) -> None:
    """Load a certificate (followed by its intermediates) and its key into `context`.
    Without `key` the key is in the same file. Raises TlsError."""
    der = certificate_der(certificate, names.certificate)
    holder, said = (key, names.key) if key is not None else (certificate, names.certificate)
    if "PRIVATE KEY-----" not in _text_of(holder, said):
        hint = "" if key is not None else f"; name its file in {names.key}"
        raise TlsError(f"{said}: {holder} holds no private key in PEM{hint}")
    asked: list[str] = []

    def tell_password() -> str:
        """Otherwise OpenSSL would prompt on the terminal."""
        asked.append("")
        return password() if password is not None else ""

    try:
        context.load_cert_chain(certificate, holder, tell_password)
    except (ssl.SSLError, OSError) as error:
        # OpenSSL does not report which of the two files is broken.
        _check_certificate(der, certificate, names.certificate)
        reason = getattr(error, "reason", None) or str(error)
        # OpenSSL's own reasons do not separate a missing password from a wrong one: `asked` does.
        if reason == "KEY_VALUES_MISMATCH":
            sentence = f"{said}: {holder} is not the key of the certificate in {certificate}"
        elif asked and password is None:
            sentence = (
                f"{said}: {holder} is encrypted; set {names.password} to the place of its password"
            )
        elif asked:
            sentence = f"{names.password}: is not the password of {holder}"
        else:
            sentence = f"{said}: {holder} cannot be used: {reason.lower().replace('_', ' ')}"
        raise TlsError(sentence) from None


def certificate_der(path: PathLike[str], name: str) -> bytes:
    """The first certificate of a file, not looked at any closer. Raises TlsError."""
    text = _text_of(path, name)
    try:
        return first_of_pem(text)
    except ValueError as error:
        raise TlsError(f"{name}: {path} {error}") from None


def _check_certificate(der: bytes, path: PathLike[str], name: str) -> None:
    try:
        valid_until_s(der)
    except ValueError as error:
        raise TlsError(f"{name}: {path} {error}") from None


def load_ca(context: ssl.SSLContext, path: PathLike[str], name: str) -> None:
    """Trust the certificates of a file, or of a directory made by `openssl rehash`."""
    if Path(path).is_dir():
        context.load_verify_locations(capath=path)
        return
    certificate_der(path, name)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise TlsError(f"{name}: {path} cannot be used: {error.reason or error}") from None


def reason_of(error: BaseException) -> str:
    """The reason of a failed handshake, in a few plain words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return _WORDS.get(error.reason, error.reason.lower().replace("_", " "))
    if isinstance(error, TimeoutError):
        return "no TLS handshake in time"
    return str(error).lower() or type(error).__name__


_WORDS = {
    "WRONG_VERSION_NUMBER": "what came is no TLS (plaintext?)",
    "HTTP_REQUEST": "what came is no TLS but HTTP",
    "HTTPS_PROXY_REQUEST": "what came is no TLS but HTTP",
    "UNEXPECTED_EOF_WHILE_READING": "hung up on, perhaps a listener without TLS",
    "UNSUPPORTED_PROTOCOL": "no common TLS version",
    "NO_SHARED_CIPHER": "no common cipher",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not know our CA",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refused our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side reports that our certificate expired",
}


def _text_of(path: PathLike[str], name: str) -> str:
    try:
        return Path(path).read_text("utf-8", errors="replace")
    except OSError as error:
        raise TlsError(f"{name}: {path}: {(error.strerror or str(error)).lower()}") from None

"""TLS of the listeners: its files, loaded into a context and reloaded when they change. An invalid
file leaves the context as it was, and is logged.

Rules: an error names the configuration key and the file, never the content. A handshake has a
deadline and one of `handshakes_max` places; above that the oldest one is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from josefine_broker.base.certificates import subject_name, valid_until_s
from josefine_broker.base.security import SecretPlace
from josefine_broker.base.tls_files import OwnNames, TlsError, certificate_der, load_ca, load_own
from josefine_broker.host.net.file_stamp import Look, look_at

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 2.0
"""How long a closed peer has to complete TLS' shutdown."""

HANDSHAKE_TURNS = 4
"""Turns of each side; TLS 1.2 and 1.3 need two."""
EXPIRED = 10
"""X509_V_ERR_CERT_HAS_EXPIRED."""

JOIN_BYTES_MAX = 16 * 1024
"""Buffers of smaller answers are joined into one TLS record, which holds this many bytes."""
PIECE_BYTES = 256 * 1024
"""Larger answers are encrypted and sent in pieces: the client decrypts one while the next is
encrypted, in warm memory. Measured with answers of 8 MiB: 179 to 214 MB/s read, 0.95 to 0.80 s of
CPU per GB; the same with 128 KiB, slightly less with 1 MiB."""

_NOBODY = asyncio.BufferedProtocol()
"""The protocol of transports whose connection is lost."""
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The configuration of TLS."""

    certificate: Path
    key: Path | None = None
    """None: the key is in the certificate's file."""
    key_password: SecretPlace | None = None
    ca: Path | None = None
    client_auth: str = "none"
    version_min: str = "1.2"
    handshake_timeout_ms: int = 10_000
    handshakes_max: int = 256
    section: str = "tls"
    """The configuration section, as messages name it."""
    ca_section: str | None = None
    """The section of `ca`, if it is another."""
    is_own_peer: bool = False
    """Whether the peers have certificates of the same authority, on both sides of a connection:
    then our own is verified as theirs are."""

    @property
    def own_names(self) -> OwnNames:
        section = self.section
        return OwnNames(f"{section}.certificate", f"{section}.key", f"{section}.key_password")

    @property
    def ca_name(self) -> str:
        return f"{self.ca_section or self.section}.ca"


class Contexts(NamedTuple):
    """The contexts made from the files."""

    serving: ssl.SSLContext
    dialling: ssl.SSLContext
    """For other brokers' listeners: with our certificate, trusting `ca`."""
    expires_s: int
    """The end of the certificate's validity, in Unix seconds."""
    subject: str
    """The subject of the certificate (RFC 2253)."""


class Tls:
    """The contexts for the next handshake. Used on the event loop only."""

    def __init__(self, settings: TlsSettings, env: Mapping[str, str]) -> None:
        """Raises TlsError."""
        self.settings = settings
        self._env = env
        self.contexts = load(settings, env)
        self._seen = self._look()
        self.reload_failures = 0

    def reload_changed(self) -> None:
        """Reload the files if one of them changed; a duty of the ticker."""
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.contexts = load(self.settings, self._env)
        except TlsError as error:
            self.reload_failures += 1
            log.warning("TLS files changed and cannot be used", extra={"reason": str(error)})
            return
        settings = self.settings
        told = {"section": settings.section, "certificate": str(settings.certificate)}
        log.info("TLS files reloaded", extra=told)

    def expired(self, now_ms: int) -> str:
        """A sentence when the certificate has expired; otherwise empty."""
        until_s = self.contexts.expires_s
        if now_ms < until_s * 1_000:
            return ""
        day = datetime.fromtimestamp(until_s, UTC).date()
        whose, who = self.settings, "brokers" if self.settings.is_own_peer else "clients"
        return f"{whose.section}.certificate {whose.certificate} expired on {day}: {who} refuse it"

    def _look(self) -> tuple[Look, ...]:
        settings = self.settings
        password = settings.key_password
        paths = [settings.certificate, settings.key, settings.ca]
        if password is not None and password.kind == "file":
            paths.append(Path(password.name))
        return tuple(None if path is None else look_at(path) for path in paths)


def load(settings: TlsSettings, env: Mapping[str, str]) -> Contexts:
    """Raises TlsError."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    dialling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    place = settings.key_password
    names = settings.own_names
    password = None if place is None else partial(_password, place, env, names.password)
    for context in (serving, dialling):
        context.minimum_version = VERSIONS[settings.version_min]
        load_own(context, settings.certificate, settings.key, password, names)
        if settings.ca is not None:
            load_ca(context, settings.ca, settings.ca_name)
    if settings.ca is None:
        dialling.load_default_certs()
    serving.verify_mode = CLIENT_AUTH[settings.client_auth]
    if settings.is_own_peer:
        _check_own_peer(settings, serving, dialling)
    der = certificate_der(settings.certificate, names.certificate)
    try:
        return Contexts(serving, dialling, valid_until_s(der), subject_name(der))
    except ValueError as error:
        raise TlsError(f"{names.certificate}: {settings.certificate} {error}") from None


def _check_own_peer(
    settings: TlsSettings, serving: ssl.SSLContext, dialling: ssl.SSLContext
) -> None:
    """Shake hands with ourselves: a certificate of another authority, or not valid for both sides
    of a connection, is refused by every other broker. Expiry is reported elsewhere, and the dialing
    broker checks the name. Raises TlsError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling.check_hostname = False
    try:
        ends = (
            dialling.wrap_bio(to_client, to_server),
            serving.wrap_bio(to_server, to_client, server_side=True),
        )
    finally:
        dialling.check_hostname = True
    for _ in range(HANDSHAKE_TURNS):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                if error.verify_code == EXPIRED:
                    return
                raise TlsError(
                    f"{settings.section}.certificate: {settings.certificate} is refused by"
                    f" {settings.ca_name} {settings.ca}, and so by the other brokers:"
                    f" {error.verify_message.rstrip('.')}"
                ) from None


def _password(place: SecretPlace, env: Mapping[str, str], name: str) -> str:
    try:
        return place.read(env)
    except ValueError as error:
        raise TlsError(f"{name}: {error}") from None


def shown_name(transport: asyncio.BaseTransport) -> str:
    """The principal of the verified client certificate; empty: none was shown."""
    tls = transport.get_extra_info("ssl_object")
    der = None if tls is None else tls.getpeercert(binary_form=True)
    return f"User:{subject_name(der)}" if der else ""


def write_tls(
    transport: asyncio.WriteTransport, buffers: Sequence[bytes | bytearray | memoryview], size: int
) -> None:
    """Send `size` bytes in pieces: uvloop encrypts all it is given before it sends any."""
    if size <= JOIN_BYTES_MAX:
        transport.write(b"".join(buffers))
        return
    if size <= PIECE_BYTES:
        transport.writelines(buffers)
        return
    for buffer in buffers:
        view = memoryview(buffer)
        for start in range(0, len(view), PIECE_BYTES):
            transport.write(view[start : start + PIECE_BYTES])


def let_go(transport: asyncio.Transport) -> None:
    """Forget the protocol of a connection that is lost. uvloop's TLS keeps methods of it, so only
    the collector would free both, and 50 KB of buffers; it counts objects, not bytes."""
    if transport.get_extra_info("sslcontext") is not None:
        transport.set_protocol(_NOBODY)

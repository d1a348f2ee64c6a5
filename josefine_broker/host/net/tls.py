"""TLS of the listeners: the files that it rests on, read into a context, and read again when they
change. A file that does not fit leaves the context as it was, and is told.

Rules: an error names the key of the configuration and the file, never what is in it. A handshake
has a deadline and one of `handshakes_max` places; past that the oldest one gives way.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from josefine_broker.base.certificates import first_of_pem, subject_name
from josefine_broker.base.security import SecretPlace
from josefine_broker.base.tls_files import OwnNames, TlsError, load_ca, load_own

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 2.0
"""How long a peer that is hung up on has to say good-bye in TLS' words."""

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


OWN = OwnNames("tls.certificate", "tls.key", "tls.key_password")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What is configured, section `tls`."""

    certificate: Path
    key: Path | None = None
    """None: in the certificate's file."""
    key_password: SecretPlace | None = None
    ca: Path | None = None
    client_auth: str = "none"
    version_min: str = "1.2"
    handshake_timeout_ms: int = 10_000
    handshakes_max: int = 256


class Contexts(NamedTuple):
    """What the files came to."""

    serving: ssl.SSLContext
    dialling: ssl.SSLContext
    """For other brokers' listeners: with our certificate, and believing `ca`."""
    expires_s: int
    """The end of the certificate's validity, in Unix seconds."""
    subject: str
    """Whose it is (RFC 2253)."""


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
        """Read the files again if one of them is another than before; a duty of the ticker."""
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
        log.info("TLS files read again", extra={"certificate": str(self.settings.certificate)})

    def expired(self, now_ms: int) -> str:
        """A sentence when the certificate's validity is over; empty: it is not."""
        until_s = self.contexts.expires_s
        if now_ms < until_s * 1_000:
            return ""
        day = datetime.fromtimestamp(until_s, UTC).date()
        return f"tls.certificate {self.settings.certificate} expired on {day}: clients refuse it"

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        settings = self.settings
        password = settings.key_password
        paths = [settings.certificate, settings.key, settings.ca]
        if password is not None and password.kind == "file":
            paths.append(Path(password.name))
        return tuple(None if path is None else _look_at(path) for path in paths)


def _look_at(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def load(settings: TlsSettings, env: Mapping[str, str]) -> Contexts:
    """Raises TlsError."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    dialling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    place = settings.key_password
    password = None if place is None else partial(_password, place, env)
    expires_s = 0
    for context in (serving, dialling):
        context.minimum_version = VERSIONS[settings.version_min]
        expires_s = load_own(context, settings.certificate, settings.key, password, OWN)
        if settings.ca is not None:
            load_ca(context, settings.ca, "tls.ca")
    if settings.ca is None:
        dialling.load_default_certs()
    serving.verify_mode = CLIENT_AUTH[settings.client_auth]
    subject = subject_name(first_of_pem(settings.certificate.read_text("ascii", "replace")))
    return Contexts(serving, dialling, expires_s, subject)


def _password(place: SecretPlace, env: Mapping[str, str]) -> str:
    try:
        return place.read(env)
    except ValueError as error:
        raise TlsError(f"{OWN.password}: {error}") from None

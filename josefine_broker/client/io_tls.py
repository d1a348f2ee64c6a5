"""The security of a client's connections: the TLS context from the configured files, and a new
login for each connection, with the current token.
"""

import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.oauth import TOKEN
from josefine_broker.base.tls_files import OwnNames, load_ca, load_own
from josefine_broker.client.sasl import Login
from josefine_broker.client.security import PLAINTEXT, Security

NONCE_BYTES = 18
OWN = OwnNames("ssl.certificate.location", "ssl.key.location", "ssl.key.password")


def client_context(security: Security) -> ssl.SSLContext | None:
    """None for a client without TLS. Raises TlsError, a ValueError."""
    if not security.protocol.is_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.verify_host
    if security.ca is None:
        context.load_default_certs()
    else:
        load_ca(context, Path(security.ca), "ssl.ca.location")
    if security.certificate is not None:
        password = security.key_password
        key = None if security.key is None else Path(security.key)
        read = None if password is None else lambda: password
        load_own(context, Path(security.certificate), key, read, OWN)
    return context


@dataclass(frozen=True, slots=True)
class Secured:
    """The TLS context and the login of each new connection."""

    tls: ssl.SSLContext | None = None
    security: Security = PLAINTEXT

    def login(self) -> Login | None:
        """A new login with a fresh nonce; None: no authentication. Raises KafkaError if the token
        is missing."""
        if not self.security.protocol.is_sasl:
            return None
        return Login(self.security, secrets.token_urlsafe(NONCE_BYTES), self._bearer())

    def _bearer(self) -> str:
        """The current token: a renewed one is written to the same place."""
        place = self.security.token
        if place is None:
            return ""
        code = ErrorCode.sasl_authentication_failed
        try:
            token = place.read(os.environ).strip()
        except ValueError as error:
            raise KafkaError(code, f"sasl.oauthbearer.token: {error}") from None
        if TOKEN.fullmatch(token) is None:
            raise KafkaError(code, f"sasl.oauthbearer.token: {place}: holds no token")
        return token


def secured(security: Security) -> Secured:
    """Raises TlsError, a ValueError."""
    return Secured(client_context(security), security)


UNSECURED = Secured()

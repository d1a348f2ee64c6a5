"""The security of one broker, put together from its configuration: which listeners speak TLS, how
other brokers are dialled, and what is told of its certificate.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial

from josefine_broker.client.io_tls import UNSECURED, Secured
from josefine_broker.config import BrokerConfig
from josefine_broker.engine.security.sasl import Users
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.sasl_gate import Authentication
from josefine_broker.host.net.tls import Tls, TlsSettings
from josefine_broker.host.net.users import UsersFile

NONCE_BYTES = 18


class Securing:
    """What its listeners and its dials rest on."""

    def __init__(self, config: BrokerConfig, env: Mapping[str, str]) -> None:
        """Reads the files. Raises TlsError, UsersError."""
        settings = tls_settings(config)
        self._tls = None if settings is None else Tls(settings, env)
        self.by_listener: dict[str, Tls] = {}
        """The listeners with TLS."""
        for listener in config.broker.listeners:
            if config.protocol_of(listener.name).is_tls:
                assert self._tls is not None, "the configuration was checked"
                self.by_listener[listener.name] = self._tls
        sasl = config.sasl
        self._users = None
        self.authentication: dict[str, Authentication] = {}
        """The listeners with SASL."""
        for listener in config.broker.listeners:
            if config.protocol_of(listener.name).is_sasl:
                assert sasl.users is not None, "the configuration was checked"
                if self._users is None:
                    self._users = UsersFile(sasl.users, secrets.token_bytes(32), sasl.iterations)
                self.authentication[listener.name] = Authentication(
                    mechanisms=sasl.mechanisms,
                    users=partial(_users_of, self._users),
                    new_nonce=partial(secrets.token_urlsafe, NONCE_BYTES),
                    timeout_ms=sasl.timeout_ms,
                    failure_delay_ms=sasl.failure_delay_ms,
                )
        self._peers_speak_tls = config.protocol_of(config.inter_broker_listener).is_tls

    def to_peers(self) -> Secured:
        """How the listener of brokers is dialled."""
        if self._tls is None or not self._peers_speak_tls:
            return UNSECURED
        return Secured(self._tls.contexts.dialling)

    def warnings(self, now_ms: int) -> list[str]:
        """Sentences for whoever starts the broker; `now_ms` is Unix time."""
        expired = "" if self._tls is None else self._tls.expired(now_ms)
        return [expired] if expired else []

    def reload_changed(self) -> None:
        """A duty of the ticker."""
        if self._tls is not None:
            self._tls.reload_changed()
        if self._users is not None:
            self._users.reload_changed()

    def register_metrics(self, metrics: Metrics) -> None:
        """Nothing where no file is configured."""
        tls = self._tls
        if tls is None:
            return
        metrics.one("tls_certificate_expires_seconds", lambda: tls.contexts.expires_s)
        metrics.one("tls_reload_failures", lambda: tls.reload_failures)


def _users_of(file: UsersFile) -> Users:
    """As they are now."""
    return file.users


def tls_settings(config: BrokerConfig) -> TlsSettings | None:
    """None where no certificate is configured."""
    section = config.tls
    if section.certificate is None:
        return None
    return TlsSettings(
        certificate=section.certificate,
        key=section.key,
        key_password=section.key_password,
        ca=section.ca,
        client_auth=section.client_auth,
        version_min=section.version_min,
        handshake_timeout_ms=section.handshake_timeout_ms,
        handshakes_max=section.handshakes_max,
    )

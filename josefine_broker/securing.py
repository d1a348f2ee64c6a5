"""The security of one broker, put together from its configuration: which listeners speak TLS, how
other brokers are dialled, and what is told of its certificate.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial

from josefine_broker.base.acls import CLUSTER_NAME, Operation, ResourceType
from josefine_broker.base.tls_files import TlsError
from josefine_broker.client.io_tls import UNSECURED, Secured
from josefine_broker.config import BrokerConfig
from josefine_broker.engine.context import Context
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.engine.security.sasl import Stored, Users, no_stored
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.admin_door import Door
from josefine_broker.host.net.sasl_gate import Authentication
from josefine_broker.host.net.tls import Tls, TlsSettings
from josefine_broker.host.net.users import UsersFile
from josefine_broker.host.peers.raft_tls import RaftTls
from josefine_broker.host.peers.raft_transport import GREETING_SECONDS, STRANGERS_MAX

NONCE_BYTES = 18


class Securing:
    """What its listeners and its dials rest on."""

    def __init__(self, config: BrokerConfig, env: Mapping[str, str]) -> None:
        """Reads the files. Raises TlsError, UsersError."""
        self._ctx: Context | None = None
        settings = tls_settings(config)
        self._tls = None if settings is None else Tls(settings, env)
        raft = raft_tls_settings(config)
        self.raft = None
        """Of the raft listener; None: plaintext."""
        if raft is not None:
            self.raft = RaftTls(Tls(raft, env), config.raft_tls.allowed_names)
        self._files = [each for each in (self._tls, self.raft and self.raft.tls) if each]
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
                    self._users = UsersFile(
                        sasl.users, secrets.token_bytes(32), sasl.iterations, self._stored_users
                    )
                self.authentication[listener.name] = Authentication(
                    mechanisms=sasl.mechanisms,
                    users=partial(_users_of, self._users),
                    new_nonce=partial(secrets.token_urlsafe, NONCE_BYTES),
                    timeout_ms=sasl.timeout_ms,
                    failure_delay_ms=sasl.failure_delay_ms,
                )
        own = config.acls.inter_broker_principal
        self.nameless = {} if own is None else {config.inter_broker_listener: own}
        """What clients without a name are called, on listeners where that is not ANONYMOUS."""
        self._failure_delay_ms = sasl.failure_delay_ms
        self._check_own_name(config)
        self._peers_speak_tls = config.protocol_of(config.inter_broker_listener).is_tls

    def _check_own_name(self, config: BrokerConfig) -> None:
        """Raises TlsError where the other brokers would refuse this one."""
        among_others = len(config.raft.voters) > 1 or bool(config.raft.seeds)
        known = config.acls.super_principals
        is_named = config.tls.client_auth == "required" and self._tls is not None
        speaks_tls = config.protocol_of(config.inter_broker_listener).is_tls
        if known is None or self._tls is None or not (among_others and is_named and speaks_tls):
            return
        own = f"User:{self._tls.contexts.subject}"
        if own not in known:
            raise TlsError(
                f"acls.super_users has no {own}: that is what this broker's certificate calls it,"
                " and the others would refuse it"
            )

    def follow(self, ctx: Context) -> None:
        """From now on users of the metadata come in too."""
        self._ctx = ctx

    def _stored_users(self) -> Stored:
        return no_stored() if self._ctx is None else self._ctx.image.credentials

    def door(self, ctx: Context) -> Door | None:
        """Of the admin listener; None: everybody may come in."""
        if ctx.clients.authorizer is None:
            return None
        return Door(
            users=lambda: None if self._users is None else self._users.users,
            may_look=partial(_may_describe, ctx),
            failure_delay_ms=self._failure_delay_ms,
        )

    def to_peers(self) -> Secured:
        """How the listener of brokers is dialled."""
        if self._tls is None or not self._peers_speak_tls:
            return UNSECURED
        return Secured(self._tls.contexts.dialling)

    def warnings(self, now_ms: int) -> list[str]:
        """Sentences for whoever starts the broker; `now_ms` is Unix time."""
        return [said for each in self._files if (said := each.expired(now_ms))]

    def reload_changed(self) -> None:
        """A duty of the ticker."""
        for each in self._files:
            each.reload_changed()
        if self._users is not None:
            self._users.reload_changed()

    def register_metrics(self, metrics: Metrics, authorizer: Authorizer | None) -> None:
        """Nothing of what is not configured."""
        if authorizer is not None:
            metrics.one("authorization_denied", lambda: authorizer.denied)
        if self._tls is not None:
            _register_tls(metrics, "tls", self._tls)
        if self.raft is not None:
            _register_tls(metrics, "raft_tls", self.raft.tls)


def _register_tls(metrics: Metrics, name: str, tls: Tls) -> None:
    metrics.one(f"{name}_certificate_expires_seconds", lambda: tls.contexts.expires_s)
    metrics.one(f"{name}_reload_failures", lambda: tls.reload_failures)


def _users_of(file: UsersFile) -> Users:
    """As they are now."""
    return file.users


def _may_describe(ctx: Context, principal: str, address: str) -> bool:
    authorizer = ctx.clients.authorizer
    assert authorizer is not None
    authorizer.follow(ctx.image.acls)
    return authorizer.allows(
        principal, address, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    )


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


def raft_tls_settings(config: BrokerConfig) -> TlsSettings | None:
    """None where brokers' Raft is plaintext."""
    section = config.raft_tls
    if section.certificate is None:
        return None
    return TlsSettings(
        section="raft_tls",
        is_own_peer=True,
        certificate=section.certificate,
        key=section.key,
        key_password=section.key_password,
        ca=section.ca,
        client_auth="required",
        version_min=config.tls.version_min,
        handshake_timeout_ms=round(1_000 * GREETING_SECONDS),
        handshakes_max=STRANGERS_MAX,
    )

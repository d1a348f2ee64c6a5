"""The security of one broker, built from its configuration: which listeners use TLS, how other
brokers are dialed, and warnings about its certificate.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from josefine_broker.base.acls import CLUSTER_NAME, Operation, ResourceType
from josefine_broker.base.oauth import OAUTHBEARER
from josefine_broker.base.ports import Clock
from josefine_broker.base.tls_files import TlsError, load_ca
from josefine_broker.client.io_tls import UNSECURED, Secured
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.config.oauthbearer import OauthbearerSection, is_address
from josefine_broker.config.security import TlsSection
from josefine_broker.engine.context import Context
from josefine_broker.engine.limits.login_backoff import Guesses
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.engine.security.sasl import Stored, Users, no_judge, no_stored
from josefine_broker.engine.security.tokens import Holder, TokenRules
from josefine_broker.host.metrics import ConnectionStats, Metrics
from josefine_broker.host.net.admin_door import Door
from josefine_broker.host.net.sasl_gate import Authentication
from josefine_broker.host.net.tls import Tls, TlsSettings
from josefine_broker.host.net.token_keys import AddressKeys, Bearers, FileKeys, TokenKeys
from josefine_broker.host.net.users import UsersFile
from josefine_broker.host.peers.raft_tls import RaftTls
from josefine_broker.host.peers.raft_transport import GREETING_SECONDS, STRANGERS_MAX
from josefine_broker.host.worker import Worker

NONCE_BYTES = 18


class Securing:
    """TLS and authentication of a broker's listeners and outgoing connections."""

    def __init__(self, config: BrokerConfig, env: Mapping[str, str]) -> None:
        """Reads the files. Raises TlsError, UsersError, KeysError."""
        self._ctx: Context | None = None
        settings = tls_settings(config)
        self._tls = None if settings is None else Tls(settings, env)
        self._own_tls = _own_tls(config, env)
        """TLS of listeners with their own settings."""
        raft = raft_tls_settings(config)
        self.raft = None
        """TLS of the raft listener; None: plaintext."""
        if raft is not None:
            self.raft = RaftTls(Tls(raft, env), config.raft_tls.allowed_names)
        every = (self._tls, *self._own_tls.values(), self.raft and self.raft.tls)
        self._files = [each for each in every if each]
        self.by_listener: dict[str, Tls] = {}
        """The listeners with TLS."""
        for listener in config.broker.listeners:
            if config.protocol_of(listener.name).is_tls:
                tls = self._own_tls.get(listener.name, self._tls)
                assert tls is not None, "the configuration was checked"
                self.by_listener[listener.name] = tls
        self._peers = self.by_listener.get(config.inter_broker_listener)
        """TLS of the listener that brokers use; None: plaintext."""
        self.admin = self._tls if config.admin.tls else None
        """TLS of the admin listener; None: plaintext."""
        self.text = self._tls if config.text.tls else None
        """TLS of the text protocol's listener; None: plaintext."""
        sasl = config.sasl
        has_sasl = [
            each.name for each in config.broker.listeners if config.protocol_of(each.name).is_sasl
        ]
        self._oauthbearer = None
        if any(OAUTHBEARER in sasl.of(name) for name in has_sasl):
            self._oauthbearer = config.oauthbearer
        self._keys = None if self._oauthbearer is None else _file_keys(self._oauthbearer)
        self._fetching = None if self._oauthbearer is None else _fetching(self._oauthbearer)
        self._bearers: Bearers | None = None
        self._nobody = Users({}, secrets.token_bytes(32), sasl.iterations)
        """Used where clients authenticate with tokens only."""
        # Secret random bytes: unknown users get salts too, so the challenge reveals no user.
        self._users = None
        if has_sasl and sasl.users is not None:
            self._users = UsersFile(
                sasl.users, secrets.token_bytes(32), sasl.iterations, self._stored_users
            )
        self._guesses = Guesses()
        self.authentication = {
            name: Authentication(
                mechanisms=sasl.of(name),
                users=self._known_users,
                new_nonce=partial(secrets.token_urlsafe, NONCE_BYTES),
                timeout_ms=sasl.timeout_ms,
                failure_delay_ms=sasl.failure_delay_ms,
                judge=self._judge,
                session_ms=sasl.reauthentication_ms,
                guesses=self._guesses,
            )
            for name in has_sasl
        }
        """The listeners with SASL."""
        own = config.acls.inter_broker_principal
        self.nameless = {} if own is None else {config.inter_broker_listener: own}
        """Principals of clients without a name, on listeners where that is not ANONYMOUS."""
        self._failure_delay_ms = sasl.failure_delay_ms
        self._check_own_name(config)

    def _check_own_name(self, config: BrokerConfig) -> None:
        """Raises TlsError if the other brokers would refuse this one."""
        among_others = len(config.raft.voters) > 1 or bool(config.raft.seeds)
        known = config.acls.super_principals
        peers = self._peers
        is_named = peers is not None and peers.settings.client_auth == "required"
        if known is None or peers is None or not (among_others and is_named):
            return
        own = f"User:{peers.contexts.subject}"
        if own not in known:
            raise TlsError(
                f"acls.super_users lacks {own}, the name in this broker's certificate:"
                " the other brokers would refuse it"
            )

    def begin(
        self, on_fatal: Callable[[BaseException], None], clock: Clock
    ) -> Callable[[], Awaitable[None]]:
        """Start to load the token keys, without waiting; the result stops that."""
        section = self._oauthbearer
        if section is None:
            return _nothing
        worker, keys = None, self._keys
        if keys is None:
            assert section.jwks is not None, "the configuration was checked"
            worker = Worker(on_fatal, "keys")
            keys = self._keys = AddressKeys(
                section.jwks,
                self._fetching,
                section.jwks_refresh_ms,
                worker.submit,
                clock.monotonic_ms,
            )
            keys.reload_changed()
        self._bearers = Bearers(keys, token_rules(section), clock.now_ms)
        return _nothing if worker is None else worker.stop

    def _judge(self, token: str) -> Holder:
        assert self._bearers is not None, "it has begun before it listens"
        return self._bearers.judge(token)

    def follow(self, ctx: Context) -> None:
        """From now on users of the metadata may log in too."""
        self._ctx = ctx

    def _stored_users(self) -> Stored:
        return no_stored() if self._ctx is None else self._ctx.image.credentials

    def door(self, ctx: Context, stats: ConnectionStats) -> Door | None:
        """Access control of the admin listener; None: every client is admitted."""
        if ctx.clients.authorizer is None:
            return None
        return Door(
            users=lambda: None if self._users is None else self._users.users,
            may_look=partial(_may, ctx, Operation.DESCRIBE),
            may_act=partial(_may, ctx, Operation.ALTER),
            failure_delay_ms=self._failure_delay_ms,
            judge=no_judge if self._oauthbearer is None else self._judge,
            stats=stats,
            guesses=self._guesses,
        )

    def to_peers(self) -> Secured:
        """How to dial the listener that brokers use."""
        return UNSECURED if self._peers is None else Secured(self._peers.contexts.dialling)

    def to_text(self) -> ssl.SSLContext | None:
        """How to dial other brokers' text listeners; None: plaintext."""
        return None if self.text is None else self.text.contexts.dialling

    def warnings(self, now_ms: int) -> list[str]:
        """Warnings for the user at the start; `now_ms` is Unix time."""
        said = [each.expired(now_ms) for each in self._files]
        return [each for each in dict.fromkeys(said) if each]

    def reload_changed(self) -> None:
        """A duty of the ticker."""
        for each in (*self._files, self._users, self._keys):
            if each is not None:
                each.reload_changed()

    def register_metrics(self, metrics: Metrics, authorizer: Authorizer | None) -> None:
        """Register only metrics of what is configured."""
        if authorizer is not None:
            metrics.one("authorization_denied", lambda: authorizer.denied)
        if self._tls is not None:
            _register_tls(metrics, "tls", self._tls)
        if self._own_tls:
            _register_own_tls(metrics, self._own_tls)
        if self.raft is not None:
            _register_tls(metrics, "raft_tls", self.raft.tls)
        if self._oauthbearer is not None:
            metrics.one("jwks_keys", lambda: len(self._have_keys.keys))
            metrics.one("jwks_reload_failures", lambda: self._have_keys.reload_failures)

    @property
    def _have_keys(self) -> TokenKeys:
        assert self._keys is not None, "it has begun before it is measured"
        return self._keys

    def _known_users(self) -> Users:
        """The current users."""
        return self._nobody if self._users is None else self._users.users


def _register_tls(metrics: Metrics, name: str, tls: Tls) -> None:
    metrics.one(f"{name}_certificate_expires_seconds", lambda: tls.contexts.expires_s)
    metrics.one(f"{name}_reload_failures", lambda: tls.reload_failures)


def _own_tls(config: BrokerConfig, env: Mapping[str, str]) -> dict[str, Tls]:
    """By listener name. Raises TlsError."""
    settings = {
        each.name: listener_tls_settings(config, each.name) for each in config.broker.listeners
    }
    return {name: Tls(own, env) for name, own in settings.items() if own is not None}


def _register_own_tls(metrics: Metrics, own: Mapping[str, Tls]) -> None:
    metrics.read(
        "listener_certificate_expires_seconds",
        lambda: [({"listener": name}, tls.contexts.expires_s) for name, tls in own.items()],
    )
    metrics.read(
        "listener_tls_reload_failures",
        lambda: [({"listener": name}, tls.reload_failures) for name, tls in own.items()],
    )


async def _nothing() -> None:
    """The stop function of nothing."""


def _file_keys(section: OauthbearerSection) -> TokenKeys | None:
    """None: the keys come from an address. Raises KeysError."""
    assert section.jwks is not None, "the configuration was checked"
    return None if is_address(section.jwks) else FileKeys(Path(section.jwks))


def _fetching(section: OauthbearerSection) -> ssl.SSLContext:
    """Raises TlsError."""
    if section.jwks_ca is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_ca(context, section.jwks_ca, "oauthbearer.jwks_ca")
    return context


def token_rules(section: OauthbearerSection) -> TokenRules:
    """The configured rules for tokens."""
    assert section.issuer is not None, "the configuration was checked"
    return TokenRules(
        issuer=section.issuer,
        audience=frozenset(section.audience),
        principal_claim=section.principal_claim,
        clock_skew_ms=section.clock_skew_ms,
    )


def _may(ctx: Context, operation: Operation, principal: str, address: str) -> bool:
    """Whether the principal may do this to the cluster."""
    authorizer = ctx.clients.authorizer
    assert authorizer is not None
    authorizer.follow(ctx.image.acls)
    return authorizer.allows(principal, address, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def tls_settings(config: BrokerConfig) -> TlsSettings | None:
    """None if no certificate is configured."""
    return None if config.tls.certificate is None else _settings_of(config.tls, "tls", "tls")


def listener_tls_settings(config: BrokerConfig, listener: str) -> TlsSettings | None:
    """None if the listener has no settings of its own."""
    own = config.tls.own(listener)
    if own is None:
        return None
    named = f"tls.by_listener.{listener}"
    return _settings_of(
        config.tls.of(listener),
        "tls" if own.certificate is None else named,
        "tls" if own.ca is None else named,
    )


def _settings_of(section: TlsSection, own_section: str, ca_section: str) -> TlsSettings:
    assert section.certificate is not None, "the configuration was checked"
    return TlsSettings(
        section=own_section,
        ca_section=ca_section,
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
    """None if brokers' Raft is plaintext."""
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

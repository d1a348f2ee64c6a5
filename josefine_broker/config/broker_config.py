"""The broker's configuration: typed, frozen, complete. Every key has a default and a meaning, every
number a bound.

This model is the single definition: `conf/broker.yaml` is generated from it, loading refuses
unknown keys, and every key can be overridden by the environment (`JOSEFINE__BROKER__ID=3`). A name
includes its unit (`_ms`, `bytes`); `null` means "no limit" or "derived", as the meaning states.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.oauth import OAUTHBEARER
from josefine_broker.base.security import ANONYMOUS, SecurityProtocol
from josefine_broker.config.groups import GroupSection, OffsetsSection
from josefine_broker.config.oauthbearer import OauthbearerSection
from josefine_broker.config.sections import (
    TEXT_LISTENER,
    AdminSection,
    ClusterSection,
    IdentitySection,
    LoggingSection,
    LogSection,
    NetworkSection,
    RaftSection,
    ReplicationSection,
    TextSection,
    TopicDefaultsSection,
    TransactionsSection,
)
from josefine_broker.config.security import (
    OWN_KEYS,
    AclsSection,
    RaftTlsSection,
    SaslSection,
    TlsSection,
    name_among,
    protocol_of,
)
from josefine_broker.config.source import ConfigError, KeyPath, Source, read_source
from josefine_broker.config.telemetry import TelemetrySection
from josefine_broker.config.values import (
    Listener,
    Section,
    Voter,
    overlap,
)

__all__ = ["BrokerConfig", "ConfigError", "HostPort", "Listener", "Voter", "load_config"]

ENV_PREFIX = "JOSEFINE__"


class BrokerConfig(Section):
    """The whole configuration of one broker."""

    broker: IdentitySection = IdentitySection()
    network: NetworkSection = NetworkSection()
    tls: TlsSection = TlsSection()
    raft_tls: RaftTlsSection = RaftTlsSection()
    sasl: SaslSection = SaslSection()
    oauthbearer: OauthbearerSection = OauthbearerSection()
    acls: AclsSection = AclsSection()
    topic_defaults: TopicDefaultsSection = TopicDefaultsSection()
    log: LogSection = LogSection()
    raft: RaftSection = RaftSection()
    cluster: ClusterSection = ClusterSection()
    replication: ReplicationSection = ReplicationSection()
    group: GroupSection = GroupSection()
    offsets: OffsetsSection = OffsetsSection()
    transactions: TransactionsSection = TransactionsSection()
    admin: AdminSection = AdminSection()
    text: TextSection = TextSection()
    logging: LoggingSection = LoggingSection()
    telemetry: TelemetrySection = TelemetrySection()

    @model_validator(mode="after")
    def _listeners_fit(self) -> BrokerConfig:
        if not self.broker.listeners:
            raise ValueError("broker.listeners must name at least one listener")
        bound = {listener.name for listener in self.broker.listeners}
        if TEXT_LISTENER in bound:
            raise ValueError(f"broker.listeners names {TEXT_LISTENER}, which is that of text.port")
        text = set() if self.text.port is None else {TEXT_LISTENER}
        for advertised in self.broker.advertised_listeners:
            if advertised.name not in bound | text:
                raise ValueError(
                    f"broker.advertised_listeners names {advertised.name!r}, which is not in"
                    " broker.listeners"
                )
            if advertised.host in ("0.0.0.0", "::") or advertised.port == 0:
                raise ValueError(
                    f"broker.advertised_listeners {advertised} cannot be dialed by clients"
                )
        inter_broker = self.broker.inter_broker_listener
        if inter_broker is not None and inter_broker not in bound:
            raise ValueError(
                f"broker.inter_broker_listener {inter_broker!r} is not in broker.listeners"
            )
        return self

    @model_validator(mode="after")
    def _protections_are_there(self) -> BrokerConfig:
        named = {each.name for each in self.broker.listeners}
        for each in self.broker.listener_security_protocol_map:
            if each.name not in named:
                raise ValueError(
                    f"broker.listener_security_protocol_map names {each.name!r}, which is not in"
                    " broker.listeners"
                )
        for listener in self.broker.listeners:
            protocol = protocol_of(listener, self.broker.listener_security_protocol_map)
            if protocol.is_tls and self.tls.of(listener.name).certificate is None:
                raise ValueError(
                    f"broker.listeners {listener} speaks {protocol.value}, which needs"
                    " tls.certificate"
                )
            takes_passwords = set(self.sasl.of(listener.name)) != {OAUTHBEARER}
            if protocol.is_sasl and self.sasl.users is None and takes_passwords:
                raise ValueError(
                    f"broker.listeners {listener} speaks {protocol.value}, which needs sasl.users"
                )
        for name, section in (("admin", self.admin), ("text", self.text)):
            if section.tls and self.tls.certificate is None:
                raise ValueError(f"{name}.tls needs tls.certificate")
        # A single broker replicates from nobody, so its listeners may all use SASL.
        among_others = len(self.raft.voters) > 1 or bool(self.raft.seeds)
        if among_others and self.protocol_of(self.inter_broker_listener).is_sasl:
            raise ValueError(
                f"broker.inter_broker_listener {self.inter_broker_listener!r} speaks SASL, and"
                " brokers have no password: name a listener that speaks SSL or PLAINTEXT"
            )
        return self

    @model_validator(mode="after")
    def _listeners_own_security_is_theirs(self) -> BrokerConfig:
        """A misspelled name must not leave its listener with less protection than configured."""
        speaking = {each.name: self.protocol_of(each.name) for each in self.broker.listeners}
        with_tls = [name for name, protocol in speaking.items() if protocol.is_tls]
        with_sasl = [name for name, protocol in speaking.items() if protocol.is_sasl]
        tls, sasl = self.tls.by_listener, self.sasl.mechanisms_by_listener
        for key, kind, named, fitting in (
            ("tls.by_listener", "TLS", tls, with_tls),
            ("sasl.mechanisms_by_listener", "SASL", sasl, with_sasl),
        ):
            for name in named:
                why = _why_no_listener(name, kind, speaking, fitting)
                if why:
                    raise ValueError(f"{key}.{name} {why}")
                if name_among(name, [each for each in named if each != name]) != name:
                    raise ValueError(f"{key}.{name} is given twice, in different capitals")
        return self

    @model_validator(mode="after")
    def _tokens_are_judged_where_they_are_taken(self) -> BrokerConfig:
        by_listener = self.sasl.mechanisms_by_listener.values()
        takes = any(OAUTHBEARER in each for each in (self.sasl.mechanisms, *by_listener))
        if takes and self.oauthbearer.jwks is None:
            raise ValueError(
                "sasl.mechanisms has OAUTHBEARER, which needs oauthbearer.jwks: the keys by which"
                " tokens are checked"
            )
        if not takes and self.oauthbearer.jwks is not None:
            raise ValueError(
                "oauthbearer.jwks has no effect: sasl.mechanisms does not name OAUTHBEARER"
            )
        return self

    @model_validator(mode="after")
    def _clients_are_no_brokers(self) -> BrokerConfig:
        own = self.raft_tls
        sections = {"tls": self.tls}
        sections |= {f"tls.by_listener.{name}": self.tls.of(name) for name in self.tls.by_listener}
        for name, section in sections.items():
            shares = own.ca is not None and own.ca == section.ca and section.client_auth != "none"
            if shares and not own.allowed_names:
                raise ValueError(
                    f"raft_tls.ca {own.ca} is {name}.ca too, whose clients could vote: name the"
                    " brokers in raft_tls.allowed_names, or give them an authority of their own"
                )
        return self

    @model_validator(mode="after")
    def _brokers_are_super_users(self) -> BrokerConfig:
        """Otherwise the other brokers would refuse their fetches."""
        among_others = len(self.raft.voters) > 1 or bool(self.raft.seeds)
        if self.acls.inter_broker_principal and self.broker.inter_broker_listener is None:
            raise ValueError(
                "acls.inter_broker_principal makes every client of"
                " broker.inter_broker_listener a super user: name that listener"
            )
        known = self.acls.super_principals
        protocol = self.protocol_of(self.inter_broker_listener)
        asks = self.tls.of(self.inter_broker_listener).client_auth
        has_names = protocol.is_tls and asks == "required"
        is_told = has_names or self.acls.inter_broker_principal is not None
        if among_others and known is not None and not is_told and ANONYMOUS not in known:
            raise ValueError(
                "acls.enabled needs acls.inter_broker_principal, or tls.client_auth: required:"
                f" brokers come through {self.inter_broker_listener}, which asks nobody for a name"
            )
        return self

    @model_validator(mode="after")
    def _ports_are_apart(self) -> BrokerConfig:
        """Otherwise both would be bound, and the second fail when it starts to listen, or serve the
        wrong kind of peer."""
        bound = [(f"broker.listeners {each}", each.address) for each in self.broker.listeners]
        bound.append((f"raft.listener {self.raft.listener}", self.raft.listener))
        if self.admin.address is not None:
            bound.append((f"admin.address {self.admin.address}", self.admin.address))
        if self.text.port is not None:
            address = HostPort(self.text.host, self.text.port)
            bound.append((f"text.port {address}", address))
        for (one, address), (other, other_address) in itertools.combinations(bound, 2):
            if overlap(address, other_address):
                raise ValueError(f"{one} and {other} cannot share port {address.port}")
        return self

    @model_validator(mode="after")
    def _raft_fits(self) -> BrokerConfig:
        broker_id, raft = self.broker.id, self.raft
        if raft.id not in (None, broker_id):
            raise ValueError(f"raft.id {raft.id} must equal broker.id {broker_id}, or be left out")
        if raft.voters and raft.seeds:
            raise ValueError(
                "raft.voters (form a cluster) and raft.seeds (join one) exclude each other"
            )
        own = self.own_voter
        if raft.voters and own is None:
            raise ValueError(
                f"raft.voters does not list this broker ({broker_id}); to join use raft.seeds"
            )
        if own is not None and raft.advertised is None and raft.listener.port != own.port:
            raise ValueError(
                f"raft.voters has broker {broker_id} at {own.address}, but raft.listener"
                f" is {raft.listener}; if that is right, set raft.advertised"
            )
        return self

    @property
    def own_voter(self) -> Voter | None:
        return next((each for each in self.raft.voters if each.id == self.broker.id), None)

    @property
    def inter_broker_listener(self) -> str:
        return self.broker.inter_broker_listener or self.broker.listeners[0].name

    def protocol_of(self, listener: str) -> SecurityProtocol:
        """The protocol of the listener with this name."""
        named = next(each for each in self.broker.listeners if each.name == listener)
        return protocol_of(named, self.broker.listener_security_protocol_map)


def _why_no_listener(
    name: str, kind: str, speaking: Mapping[str, SecurityProtocol], fitting: Sequence[str]
) -> str:
    """Why settings of `kind` (TLS, SASL) cannot apply to the listener with this name; empty: they
    can."""
    meant = name_among(name, speaking)
    if meant not in speaking:
        nearest = difflib.get_close_matches(name, speaking, n=1, cutoff=0.0)[0]
        return f"is not in broker.listeners; the nearest listener is {nearest}"
    if meant not in fitting:
        return f"has no effect: that listener speaks {speaking[meant].value}, not {kind}"
    return ""


def key_paths() -> list[str]:
    """Every dotted key: unknown keys are compared with these."""
    return [
        f"{section}.{key}"
        for section, field in BrokerConfig.model_fields.items()
        for key in _section_model(field.annotation).model_fields
    ]


def _section_model(annotation: Any) -> type[Section]:
    assert isinstance(annotation, type)
    assert issubclass(annotation, Section)
    return annotation


def load_config(
    path: Path | str | None,
    env: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> BrokerConfig:
    """File (YAML or TOML by suffix), then environment, then `overrides` (dotted keys: the command
    line); the later wins. ConfigError is one sentence with file, line where known, and key."""
    source = read_source(Path(path) if path is not None else None)
    source.apply_environment(env, ENV_PREFIX)
    for key, value in (overrides or {}).items():
        source.set(tuple(key.split(".")), value, "command line")
    source.refuse_unknown(key_paths())
    source.refuse_unknown_below(("tls", "by_listener"), OWN_KEYS)
    try:
        return BrokerConfig.model_validate(source.values)
    except ValidationError as error:
        raise ConfigError(_first_problem(error, source)) from None


def _blamed(message: str, path: KeyPath, source: Source) -> KeyPath:
    """The path to report: a rule over several keys has the path of their section, or none; then it
    is the first set key that the message names."""
    found = []
    for key in source.places:
        name = ".".join(key[len(path) :])
        named = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", message) if name else None
        if named and key[: len(path)] == path and len(key) > 1:
            found.append((named.start(), -len(key), key))
    return min(found)[2] if found else path


def _first_problem(error: ValidationError, source: Source) -> str:
    problem = error.errors(include_url=False)[0]
    path = source.known_part(tuple(str(step) for step in problem["loc"]))
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    where = source.place(_blamed(message, path, source))
    if not path:
        return f"{where}: {message}"
    got = f", got {problem['input']!r}" if "got" not in message else ""
    return f"{where}: {'.'.join(path)}: {message}{got}"

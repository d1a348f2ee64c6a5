"""The security part of the configuration: protocols of listeners, places of secrets, and the
sections `tls`, `sasl` and `acls`.

A listener whose name promises a protection gets it, or the broker does not start: a client that
asked for encryption must not be served without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from josefine_broker.base.security import SecretPlace, SecurityProtocol, parse_secret_place
from josefine_broker.config.values import Count, Flag, Listener, Section, TimeoutMs, items

PROMISES = frozenset(
    ("SSL", "TLS", "MTLS", "SASL", "GSSAPI", "KERBEROS", "SCRAM", "OAUTHBEARER", "HTTP", "HTTPS")
)
"""Protections that a listener's name may promise."""

SERVED = tuple(SecurityProtocol)


class NamedProtocol(NamedTuple):
    """The protocol of the listener with this name."""

    name: str
    protocol: SecurityProtocol

    def __str__(self) -> str:
        return f"{self.name}:{self.protocol.value}"


def parse_named_protocol(value: object) -> NamedProtocol:
    """`NAME:PROTOCOL`; the ValueError names the problem."""
    if isinstance(value, NamedProtocol):
        return value
    name, colon, protocol = value.partition(":") if isinstance(value, str) else ("", "", "")
    served = [each.value for each in SERVED]
    if not name or not colon:
        raise ValueError(f"must be NAME:PROTOCOL, got {value!r}")
    if protocol not in served:
        raise ValueError(f"protocol {protocol!r} in {value!r} is not one of {', '.join(served)}")
    return NamedProtocol(name, SecurityProtocol(protocol))


def _parse_map(value: object) -> tuple[NamedProtocol, ...]:
    found = tuple(parse_named_protocol(item) for item in items(value, "NAME:PROTOCOL"))
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"listener {name!r} is named twice")
    return found


def protocol_of(listener: Listener, named: Sequence[NamedProtocol]) -> SecurityProtocol:
    """The protocol of a listener: from the map, otherwise from its name, otherwise PLAINTEXT.
    ValueError for a name that promises another."""
    for each in named:
        if each.name == listener.name:
            return each.protocol
    for protocol in SERVED:
        if protocol.value == listener.name.upper():
            return protocol
    promised = PROMISES.intersection(re.split("[_-]", listener.name.upper()))
    if promised:
        raise ValueError(
            f"broker.listeners '{listener}' asks for {min(promised)}: set its protocol"
            f" ({', '.join(each.value for each in SERVED)}) in"
            " broker.listener_security_protocol_map"
        )
    return SecurityProtocol.PLAINTEXT


def name_among(listener: str, names: Iterable[str]) -> str:
    """The spelling of a listener among these names, or the name itself: keys in the environment
    have no capitals, so the case of a name is ignored if it has no exact match."""
    alike = [each for each in names if each.upper() == listener.upper()]
    return listener if listener in alike or not alike else alike[0]


ProtocolMap = Annotated[
    tuple[NamedProtocol, ...],
    BeforeValidator(_parse_map),
    PlainSerializer(lambda named: [str(each) for each in named], return_type=list[str]),
]
Secret = Annotated[
    SecretPlace,
    BeforeValidator(parse_secret_place),
    PlainSerializer(str, return_type=str),
]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
ClientAuth = Literal["none", "requested", "required"]
TlsVersion = Literal["1.2", "1.3"]


def _parse_principals(value: object) -> tuple[str, ...]:
    return tuple(_parse_principal(each) for each in items(value, "User:NAME"))


def _parse_principal(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if not text.startswith("User:") or text in ("User:", "User:*"):
        raise ValueError(f"must be User:NAME, got {value!r}")
    return text


def _parse_names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"must be a list, for a certificate's name may have commas, got {value!r}")
    names = tuple(str(each) for each in items(value, "CN=NAME"))
    for name in names:
        if "=" not in name:
            raise ValueError(f"must be names as certificates have them (CN=NAME), got {name!r}")
    return names


CertificateNames = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_names),
    PlainSerializer(list, return_type=list[str]),
]
Principal = Annotated[str, BeforeValidator(_parse_principal)]
Principals = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_principals),
    PlainSerializer(list, return_type=list[str]),
]
KeyFile = Annotated[
    Path | None, Field(description="Its private key; null: in the certificate's file.")
]
KeyPassword = Annotated[
    Secret | None,
    Field(description="Place of the key's password, as file:PATH or env:NAME; null: it has none."),
]


class ListenerTls(Section):
    """TLS settings of one listener, in `tls.by_listener`; None: as in `tls`."""

    certificate: Path | None = Field(
        default=None,
        description="Its certificate; its key and key_password then replace those of tls too.",
    )
    key: Path | None = Field(default=None, description="Needs certificate; null: in that file.")
    key_password: Secret | None = Field(default=None, description="Needs certificate.")
    ca: Path | None = Field(default=None, description="Authorities of trusted clients there.")
    client_auth: ClientAuth | None = Field(default=None, description="As tls.client_auth.")
    version_min: TlsVersion | None = Field(default=None, description="As tls.version_min.")

    @model_validator(mode="after")
    def _key_is_of_its_certificate(self) -> ListenerTls:
        for name in ("key", "key_password"):
            if self.certificate is None and getattr(self, name) is not None:
                raise ValueError(f"{name} needs certificate: that of tls has its own")
        return self

    def over(self, section: TlsSection) -> TlsSection:
        """All TLS settings of this listener."""
        own = {key: found for key in OWN_KEYS if (found := getattr(self, key)) is not None}
        if self.certificate is not None:
            own |= {"key": self.key, "key_password": self.key_password}
        return section.model_copy(update=own)


OWN_KEYS = tuple(ListenerTls.model_fields)


class TlsSection(Section):
    """TLS of the listeners that use SSL; files are PEM, and are reloaded when they change."""

    certificate: Path | None = Field(
        default=None,
        description="This broker's certificate, followed by its intermediates. Required"
        " if a listener uses SSL.",
    )
    key: KeyFile = None
    key_password: KeyPassword = None
    ca: Path | None = Field(
        default=None,
        description="Certificates of the trusted authorities of clients (client_auth) and brokers"
        " (inter_broker_listener); a file, or a directory made by `openssl rehash`.",
    )
    client_auth: ClientAuth = Field(
        default="none",
        description="Client certificates: none, requested or required.",
    )
    version_min: TlsVersion = Field(
        default="1.2", description="Oldest accepted version of TLS: '1.2' or '1.3'."
    )
    handshake_timeout_ms: TimeoutMs = Field(
        default=10_000, description="Time limit of a client's handshake."
    )
    handshakes_max: Annotated[Count, Field(le=1_024)] = Field(
        default=128,
        description="Concurrent handshakes on a listener; above that the oldest is dropped.",
    )
    reload_check_ms: TimeoutMs = Field(
        default=10_000, description="Time between two checks whether the files have changed."
    )
    by_listener: dict[str, ListenerTls] = Field(
        default={},
        description="Settings of single listeners, by their names in broker.listeners:"
        " {OUTSIDE: {certificate: outside.pem, key: outside.key}, INSIDE: {ca: inside-ca.pem,"
        f" client_auth: required}}. Of {', '.join(OWN_KEYS)}; a missing key is as above,"
        " but a certificate comes with its own key.",
    )

    @model_validator(mode="after")
    def _client_certificates_can_be_judged(self) -> TlsSection:
        if self.client_auth != "none" and self.ca is None:
            raise ValueError(f"client_auth needs ca, got {self.client_auth} without it")
        for name in self.by_listener:
            if (auth := self.of(name).client_auth) != "none" and self.of(name).ca is None:
                raise ValueError(
                    f"by_listener.{name}.client_auth needs ca, there or above, got {auth} without"
                )
        return self

    def own(self, listener: str) -> ListenerTls | None:
        """The settings of this listener alone."""
        return self.by_listener.get(name_among(listener, self.by_listener))

    def of(self, listener: str) -> TlsSection:
        """All settings of this listener."""
        own = self.own(listener)
        return self if own is None else own.over(self)


class RaftTlsSection(Section):
    """Mutual TLS of the raft listener: on every broker of a cluster, or on none."""

    certificate: Path | None = Field(
        default=None,
        description="This broker's certificate, for both sides of a connection; its names are those"
        " that the others dial (raft.voters, raft.advertised). null: Raft is plaintext, and anyone"
        " who reaches raft.listener can pretend to be a broker.",
    )
    key: KeyFile = None
    key_password: KeyPassword = None
    ca: Path | None = Field(
        default=None,
        description="Certificates of the trusted authorities of brokers; required with a"
        " certificate. Prefer an authority that issues nothing else.",
    )
    allowed_names: CertificateNames = Field(
        default=(),
        description="Names (subjects) of the certificates that may be brokers, as a list of CN=NAME"
        " (RFC 2253); empty: every certificate of ca. Required if clients have one too.",
    )

    @model_validator(mode="after")
    def _all_or_nothing(self) -> RaftTlsSection:
        if self.certificate is not None and self.ca is None:
            raise ValueError("certificate needs ca: the authority of the other brokers")
        for name in ("ca", "key", "key_password", "allowed_names"):
            if self.certificate is None and getattr(self, name):
                raise ValueError(f"{name} needs certificate: without one Raft is plaintext")
        return self


class SaslSection(Section):
    """Authentication on the listeners that speak SASL_PLAINTEXT or SASL_SSL."""

    users: Path | None = Field(
        default=None,
        description="File of users, one name=password per line; nobody else may read it. It is"
        " reloaded when it changes. Required if a listener uses SASL, except for OAUTHBEARER.",
    )
    mechanisms: Annotated[tuple[Mechanism, ...], Field(min_length=1)] = Field(
        default=("SCRAM-SHA-256", "SCRAM-SHA-512"),
        description="Accepted SASL mechanisms: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, which"
        " sends the password itself, and OAUTHBEARER, which sends a token (oauthbearer).",
    )
    mechanisms_by_listener: dict[str, Annotated[tuple[Mechanism, ...], Field(min_length=1)]] = (
        Field(
            default={},
            description="The same for single listeners, by their names in broker.listeners, as"
            " {OUTSIDE: [OAUTHBEARER]}; a listener not named here has those above.",
        )
    )
    iterations: Annotated[Count, Field(ge=4_096, le=16_384)] = Field(
        default=4_096, description="SCRAM iterations: the cost of a guess for an eavesdropper."
    )
    timeout_ms: TimeoutMs = Field(
        default=10_000, description="Time limit of a client's authentication."
    )
    failure_delay_ms: TimeoutMs = Field(
        default=1_000, description="Delay of the answer to a refused client."
    )
    reauthentication_ms: Annotated[TimeoutMs, Field(ge=1_000)] | None = Field(
        default=None,
        description="Lifetime of an authentication (Kafka's connections.max.reauth.ms): a client"
        " authenticates again, or its next request closes the connection; null: as long as the"
        " connection, or its token.",
    )

    def of(self, listener: str) -> tuple[Mechanism, ...]:
        """The mechanisms of this listener."""
        named = self.mechanisms_by_listener
        return named.get(name_among(listener, named), self.mechanisms)


class AclsSection(Section):
    """Authorization of identified clients; the same for every broker of a cluster."""

    enabled: Flag = Field(
        default=False,
        description="Whether clients may do only what an ACL allows; false: every client may do"
        " everything.",
    )
    super_users: Principals = Field(
        default=(),
        description="Principals that may do everything, as User:NAME; a name with a comma needs a"
        " list, not a text. Brokers must be among them (docs/how-to/security.md).",
    )
    inter_broker_principal: Principal | None = Field(
        default=None,
        description="Principal of clients of broker.inter_broker_listener, if that"
        " requires no certificate and no password: a super user, so only brokers may reach it."
        " null: User:ANONYMOUS, as through any other such listener.",
    )
    allow_everyone_if_no_acl_found: Flag = Field(
        default=False,
        description="Whether a resource without any ACL is open to all clients; false: to none.",
    )

    @property
    def super_principals(self) -> frozenset[str] | None:
        """None: every client is one."""
        if not self.enabled:
            return None
        own = self.inter_broker_principal
        return frozenset(self.super_users) | (frozenset() if own is None else {own})

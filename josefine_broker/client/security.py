"""Security settings of a client's connections: librdkafka's and Java's names to one value. No file
is opened here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from josefine_broker.base.oauth import OAUTHBEARER
from josefine_broker.base.security import SecretPlace, SecurityProtocol, parse_secret_place

PEM = "PEM"
NAMES = frozenset(
    (
        "security.protocol",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.token.endpoint.url",
    )
)
"""Every supported setting; the stores are Java's, as PEM files (KIP-651)."""

TOKEN, TOKEN_URL = "sasl.oauthbearer.token", "sasl.oauthbearer.token.endpoint.url"
"""Ours and Java's (KIP-768)."""
SECRETS = frozenset(("ssl.key.password", "sasl.password"))
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
_JAAS = re.compile(
    r"\s*[\w.]+\.(?:PlainLoginModule|ScramLoginModule)\s+required"
    r'((?:\s+\w+="(?:[^"\\]|\\.)*")+)\s*;\s*'
)
_JAAS_BEARER = re.compile(r"\s*[\w.]+\.OAuthBearerLoginModule\s+required\s*;\s*")
_JAAS_WORD = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How every connection of a client starts. Hashable; no secret is in its `repr`."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ca: str | None = None
    """PEM file of the trusted authorities; None: the system's."""
    certificate: str | None = None
    key: str | None = None
    """None: the key is in the certificate's file."""
    key_password: str | None = field(default=None, repr=False)
    verify_host: bool = True
    """Whether the broker's certificate must name the dialed host."""
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: SecretPlace | None = None
    """Where the OAUTHBEARER token is: read for each connection, so that it can be renewed there."""


PLAINTEXT = Security()


def parse_security(settings: Mapping[str, str]) -> Security:
    """The settings among NAMES; no others. Raises ValueError with the setting and the problem,
    never a secret's text."""
    unknown = sorted(set(settings) - NAMES)
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown setting")
    protocol = _protocol(settings.get("security.protocol", "PLAINTEXT"))
    for store in ("ssl.truststore", "ssl.keystore"):
        kind = settings.get(f"{store}.type", "JKS")
        if f"{store}.location" in settings and kind.upper() != PEM:
            raise ValueError(
                f"{store}.type: only PEM is read, got {kind!r}: export the store as PEM"
            )
    security = Security(
        protocol=protocol,
        ca=_one_of(settings, "ssl.ca.location", "ssl.truststore.location"),
        certificate=_one_of(settings, "ssl.certificate.location", "ssl.keystore.location"),
        key=settings.get("ssl.key.location"),
        key_password=settings.get("ssl.key.password"),
        verify_host=_verifies_host(settings),
        **_login(protocol, settings),
    )
    if security.key is not None and security.certificate is None:
        raise ValueError("ssl.key.location: needs ssl.certificate.location")
    # A setting without effect is refused: its user would believe in a protection that is missing.
    without_effect = ("" if protocol.is_tls else "ssl.", "" if protocol.is_sasl else "sasl.")
    for prefix in filter(None, without_effect):
        for name in sorted(settings):
            if name.startswith(prefix):
                raise ValueError(f"{name}: has no effect with security.protocol={protocol.value}")
    return security


def _protocol(text: str) -> SecurityProtocol:
    served = [each.value for each in SecurityProtocol]
    if text.upper() not in served:
        raise ValueError(f"security.protocol: {text!r} is not one of {', '.join(served)}")
    return SecurityProtocol(text.upper())


def _one_of(settings: Mapping[str, str], name: str, other: str) -> str | None:
    if name in settings and other in settings:
        raise ValueError(f"{name} and {other} are two names of one setting: set only one")
    return settings.get(name, settings.get(other))


def _verifies_host(settings: Mapping[str, str]) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    text = settings.get(name, "https").lower()
    if text not in ("https", "none", ""):  # Java's value for none is the empty text
        raise ValueError(f"{name}: must be https or none, got {text!r}")
    return text == "https"


def _login(protocol: SecurityProtocol, settings: Mapping[str, str]) -> dict[str, Any]:
    if not protocol.is_sasl:
        return {}
    mechanism = _one_of(settings, "sasl.mechanism", "sasl.mechanisms")
    if mechanism is None or mechanism.upper() not in MECHANISMS:
        got = "nothing" if mechanism is None else repr(mechanism)
        raise ValueError(f"sasl.mechanism: must be one of {', '.join(MECHANISMS)}, got {got}")
    mechanism = mechanism.upper()
    is_bearer = mechanism == OAUTHBEARER
    others = ("sasl.username", "sasl.password") if is_bearer else (TOKEN, TOKEN_URL)
    for name in others:
        if name in settings:
            raise ValueError(f"{name}: has no effect with sasl.mechanism={mechanism}")
    if is_bearer:
        return {"mechanism": mechanism, "token": _token_place(settings)}
    words = {name: settings.get(f"sasl.{name}", "") for name in ("username", "password")}
    if "sasl.jaas.config" in settings:
        words |= _jaas(settings["sasl.jaas.config"])
    for name, text in words.items():
        if not text:
            raise ValueError(f"sasl.{name}: is missing")
        if "\0" in text:
            raise ValueError(f"sasl.{name}: has a zero byte")
    return {"mechanism": mechanism, **words}


def _token_place(settings: Mapping[str, str]) -> SecretPlace:
    jaas = settings.get("sasl.jaas.config")
    if jaas is not None and _JAAS_BEARER.fullmatch(jaas) is None:
        raise ValueError("sasl.jaas.config: must be OAuthBearerLoginModule required;")
    if _one_of(settings, TOKEN, TOKEN_URL) is None:
        raise ValueError(f"{TOKEN}: is missing: file:PATH or env:NAME, where the token is")
    if TOKEN_URL in settings:
        path = urlsplit(settings[TOKEN_URL])
        if path.scheme != "file" or path.netloc or not path.path:
            raise ValueError(f"{TOKEN_URL}: must be file:///PATH; other URLs are not supported")
        return SecretPlace("file", unquote(path.path))
    try:
        return parse_secret_place(settings[TOKEN])
    except ValueError as error:
        raise ValueError(f"{TOKEN}: {error}") from None


def _jaas(text: str) -> dict[str, str]:
    """User and password in the JAAS line of Java clients."""
    found = _JAAS.fullmatch(text)
    if found is None:
        raise ValueError(
            "sasl.jaas.config: must be PlainLoginModule or ScramLoginModule required"
            ' username="…" password="…";'
        )
    pairs = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS_WORD.findall(found[1])}
    return {name: pairs.get(name, "") for name in ("username", "password")}

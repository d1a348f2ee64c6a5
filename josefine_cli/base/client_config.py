"""The client configuration for protected brokers: the settings of Kafka's clients
(`security.protocol`, `ssl.ca.location` …) in a file, one `name=value` per line, or in a profile.

A secret may be a reference: `ssl.key.password=file:PATH` or `env:NAME`.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from josefine_broker.client.io_tls import client_context
from josefine_broker.client.secret_settings import read_secrets
from josefine_broker.client.security import NAMES, PLAINTEXT, Security, parse_security
from josefine_cli.base.errors import CLIENT_CONFIG, UsageError
from josefine_cli.base.profiles import BOOTSTRAP, profile_of


def configured_security(env: Mapping[str, str], address: str | None = None) -> Security:
    """The security settings for an address, brokers' or a URL; None: those in use. Raises
    UsageError with file and line."""
    origin, settings = _settings(env, address)
    if not settings:
        return PLAINTEXT
    try:
        return parse_security(read_secrets(settings, env))
    except ValueError as error:
        raise UsageError(f"{origin}: {error}") from None


def file_security(path: str, env: Mapping[str, str]) -> Security:
    """The security settings of this file, for another cluster than the one in use. Raises
    UsageError with file and line."""
    try:
        return parse_security(read_secrets(_of_file(path, ""), env))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def configured_settings(env: Mapping[str, str], address: str | None = None) -> dict[str, str]:
    """The same settings with secrets unresolved; empty for plaintext. Raises UsageError."""
    return _settings(env, address)[1]


def _settings(env: Mapping[str, str], address: str | None) -> tuple[str, dict[str, str]]:
    """(where they are, the settings): those of the environment's file, else of the profile."""
    path = env.get(CLIENT_CONFIG)
    if path:
        return path, _of_file(path)
    profile = profile_of(env)
    if profile is None or not profile.owns(
        address or env.get(BOOTSTRAP) or profile.bootstrap or ""
    ):
        return "", {}
    if profile.client_config is not None:
        return profile.client_config, _of_file(profile.client_config)
    return f"{profile.file}: profiles.{profile.name}", dict(profile.settings)


def _of_file(path: str, named: str = f" ({CLIENT_CONFIG})") -> dict[str, str]:
    """`named`: where the path comes from."""
    try:
        with open(path, encoding="utf-8") as file:
            return settings_of(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}{named}: {reason.lower()}") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def tls_context(env: Mapping[str, str], url: str | None = None) -> ssl.SSLContext:
    """TLS for other protocols than Kafka's (HTTP, the text protocol): with the settings `ssl.*` of
    that file if it has any, otherwise with the system's certificate authorities. Raises UsageError,
    TlsError."""
    return client_context(configured_security(env, url)) or ssl.create_default_context()


def http_headers(url: str, env: Mapping[str, str]) -> dict[str, str]:
    """Authentication headers for a broker's page, from the settings `sasl.*` of that file. Empty
    for a network address without TLS, to protect the password. Raises UsageError."""
    security = configured_security(env, url)
    if not security.protocol.is_sasl or not _is_private(url):
        return {}
    if security.token is None:
        credentials = base64.b64encode(f"{security.username}:{security.password}".encode()).decode()
        return {"Authorization": f"Basic {credentials}"}
    try:
        return {"Authorization": f"Bearer {security.token.read(env).strip()}"}
    except ValueError as error:
        raise UsageError(f"{_settings(env, url)[0]}: sasl.oauthbearer.token: {error}") from None


def _is_private(url: str) -> bool:
    """Whether nobody on the network can read the request: TLS, or a loopback address."""
    where = urlsplit(url)
    try:
        is_here = ipaddress.ip_address(where.hostname or "").is_loopback
    except ValueError:
        is_here = where.hostname == "localhost"
    return where.scheme == "https" or is_here


def settings_of(text: str) -> dict[str, str]:
    """The settings of a file; `#` at the start of a line marks a comment. Raises ValueError with
    the line number, never with a value."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "!")):
            continue
        name, equals, value = stripped.partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(r"[a-z.]+", name):
            raise ValueError(f"line {number}: expected name=value")
        if name not in NAMES:
            raise ValueError(f"line {number}: unknown setting {name!r}")
        if name in found:
            raise ValueError(f"line {number}: {name} is set twice")
        found[name] = value.strip()
    return found

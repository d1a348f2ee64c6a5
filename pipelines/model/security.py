"""How a pipeline reaches brokers that want TLS or a password: the file's words in Kafka's names.

A password that stands elsewhere (`file:PATH`, `env:NAME`) is read when a client is made, on the
driver, as the connector reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from josefine_broker.client.secret_settings import read_secrets
from josefine_broker.client.security import Security, parse_security
from pipelines.base.errors import SetupError

if TYPE_CHECKING:
    from josefine_spark.options.options import Connection

NAMES: Mapping[str, str] = {
    "protocol": "security.protocol",
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "key": "ssl.key.location",
    "key_password": "ssl.key.password",
    "verify_host": "ssl.endpoint.identification.algorithm",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "token": "sasl.oauthbearer.token",
}
"""Word below `security` → the client's setting."""

PREFIXES = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
"""Of the connector's options, these."""


def in_words(message: str) -> str:
    """A client's complaint in the file's words."""
    for word, name in sorted(NAMES.items(), key=lambda each: len(each[1]), reverse=True):
        message = message.replace(name, word)
    return message


def options_of_security(settings: Mapping[str, str]) -> dict[str, str]:
    """The connector's options; a secret by reference stays one."""
    return {f"kafka.{name}": value for name, value in settings.items()}


def security_of(settings: Mapping[str, str]) -> Security:
    """What a client does first. Raises ValueError, in the file's words, without a secret's text."""
    try:
        return parse_security(read_secrets(settings, os.environ))
    except ValueError as error:
        raise ValueError(f"security: {in_words(str(error))}") from None


def connection_of(
    where: str, bootstrap: str, settings: Mapping[str, str], timeout_ms: int
) -> Connection:
    """How to reach these brokers. Raises SetupError, which begins with `where`."""
    from josefine_spark.options.options import Connection

    try:
        security = security_of(settings)
    except ValueError as error:
        raise SetupError(f"{where}: {error}") from None
    return Connection(bootstrap=bootstrap, request_timeout_ms=timeout_ms, security=security)

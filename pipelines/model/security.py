"""Security settings of a pipeline's clients: the file's keywords mapped to Kafka's names.

A password by reference (`file:PATH`, `env:NAME`) is read on the driver when a client is made, as in
the connector.
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
"""Keyword below `security` → the client's setting."""

PREFIXES = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
"""The security options of the connector."""


def in_words(message: str) -> str:
    """A client's error text with the file's keywords."""
    for word, name in sorted(NAMES.items(), key=lambda each: len(each[1]), reverse=True):
        message = message.replace(name, word)
    return message


def options_of_security(settings: Mapping[str, str]) -> dict[str, str]:
    """The connector's options; a secret by reference stays one."""
    return {f"kafka.{name}": value for name, value in settings.items()}


def security_of(settings: Mapping[str, str]) -> Security:
    """Check the settings as a client does. Raises ValueError with the file's keywords and without
    the text of a secret."""
    try:
        return parse_security(read_secrets(settings, os.environ))
    except ValueError as error:
        raise ValueError(f"security: {in_words(str(error))}") from None


def connection_of(
    where: str, bootstrap: str, settings: Mapping[str, str], timeout_ms: int
) -> Connection:
    """The settings for these brokers. Raises SetupError, whose text starts with `where`."""
    from josefine_spark.options.options import Connection

    try:
        security = security_of(settings)
    except ValueError as error:
        raise SetupError(f"{where}: {error}") from None
    return Connection(bootstrap=bootstrap, request_timeout_ms=timeout_ms, security=security)

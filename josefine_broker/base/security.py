"""The security protocols of listeners, under Kafka's names, and the places of secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class SecurityProtocol(Enum):
    """How the two ends of a connection are protected and identified."""

    PLAINTEXT = "PLAINTEXT"  # neither encrypted nor authenticated
    SSL = "SSL"  # TLS; the client is known if it shows a certificate
    SASL_PLAINTEXT = "SASL_PLAINTEXT"  # the client is authenticated, but nothing is encrypted
    SASL_SSL = "SASL_SSL"  # TLS, and the client is authenticated in it

    @property
    def is_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


ANONYMOUS = "User:ANONYMOUS"
"""The principal on a listener without authentication (Kafka's name)."""

TLS_RECORD = re.compile(rb"[\x14-\x18]\x03[\x00-\x04]")
"""The first bytes of any TLS record (RFC 8446, section 5.1). As the length of a Kafka frame they
would be 335 MB or more."""


class SecretPlace(NamedTuple):
    """The place of a secret: its text is in no configuration, so nothing can print it."""

    kind: str
    """`file` or `env`."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def read(self, env: Mapping[str, str]) -> str:
        """The secret; from a file, without its final line end. Raises ValueError with a sentence
        without the secret."""
        if self.kind == "env":
            if self.name not in env:
                raise ValueError(f"{self}: no such variable in the environment")
            return env[self.name]
        try:
            with open(self.name, encoding="utf-8") as file:
                return file.read().removesuffix("\n")
        except OSError as error:
            raise ValueError(f"{self}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{self}: is not UTF-8") from None


def parse_secret_place(value: object) -> SecretPlace:
    """`file:PATH` or `env:NAME`; the ValueError does not repeat a value that may be a secret."""
    if isinstance(value, SecretPlace):
        return value
    found = re.fullmatch(r"(file|env):(.+)", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            "must be file:PATH or env:NAME, where the secret is, not the secret (got a value that"
            " is neither)"
        )
    return SecretPlace(found[1], found[2])

"""The section `oauthbearer` of a configuration: whose tokens let a client in, where
`sasl.mechanisms` names OAUTHBEARER.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from josefine_broker.config.values import DelayMs, Section, TimeoutMs, items

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_address(jwks: str) -> bool:
    """Else it is a file's path."""
    return "://" in jwks


def _parse_jwks(value: object) -> object:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a file's path or an https address, got {value!r}")
    if not is_address(value):
        return value
    parts = urlsplit(value)
    if "@" in parts.netloc:
        raise ValueError("must be an address without a user's name")
    if parts.scheme == "https" and parts.hostname:
        return value
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return value
    raise ValueError(
        f"must be a file's path or an https address (whoever is on the way of another one could"
        f" give keys of its own), got {value!r}"
    )


def _parse_audience(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in items(value, "texts"))


class OauthbearerSection(Section):
    """Tokens (JWT, RS256 or ES256) of the listeners with SASL, by OAUTHBEARER."""

    jwks: Annotated[str, BeforeValidator(_parse_jwks)] | None = Field(
        default=None,
        description="The authority's public keys (JWKS): a file, which is read again when it"
        " changes, or an https address. Needed where sasl.mechanisms has OAUTHBEARER.",
    )
    jwks_ca: Path | None = Field(
        default=None,
        description="Certificates of the authorities that are believed at the address jwks; null:"
        " those of the system.",
    )
    jwks_refresh_ms: TimeoutMs = Field(
        default=3_600_000,
        description="Time between two looks at the address jwks; sooner when a token names a key"
        " that is not known.",
    )
    issuer: str | None = Field(
        default=None, description="Whose tokens count: their `iss`, to the letter. Needed."
    )
    audience: Annotated[
        tuple[str, ...],
        BeforeValidator(_parse_audience),
        PlainSerializer(list, return_type=list[str]),
    ] = Field(default=(), description="For whom tokens are that count: one of their `aud`. Needed.")
    principal_claim: Annotated[str, Field(min_length=1)] = Field(
        default="sub", description="The claim with the client's name: User: and its text."
    )
    clock_skew_ms: DelayMs = Field(
        default=30_000, description="By how much the authority's clock may differ."
    )

    @model_validator(mode="after")
    def _tokens_can_be_judged(self) -> OauthbearerSection:
        if self.jwks is not None:
            for name in ("issuer", "audience"):
                if not getattr(self, name):
                    raise ValueError(f"jwks needs {name}: which of its tokens count here")
        return self

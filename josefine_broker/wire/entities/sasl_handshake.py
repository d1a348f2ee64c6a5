"""SaslHandshake (key 17) in the one shape that handlers see: version 1."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    """By which mechanism a client will authenticate (KIP-43)."""

    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    """Whether that one is served, and which are."""

    error_code: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()

"""SaslAuthenticate (key 36) in the one shape that handlers see: version 2."""

from dataclasses import dataclass, field

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """One token of the mechanism (KIP-152)."""

    auth_bytes: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """The other side's token; a lifetime of 0: the client need not authenticate again."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    auth_bytes: bytes = field(default=b"", repr=False)
    session_lifetime_ms: int = 0  # since version 1

"""DescribeUserScramCredentials (key 50) in the one shape that handlers see: version 0."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class UserName:
    """A user that is asked for."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    """Null or none means all."""

    users: tuple[UserName, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialInfo:
    """A mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512); nothing of the secret."""

    mechanism: int
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    """What there is of one user."""

    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    credential_infos: tuple[CredentialInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    """One answer per user."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    results: tuple[DescribeUserScramCredentialsResult, ...]

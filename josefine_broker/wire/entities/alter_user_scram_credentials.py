"""AlterUserScramCredentials (key 51) in the one shape that handlers see: version 0."""

from dataclasses import dataclass, field

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialDeletion:
    """A credential that is to go."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialUpsertion:
    """A credential that is to be there; what it has of the password is never shown."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    """Of a user all changes or none."""

    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    """What became of one user's changes."""

    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    """One answer per user."""

    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...]

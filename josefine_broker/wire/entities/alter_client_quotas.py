"""AlterClientQuotas (key 49) in the one shape that handlers see: version 1."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPart:
    """A part of an entity; without a name it is the default of its type."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOp:
    """A bound to set, or (remove) to take away."""

    key: str
    value: float
    remove: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntry:
    """An entity and what becomes of its bounds."""

    entity: tuple[QuotaPart, ...]
    ops: tuple[QuotaOp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """Of an entity all changes or none."""

    entries: tuple[QuotaEntry, ...]
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredQuotas:
    """What became of one entity's changes."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    entity: tuple[QuotaPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """One answer per entry."""

    throttle_time_ms: int = 0
    entries: tuple[AlteredQuotas, ...]

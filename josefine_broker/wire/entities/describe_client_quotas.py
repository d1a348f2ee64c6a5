"""DescribeClientQuotas (key 48) in the one shape that handlers see: version 1."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode

EXACT, DEFAULT_NAME, ANY_NAME = 0, 1, 2
"""How a component matches: one name, the default's, any of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaComponent:
    """What an entity has to have; `match` is null unless a name is asked for."""

    entity_type: str
    match_type: int
    match: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """All components have to fit; strict: and an entity has nothing else."""

    components: tuple[QuotaComponent, ...]
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPart:
    """A part of an entity; without a name it is the default of its type."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaValue:
    """One bound."""

    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntry:
    """An entity with all its bounds."""

    entity: tuple[QuotaPart, ...]
    values: tuple[QuotaValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    """Null entries with an error."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    entries: tuple[QuotaEntry, ...] | None

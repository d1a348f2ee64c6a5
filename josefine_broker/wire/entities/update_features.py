"""UpdateFeatures (key 57) in the one shape that handlers see: version 2. Only 1 has results."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdateKey:
    """A feature and its level; upgrade type 1 is up only, 2 safely down, 3 down with losses."""

    feature: str
    max_version_level: int
    upgrade_type: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """Finalize features (KIP-584)."""

    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatableFeatureResult:
    """What became of one feature; version 1 only."""

    feature: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """Version 2 has only one result for the whole request."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    results: tuple[UpdatableFeatureResult, ...] = ()  # until version 1

"""ListConfigResources (key 74) in the one shape that handlers see: version 1."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode

CLIENT_METRICS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesRequest:
    """Which types of resources; none means all. Version 0 means client metrics alone."""

    resource_types: tuple[int, ...] = ()  # since version 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResource:
    """One resource that may have a configuration."""

    resource_name: str
    resource_type: int = CLIENT_METRICS  # since version 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponse:
    """Those that there are."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    config_resources: tuple[ConfigResource, ...]

"""IncrementalAlterConfigs (key 44) in the one shape that handlers see: version 1."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """One change: operation 0 sets, 1 deletes, 2 appends to a list, 3 takes out of it."""

    name: str
    config_operation: int
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    """A resource and the changes of its configuration."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    """Change some keys of resources and leave the others (KIP-339)."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    """One answer per resource."""

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]

"""DescribeConfigs (key 32) in the one shape that handlers see: version 4."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResource:
    """A resource; null keys mean all (type 2 is a topic, 4 a broker)."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    """Ask for configurations."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsSynonym:
    """Where else a value could come from, nearest first (KIP-226)."""

    name: str
    value: str | None = None
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """One configuration: its value, source and type."""

    name: str
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int = 0  # since version 3
    documentation: str | None = None  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult:
    """The configurations of one resource, or its error."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    """One answer per resource."""

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...]

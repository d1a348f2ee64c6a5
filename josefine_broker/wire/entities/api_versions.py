"""ApiVersions (key 18) in the one shape that handlers see: version 5."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """Who is asking (KIP-511)."""

    client_software_name: str = ""  # since version 3
    client_software_version: str = ""  # since version 3
    cluster_id: str | None = None  # since version 5
    node_id: int = -1  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """One API key and the versions served, both inclusive."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeatureKey:
    """A feature that this broker could run with (KIP-584)."""

    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeatureKey:
    """A feature level that the cluster runs with (KIP-584)."""

    name: str
    max_version_level: int
    min_version_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """What is served; with an error, only that and the keys count."""

    error_code: ErrorCode = ErrorCode.none
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: int = 0  # since version 1
    supported_features: tuple[SupportedFeatureKey, ...] = ()  # since version 3
    finalized_features_epoch: int = -1  # since version 3
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()  # since version 3
    zk_migration_ready: bool = False  # since version 3

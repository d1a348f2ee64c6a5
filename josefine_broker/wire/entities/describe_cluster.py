"""DescribeCluster (key 60) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest:
    """Ask who is in the cluster; endpoint type 1 is brokers, 2 controllers (KIP-919)."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # since version 1
    include_fenced_brokers: bool = False  # since version 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterBroker:
    """One broker of the cluster."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False  # since version 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse:
    """The cluster's id, controller and brokers."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    endpoint_type: int = 1  # since version 1
    cluster_id: str
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int = -2147483648

"""FindCoordinator (key 10) in the one shape that handlers see: version 6."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Ask who coordinates keys; type 0 is groups, 1 transactions, 2 share groups."""

    key_type: int = 0  # since version 1
    coordinator_keys: tuple[str, ...] = ()  # since version 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The coordinator of one key."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """One answer per key; until version 3 exactly one, whose key is empty when read."""

    throttle_time_ms: int = 0  # since version 1
    coordinators: tuple[Coordinator, ...]  # since version 4

"""The result of a fetch for one partition."""

from dataclasses import dataclass
from typing import Any

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """One partition's result: complete batches, the last one possibly cut. `records` is one
    buffer."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    error_code: ErrorCode
    aborted: tuple[Any, ...] = ()
    preferred_read_replica: int = -1

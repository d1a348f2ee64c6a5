"""The expired segments of one log, by its configuration."""

from collections.abc import Sequence

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.retention import expired_prefix
from josefine_broker.host.log.segment import Segment


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    log_start_offset: int,
    end_offset_max: int,
) -> int:
    """How many of the oldest segments go, none at or past `end_offset_max`."""
    return expired_prefix(
        [segment.age() for segment in segments if segment.size_bytes],
        now_ms=now_ms,
        log_start_offset=log_start_offset,
        end_offset_max=end_offset_max,
        retention_ms=config.age_max_ms,
        retention_bytes=config.size_max_bytes,
    )

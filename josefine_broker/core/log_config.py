"""What one partition's log is told about sizes, times and limits. Values only; `None`: no limit."""

from dataclasses import dataclass
from enum import Enum

DAY_MS = 24 * 3600 * 1000


class TimestampType(Enum):
    """Whose clock stamps a record (`message.timestamp.type`, KIP-32)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One partition's log. The defaults are Kafka's; `segment_records` is ours."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_records: int | None = None
    index_interval_bytes: int = 4096
    retention_ms: int | None = 7 * DAY_MS
    retention_bytes: int | None = None
    flush_messages: int | None = None
    flush_ms: int | None = None
    message_bytes_max: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    cleanup_policy: frozenset[str] = frozenset({"delete"})

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

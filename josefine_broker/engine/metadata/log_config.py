"""The configuration of one partition's log: sizes, times and limits. `None`: no limit."""

from dataclasses import dataclass
from enum import Enum

from josefine_broker.records.codecs import GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL, Compression

DAY_MS = 24 * 3600 * 1000
AS_RETENTION = -2
"""Kafka's value of `local.retention.*`: as `retention.*` (KIP-405)."""


class TimestampType(Enum):
    """The clock that stamps records (`message.timestamp.type`, KIP-32)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The configuration of one log. The defaults are Kafka's; `segment_records` is ours."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_records: int | None = None
    index_interval_bytes: int = 4096
    retention_ms: int | None = 7 * DAY_MS
    retention_bytes: int | None = None
    archived: bool = False
    """Whether the topic has an archive (`remote.storage.enable`): its segments wait for it."""
    archive_location: str = ""
    """Path or URI of the archive's table."""
    local_retention_ms: int = AS_RETENTION
    local_retention_bytes: int = AS_RETENTION
    """Of an archived topic: the bounds of this log; AS_RETENTION: those of retention, -1: none."""
    flush_messages: int | None = None
    flush_ms: int | None = None
    message_bytes_max: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    validates_records: bool = True
    """Whether each produced record's structure is checked, not only batch header and checksum."""
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = DAY_MS
    """How long a tombstone stays after the first cleaning pass over it."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int | None = None
    compression: Compression | None = None
    """The codec of stored batches; None: as sent."""
    gzip_level: int = GZIP_LEVEL
    lz4_level: int = LZ4_LEVEL
    zstd_level: int = ZSTD_LEVEL
    was_compacted: bool = False
    """`compact` was one of the policies before: the records that it removed are still missing."""

    @property
    def deletes(self) -> bool:
        """Whether retention removes old segments."""
        return "delete" in self.cleanup_policy

    @property
    def age_max_ms(self) -> int | None:
        """The age at which this log's segments go; None: no bound, or nothing is deleted."""
        return self._bound(self.retention_ms, self.local_retention_ms)

    @property
    def size_max_bytes(self) -> int | None:
        """The size past which this log's oldest segments go; None as for `age_max_ms`."""
        return self._bound(self.retention_bytes, self.local_retention_bytes)

    def _bound(self, whole: int | None, local: int) -> int | None:
        if not self.deletes:
            return None
        if not self.archived or local == AS_RETENTION:
            return whole
        return None if local < 0 else local

    @property
    def compacts(self) -> bool:
        """Whether the cleaner removes records that a later one of their key replaces. Never before
        an archive has them: the policy may be the broker's default, which came later."""
        return "compact" in self.cleanup_policy and not self.archived

    @property
    def compression_level(self) -> int | None:
        """The level of the storage codec; None for a codec without levels."""
        levels = {
            Compression.GZIP: self.gzip_level,
            Compression.LZ4: self.lz4_level,
            Compression.ZSTD: self.zstd_level,
        }
        return None if self.compression is None else levels.get(self.compression)

    @property
    def may_have_holes(self) -> bool:
        """Whether offsets may be missing between two batches."""
        return self.compacts or self.was_compacted

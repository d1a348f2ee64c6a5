"""The sections `group` and `offsets` of the configuration: consumer groups, committed offsets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from josefine_broker.config.values import Count, DelayMs, Section, TimeoutMs


class GroupSection(Section):
    """Consumer groups, whose members this broker coordinates."""

    initial_rebalance_delay_ms: DelayMs = Field(
        default=3_000,
        description="How long the first member of an empty group waits for others, each of which"
        " extends it: a consumer that joins a moment later causes no second rebalance.",
    )
    min_session_timeout_ms: TimeoutMs = Field(
        default=6_000, description="Shortest session timeout that a member may ask for."
    )
    max_session_timeout_ms: TimeoutMs = Field(
        default=1_800_000, description="Longest session timeout that a member may ask for."
    )
    max_size: Count | None = Field(
        default=None, description="Members of one group; null: no limit."
    )
    consumer_session_timeout_ms: TimeoutMs = Field(
        default=45_000,
        description="How long a member of the consumer protocol (group.protocol=consumer) may send"
        " no heartbeat; the broker sets this time, not the client.",
    )
    consumer_heartbeat_interval_ms: TimeoutMs = Field(
        default=5_000, description="Heartbeat interval of such members."
    )
    consumer_migration_policy: Literal["disabled", "upgrade", "downgrade", "bidirectional"] = Field(
        default="disabled",
        description="upgrade: a member of the consumer protocol may join a group of classic"
        " consumers, and these that group, while clients are moved from one protocol to the other;"
        " not before every broker has this key. downgrade: classic consumers may join a group of"
        " the consumer protocol, and one that only they are left in becomes a classic one."
        " bidirectional: both. disabled: a group changes its protocol while it is empty.",
    )

    share_record_lock_duration_ms: TimeoutMs = Field(
        default=30_000,
        description="How long a member of a share group has a record before others may get it.",
    )
    share_delivery_count_limit: Count = Field(
        default=5, description="How often a share group gets a record that nobody accepts."
    )
    share_partition_max_record_locks: Count = Field(
        default=2_000,
        description="Records of a partition that are in flight in a share group at most, but for"
        " the last record batch.",
    )
    share_auto_offset_reset: Literal["latest", "earliest"] = Field(
        default="latest",
        description="Where a share group starts in a partition that is new to it.",
    )
    share_isolation_level: Literal["read_uncommitted", "read_committed"] = Field(
        default="read_uncommitted",
        description="read_committed: share groups get no records of open or aborted transactions.",
    )

    share_dead_letter_topic_prefix: str = Field(
        default="dlq.",
        description="What the name of a topic for the dead letters of share groups starts with;"
        " Kafka's `errors.deadletterqueue.topic.name.prefix`.",
    )

    @model_validator(mode="after")
    def _session_timeouts_in_order(self) -> GroupSection:
        if self.min_session_timeout_ms > self.max_session_timeout_ms:
            raise ValueError(
                "min_session_timeout_ms must not be above max_session_timeout_ms, got "
                f"{self.min_session_timeout_ms} and {self.max_session_timeout_ms}"
            )
        if self.consumer_heartbeat_interval_ms >= self.consumer_session_timeout_ms:
            raise ValueError(
                "consumer_heartbeat_interval_ms must be below consumer_session_timeout_ms, got "
                f"{self.consumer_heartbeat_interval_ms} and {self.consumer_session_timeout_ms}"
            )
        return self


class OffsetsSection(Section):
    """The committed offsets of consumer groups."""

    retention_ms: TimeoutMs = Field(
        default=604_800_000,
        description="How long committed offsets are kept after their group became empty, or does"
        " no longer read their topic.",
    )
    retention_check_interval_ms: TimeoutMs = Field(
        default=600_000, description="Time between two checks for expired offsets."
    )

"""The sections of a broker's configuration (`broker_config.py`): each key with its type, bounds,
default and meaning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.limits import FRAME_BYTES_MAX, PARTITIONS_PER_BROKER_MAX
from josefine_broker.config.security import ProtocolMap
from josefine_broker.config.values import (
    Address,
    Addresses,
    Bytes,
    Count,
    DelayMs,
    Flag,
    Listener,
    Listeners,
    NodeId,
    Ratio,
    Section,
    TimeoutMs,
    Voters,
)

CONNECTION_IN_FLIGHT_MAX = 32
"""Requests of one connection in progress; beyond that the connection is not read."""

TEXT_LISTENER = "TEXT"
"""The name under which the text listener is registered and may be advertised."""

DISK_FREE_BYTES_MIN = 64 * 1024 * 1024
"""Default of `broker.disk_free_bytes_min`: room for the metadata and indexes to be written."""


class IdentitySection(Section):
    """The identity of this broker and its data directory."""

    id: NodeId = Field(default=1, description="This broker's id, unique in its cluster.")
    data_dir: Path = Field(
        default=Path("data/broker-1"),
        description="Directory of logs and metadata, relative to the working directory.",
    )
    listeners: Listeners = Field(
        default=(Listener("PLAINTEXT", "127.0.0.1", 9092),),
        description="Addresses to listen on for Kafka clients, as NAME://host:port;"
        " port 0 is any free port.",
    )
    advertised_listeners: Listeners = Field(
        default=(),
        description="Addresses in Metadata for clients, per listener name; a name left out"
        " advertises its bound address. A client gets the address of the listener that it"
        " used.",
    )
    listener_security_protocol_map: ProtocolMap = Field(
        default=(),
        description="Protocol of each listener, as NAME:PROTOCOL: PLAINTEXT, SSL,"
        " SASL_PLAINTEXT or SASL_SSL. A name left out that is a protocol uses it, any other"
        " uses PLAINTEXT.",
    )
    inter_broker_listener: str | None = Field(
        default=None,
        description="Name of the listener that other brokers replicate through; null: the first."
        " If it is set, requests between brokers are refused on all other listeners.",
    )
    rack: Annotated[str, Field(strict=True, min_length=1, max_length=249)] | None = Field(
        default=None,
        description="Rack of this broker: replicas of a partition are spread over racks, and a"
        " consumer of the same rack reads from this broker; null: no rack.",
    )
    controlled_shutdown_timeout_ms: TimeoutMs = Field(
        default=5_000,
        description="Time of a stopping broker to hand its leaderships to others.",
    )
    disk_free_bytes_min: Bytes = Field(
        default=DISK_FREE_BYTES_MIN,
        description="Free space below which this broker accepts no records, leads no partition that"
        " another could lead, and fails /health: metadata and indexes can still be written.",
    )
    partitions_max: Count = Field(
        default=PARTITIONS_PER_BROKER_MAX,
        description="Partitions that a broker hosts; a request for more is refused"
        " (POLICY_VIOLATION). The setting of the broker that gets the request counts.",
    )
    auto_create_topics: Flag = Field(
        default=True,
        description="Create a topic with the defaults below when a client asks for it by name.",
    )


class NetworkSection(Section):
    """Bounds of connections."""

    connections_max: Count = Field(
        default=2_000,
        description="Open client connections; above that the longest idle one is closed"
        " for a new one, and if none is idle the new one is refused.",
    )
    connections_per_address_max: Count | None = Field(
        default=1_000,
        description="The same for the connections of one client address; null: no such limit.",
    )
    frame_bytes_max: Annotated[Bytes, Field(ge=1_024, le=2**31 - 1)] = Field(
        default=FRAME_BYTES_MAX, description="Largest request; a longer one closes its connection."
    )
    in_flight_max: Count = Field(
        default=CONNECTION_IN_FLIGHT_MAX,
        description="Unanswered requests of one connection; above that it is not read.",
    )
    request_bytes_max: Bytes = Field(
        default=536_870_912,
        description="Memory of all large requests (above 32 KiB) being received; above"
        " that connections are not read until memory is free. At least one is received.",
    )
    write_buffer_bytes: Bytes = Field(
        default=1_048_576,
        description="Answers that a client has not read yet; above that its next requests wait.",
    )
    send_buffer_bytes: Bytes | None = Field(
        default=262_144,
        description="The system's send buffer of each connection (SO_SNDBUF). Raise it for clients"
        " far away, which read no more than this per round trip; null: the system's own size,"
        " which grows to megabytes.",
    )
    idle_timeout_ms: TimeoutMs = Field(
        default=600_000, description="A connection that sends nothing for this long is closed."
    )
    shutdown_timeout_ms: TimeoutMs = Field(
        default=5_000, description="Time to answer requests in flight at shutdown."
    )


class TopicDefaultsSection(Section):
    """Settings of a new topic for which the creator gives no value."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=10_000)] = Field(
        default=1, description="Partitions of a new topic."
    )
    replication_factor: Annotated[int, Field(strict=True, ge=1, le=32_767)] = Field(
        default=1, description="Replicas of each partition of a new topic."
    )
    min_insync_replicas: Annotated[int, Field(strict=True, ge=1, le=32_767)] = Field(
        default=1, description="Replicas that must have a record before acks=all is answered."
    )
    unclean_leader_election_enable: Flag = Field(
        default=False,
        description="Whether a replica out of sync may lead if no other is left: the partition"
        " stays available, and records are lost. The controller's setting counts.",
    )


class LogSection(Section):
    """Defaults of partition logs; a topic's own configuration takes precedence."""

    segment_bytes: Annotated[Bytes, Field(ge=1_024, le=2**31 - 1)] = Field(
        default=1_073_741_824, description="A segment file is closed before it grows past this."
    )
    segment_ms: TimeoutMs = Field(
        default=604_800_000, description="A segment older than this is closed at the next append."
    )
    segment_records: Count | None = Field(
        default=None, description="Records after which a segment is closed; null: no limit."
    )
    index_interval_bytes: Bytes = Field(
        default=4_096, description="Log bytes between two entries of the sparse index."
    )
    message_bytes_max: Bytes = Field(
        default=1_048_588, description="Largest record batch accepted, as sent (compressed)."
    )
    validate_records: Literal["full", "headers"] = Field(
        default="full",
        description="Validation of a produced batch before it is acknowledged. full: header,"
        " checksum, and the structure of every (decompressed) record; headers: not the"
        " records, so a client's broken batch is stored, and its readers fail.",
    )
    retention_ms: TimeoutMs | None = Field(
        default=604_800_000,
        description="Closed segments older than this are deleted; null: kept for ever.",
    )
    retention_bytes: Bytes | None = Field(
        default=None,
        description="The oldest closed segments go while a partition is larger; null: no limit.",
    )
    retention_check_interval_ms: TimeoutMs = Field(
        default=300_000, description="Time between two retention checks."
    )
    archive_reader_port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = Field(
        default=None,
        description="Port of `josefine archive serve` on this machine, from which records of"
        " archived topics below the local log start are read; null: such a read gets a retriable"
        " error.",
    )
    flush_messages: Count | None = Field(
        default=None,
        description="Records after which a log is fsynced; null: left to the operating system, as"
        " Kafka does. 1: acks=all is answered once every in-sync replica has synced the batch, with"
        " one fsync per log for all concurrent appends; more: within the append.",
    )
    flush_internal_topics: Flag = Field(
        default=True,
        description="Whether group offsets and the state of transactions count once they are"
        " synced, whatever flush_messages is; false: they are treated as other topics.",
    )
    flush_ms: TimeoutMs | None = Field(
        default=None,
        description="Age at which unsynced data is fsynced; null: left to the operating system.",
    )
    cleaner_min_cleanable_ratio: Ratio = Field(
        default=0.5,
        description="A compacted log is cleaned when this share of it is new since the last pass.",
    )
    cleaner_min_compaction_lag_ms: DelayMs = Field(
        default=0, description="Records of a compacted topic stay untouched for this long."
    )
    cleaner_max_compaction_lag_ms: TimeoutMs | None = Field(
        default=None,
        description="Age at which a segment of a compacted topic is closed and cleaned, however"
        " little of its log is dirty; null: no limit.",
    )
    cleaner_delete_retention_ms: DelayMs = Field(
        default=86_400_000,
        description="How long tombstones of a compacted topic are kept.",
    )
    cleaner_backoff_ms: TimeoutMs = Field(
        default=15_000, description="Time between two checks for a log to clean."
    )
    cleaner_dedupe_buffer_bytes: Annotated[Bytes, Field(ge=1_048_576)] = Field(
        default=67_108_864,
        description="Memory for the keys of one pass of the log cleaner, 32 bytes each; a log with"
        " more takes several passes.",
    )
    cleaner_bytes_per_second_max: Bytes | None = Field(
        default=None,
        description="Limit of the log cleaner's reads and writes together; null: no limit.",
    )
    scrub_interval_ms: TimeoutMs = Field(
        default=604_800_000,
        description="Every closed segment is read and verified against its checksums once in this"
        " time; damage is repaired from the other replicas.",
    )
    scrub_bytes_per_second_max: Bytes = Field(
        default=10_485_760, description="Limit of the scrub's reads."
    )
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="producer",
        description="Codec of stored batches; producer: as they were sent.",
    )
    timestamp_type: Literal["CreateTime", "LogAppendTime"] = Field(
        default="CreateTime",
        description="Whose clock sets record timestamps: the producer's or the broker's.",
    )


class RaftSection(Section):
    """The chained Raft that stores the cluster's metadata."""

    id: NodeId | None = Field(
        default=None, description="Raft node id; null: the broker's id, which it must equal."
    )
    listener: Address = Field(
        default=HostPort("127.0.0.1", 9093),
        description="Address on which this broker's Raft listens, as host:port; port 0"
        " is any free port.",
    )
    advertised: Address | None = Field(
        default=None,
        description="Address that other brokers dial, as host:port; null: this broker's address"
        " in raft.voters, otherwise the bound one.",
    )
    voters: Voters = Field(
        default=(),
        description="Voters of a new cluster, as id@host:port, the same list on each of them;"
        " empty: this broker alone. No effect once data exists.",
    )
    seeds: Addresses = Field(
        default=(),
        description="Raft addresses of a running cluster to join, as host:port; any one that"
        " answers suffices. Excludes raft.voters.",
    )
    voters_max: Annotated[Count, Field(le=9)] = Field(
        default=5,
        description="Number of voters; later brokers join as observers. Use an odd number.",
    )
    snapshot_blocks: Annotated[Count, Field(ge=10)] = Field(
        default=10_000,
        description="Applied blocks after which a snapshot replaces them.",
    )
    snapshot_bytes: Annotated[Bytes, Field(ge=65_536)] = Field(
        default=67_108_864,
        description="Bytes of applied blocks after which a snapshot replaces them, if that comes"
        " first.",
    )
    heartbeat_timeout_ms: TimeoutMs = Field(
        default=100, description="Time between two heartbeats of the raft leader."
    )
    election_timeout_ms: TimeoutMs = Field(
        default=500,
        description="Silence after which a voter starts an election (randomly, up to twice this);"
        " at least twice the heartbeat.",
    )
    proposal_timeout_ms: TimeoutMs = Field(
        default=10_000, description="Longest wait for a metadata change of the broker itself."
    )

    @model_validator(mode="after")
    def _election_outlasts_heartbeat(self) -> RaftSection:
        if self.election_timeout_ms < 2 * self.heartbeat_timeout_ms:
            raise ValueError(
                "election_timeout_ms must be at least twice heartbeat_timeout_ms, got "
                f"{self.election_timeout_ms} and {self.heartbeat_timeout_ms}"
            )
        return self


class ClusterSection(Section):
    """How the controller (the raft leader) monitors the brokers."""

    heartbeat_interval_ms: TimeoutMs = Field(
        default=250, description="Time between two heartbeats of a broker to the controller."
    )
    session_timeout_ms: TimeoutMs = Field(
        default=1_250,
        description="Silence after which a broker is fenced and its leaderships move to others; at"
        " least twice the heartbeat.",
    )
    imbalance_check_interval_ms: TimeoutMs = Field(
        default=30_000,
        description="Time between two checks for leaderships away from the preferred"
        " (first) replica.",
    )
    peer_queue_bytes_max: Bytes = Field(
        default=16_777_216,
        description="Raft messages queued for one slow peer; above that the oldest are dropped.",
    )

    @model_validator(mode="after")
    def _session_outlasts_heartbeat(self) -> ClusterSection:
        if self.session_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise ValueError(
                "session_timeout_ms must be at least twice heartbeat_interval_ms, got "
                f"{self.session_timeout_ms} and {self.heartbeat_interval_ms}"
            )
        return self


class ReplicationSection(Section):
    """How this broker follows the leaders of its partitions."""

    lag_time_max_ms: TimeoutMs = Field(
        default=10_000,
        description="A follower that has not caught up for this long leaves the ISR.",
    )
    fetch_wait_ms: TimeoutMs = Field(
        default=500, description="Longest wait of a follower's fetch when there is nothing new."
    )
    fetch_bytes_max: Bytes = Field(
        default=10_485_760, description="Largest answer to a follower's fetch."
    )
    partition_fetch_bytes_max: Bytes = Field(
        default=1_048_576, description="Largest part of one partition in such an answer."
    )
    throttle_bytes_per_second: Bytes | None = Field(
        default=None,
        description="Limit of this broker's fetches for replicas out of sync; null: no limit.",
    )


class TransactionsSection(Section):
    """Transactions, whose producers this broker coordinates."""

    max_timeout_ms: TimeoutMs = Field(
        default=900_000,
        description="Longest transaction timeout that a producer may request: limits how long"
        " read_committed readers wait, and the time of exactly-once sinks to decide.",
    )
    id_expiration_ms: TimeoutMs = Field(
        default=604_800_000,
        description="How long an unused transactional id is remembered.",
    )
    two_phase_commit_enable: bool = Field(
        default=False,
        description="Whether producers may take part in a two-phase commit (KIP-939;"
        " transaction.two.phase.commit.enable): how their transactions end is decided elsewhere."
        " Switch it on when every broker knows it.",
    )
    two_phase_commit_timeout_max_ms: TimeoutMs = Field(
        default=604_800_000,
        description="Longest time such a transaction stays open, whatever its producer requests;"
        " then it is aborted, because it blocks read_committed readers.",
    )


class AdminSection(Section):
    """The HTTP listener of `/health`, `/metrics` and `/cluster`."""

    address: Address | None = Field(
        default=HostPort("127.0.0.1", 9644),
        description="host:port of /health, /metrics and /cluster; port 0 is any free port;"
        " null: off.",
    )
    tls: Flag = Field(
        default=False,
        description="Whether it uses TLS (https), with the section tls only.",
    )

    @model_validator(mode="after")
    def _tls_has_a_listener(self) -> AdminSection:
        if self.tls and self.address is None:
            raise ValueError("tls has no effect without address")
        return self


class TextSection(Section):
    """The listener of the text protocol, for people with `nc` (docs/reference/text-protocol.md)."""

    port: Annotated[int, Field(strict=True, ge=0, le=65_535)] | None = Field(
        default=None,
        description="Port of the text protocol; 0 is any free port; null: off.",
    )
    host: Annotated[str, Field(strict=True, min_length=1)] = Field(
        default="127.0.0.1",
        description="Address that it listens on. Its clients may do what User:ANONYMOUS"
        " may: everything, except with ACLs.",
    )
    tls: Flag = Field(
        default=False,
        description="Whether it uses TLS, with the section tls only; the same on"
        " every broker, because they forward lines to each other.",
    )
    strict: Flag = Field(
        default=False,
        description="Answer 'This is not the leader' instead of forwarding to the leader.",
    )
    acks: Literal["all", "1"] = Field(
        default="all",
        description="Replicas that must confirm a published message: all in sync, or the"
        " leader alone.",
    )
    timeout_ms: TimeoutMs = Field(
        default=10_000, description="How long a command waits for a leader, or for replicas."
    )
    session_timeout_ms: TimeoutMs = Field(
        default=300_000, description="A subscription without CONS for this long ends."
    )
    subscriptions_max: Count = Field(
        default=1_000, description="Subscriptions that one connection may hold."
    )
    line_bytes_max: Annotated[Bytes, Field(ge=1_024, le=2**30)] = Field(
        default=1_048_576, description="Longest line; a longer one is refused as a whole."
    )
    reply_records_max: Count = Field(
        default=1_000, description="Records in one reply to CONS; above that it reports More."
    )
    reply_bytes_max: Annotated[Bytes, Field(ge=1_024, le=2**30)] = Field(
        default=1_048_576,
        description="The same for their bytes; a larger record is returned alone.",
    )

    @model_validator(mode="after")
    def _tls_has_a_listener(self) -> TextSection:
        if self.tls and self.port is None:
            raise ValueError("tls has no effect without port")
        return self


class LoggingSection(Section):
    """What the broker logs to stderr; the lines of its start and stop go to stdout."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level to log."
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="json: a line is an object with time, level, logger, message and fields.",
    )

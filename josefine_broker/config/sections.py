"""The groups of keys of a broker's configuration (`broker_config.py`): each key with its type, its
bounds, its default and its meaning.
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
"""Requests of one connection being worked on; past that the connection stops reading."""

TEXT_LISTENER = "TEXT"
"""The name under which the text listener is registered, and may be advertised."""

DISK_FREE_BYTES_MIN = 64 * 1024 * 1024
"""Default of `broker.disk_free_bytes_min`: room for the metadata and indexes to be written."""


class IdentitySection(Section):
    """Who this broker is and where it keeps its data."""

    id: NodeId = Field(default=1, description="This broker's number, unique in its cluster.")
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
        description="What Metadata tells clients to dial, per listener name; a name left out"
        " advertises its bound address. A client is answered with the address of the listener it"
        " came through.",
    )
    listener_security_protocol_map: ProtocolMap = Field(
        default=(),
        description="What each listener speaks, as NAME:PROTOCOL: PLAINTEXT, SSL,"
        " SASL_PLAINTEXT or SASL_SSL. A name left out that is one of these speaks it, any other"
        " speaks PLAINTEXT.",
    )
    inter_broker_listener: str | None = Field(
        default=None,
        description="Name of the listener that other brokers replicate through; null: the first."
        " Where it is named, what only brokers ask of each other is refused through all others.",
    )
    rack: Annotated[str, Field(strict=True, min_length=1, max_length=249)] | None = Field(
        default=None,
        description="Where this broker stands: copies of a partition are spread over racks, and a"
        " consumer of the same rack reads from this broker; null: no rack.",
    )
    controlled_shutdown_timeout_ms: TimeoutMs = Field(
        default=5_000,
        description="Time that a stopping broker has to hand its leaderships to others.",
    )
    disk_free_bytes_min: Bytes = Field(
        default=DISK_FREE_BYTES_MIN,
        description="Free space below which this broker takes no records, leads nothing that"
        " another could and fails /health, so that metadata and indexes can still be written.",
    )
    partitions_max: Count = Field(
        default=PARTITIONS_PER_BROKER_MAX,
        description="Partitions that a broker hosts; what would give one more of them is refused"
        " (POLICY_VIOLATION). The file of the broker that is asked decides.",
    )
    auto_create_topics: Flag = Field(
        default=True,
        description="Create a topic with the defaults below when a client asks for it by name.",
    )


class NetworkSection(Section):
    """Bounds of connections."""

    connections_max: Count = Field(
        default=2_000,
        description="Open client connections; past that the one that was idle for longest gives way"
        " to a newcomer, and where none is idle the newcomer is refused.",
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
        description="Requests of one connection waiting for an answer; past that it is not read.",
    )
    request_bytes_max: Bytes = Field(
        default=536_870_912,
        description="Memory of all large requests (above 32 KiB) that are being received; past"
        " that connections are not read until there is room. At least one is received.",
    )
    write_buffer_bytes: Bytes = Field(
        default=1_048_576,
        description="Answers a client has not yet read; past that its next requests wait.",
    )
    idle_timeout_ms: TimeoutMs = Field(
        default=600_000, description="A connection that sends nothing for this long is closed."
    )
    shutdown_timeout_ms: TimeoutMs = Field(
        default=5_000, description="Time that requests in flight have to be answered at shutdown."
    )


class TopicDefaultsSection(Section):
    """What a new topic gets when its creator does not say."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=10_000)] = Field(
        default=1, description="Partitions of a new topic."
    )
    replication_factor: Annotated[int, Field(strict=True, ge=1, le=32_767)] = Field(
        default=1, description="Copies of each partition of a new topic."
    )
    min_insync_replicas: Annotated[int, Field(strict=True, ge=1, le=32_767)] = Field(
        default=1, description="Replicas that must have a record before acks=all is answered."
    )
    unclean_leader_election_enable: Flag = Field(
        default=False,
        description="Whether a replica out of sync may lead where no other is left: the partition"
        " goes on, and records are lost. The file of the broker that is the controller decides.",
    )


class LogSection(Section):
    """Defaults of a partition's log; a topic's own configuration goes before them."""

    segment_bytes: Annotated[Bytes, Field(ge=1_024, le=2**31 - 1)] = Field(
        default=1_073_741_824, description="A segment file is closed before it grows past this."
    )
    segment_ms: TimeoutMs = Field(
        default=604_800_000, description="A segment older than this is closed at the next append."
    )
    segment_records: Count | None = Field(
        default=None, description="Records after which a segment is closed; null: no such rule."
    )
    index_interval_bytes: Bytes = Field(
        default=4_096, description="Log bytes between two entries of the sparse index."
    )
    message_bytes_max: Bytes = Field(
        default=1_048_588, description="Largest record batch accepted, as sent (compressed)."
    )
    validate_records: Literal["full", "headers"] = Field(
        default="full",
        description="What of a produced batch is checked before it is acknowledged. full: header,"
        " checksum, and the structure of every record, decompressed for that; headers: not the"
        " records, so a client's broken batch is stored, and those who read it fail.",
    )
    retention_ms: TimeoutMs | None = Field(
        default=604_800_000,
        description="Closed segments older than this are deleted; null: kept for ever.",
    )
    retention_bytes: Bytes | None = Field(
        default=None,
        description="Oldest closed segments go while a partition is larger; null: no bound.",
    )
    retention_check_interval_ms: TimeoutMs = Field(
        default=300_000, description="Time between two rounds of retention."
    )
    flush_messages: Count | None = Field(
        default=None,
        description="Records after which a log is fsynced; null: left to the operating system, as"
        " Kafka does. 1: acks=all is answered once every in-sync replica has synced the batch, with"
        " one fsync per log for all that came meanwhile; more: within the append.",
    )
    flush_internal_topics: Flag = Field(
        default=True,
        description="Whether group offsets and the state of transactions count once they are"
        " synced, whatever flush_messages says; false: they are treated as other topics.",
    )
    flush_ms: TimeoutMs | None = Field(
        default=None,
        description="Age at which unsynced data is fsynced; null: left to the operating system.",
    )
    cleaner_min_cleanable_ratio: Ratio = Field(
        default=0.5,
        description="A compacted log is cleaned when more of it than this was written since.",
    )
    cleaner_min_compaction_lag_ms: DelayMs = Field(
        default=0, description="Records of a compacted topic stay untouched for this long."
    )
    cleaner_max_compaction_lag_ms: TimeoutMs | None = Field(
        default=None,
        description="Age at which a segment of a compacted topic is closed and cleaned however"
        " little of its log is dirty; null: no such rule.",
    )
    cleaner_delete_retention_ms: DelayMs = Field(
        default=86_400_000,
        description="How long a deleted key of a compacted topic can still be read as deleted.",
    )
    cleaner_backoff_ms: TimeoutMs = Field(
        default=15_000, description="Time between two looks for a log that is to be cleaned."
    )
    cleaner_dedupe_buffer_bytes: Annotated[Bytes, Field(ge=1_048_576)] = Field(
        default=67_108_864,
        description="Memory for the keys of one pass of the log cleaner, 32 bytes each; a log with"
        " more takes several passes.",
    )
    cleaner_bytes_per_second_max: Bytes | None = Field(
        default=None,
        description="Bound of what the log cleaner reads and writes together; null: none.",
    )
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="producer",
        description="The codec that batches are stored with; producer: as they were sent.",
    )
    timestamp_type: Literal["CreateTime", "LogAppendTime"] = Field(
        default="CreateTime",
        description="Whose clock stamps records: the producer's or the broker's.",
    )


class RaftSection(Section):
    """The chained Raft that keeps the cluster's metadata."""

    id: NodeId | None = Field(
        default=None, description="Raft node number; null: the broker's id, which it must equal."
    )
    listener: Address = Field(
        default=HostPort("127.0.0.1", 9093),
        description="Address where the other brokers' Raft reaches this one, as host:port; port 0"
        " is any free port.",
    )
    advertised: Address | None = Field(
        default=None,
        description="What the others are told to dial, as host:port; null: this broker's address"
        " in raft.voters, else the bound one.",
    )
    voters: Voters = Field(
        default=(),
        description="Who forms a new cluster, as id@host:port, the same list at each of them;"
        " empty: this broker alone. Without effect once there is data.",
    )
    seeds: Addresses = Field(
        default=(),
        description="Raft addresses of a running cluster to join, as host:port; any one that"
        " answers is enough. Excludes raft.voters.",
    )
    voters_max: Annotated[Count, Field(le=9)] = Field(
        default=5,
        description="Brokers that vote; who joins later follows as an observer. Use an odd one.",
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
        default=100, description="Time between two signs of life of the raft leader."
    )
    election_timeout_ms: TimeoutMs = Field(
        default=500,
        description="Silence after which a voter campaigns (drawn from one to two times this);"
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
    """How the controller (the raft leader) watches the brokers."""

    heartbeat_interval_ms: TimeoutMs = Field(
        default=250, description="Time between two heartbeats of a broker to the controller."
    )
    session_timeout_ms: TimeoutMs = Field(
        default=1_250,
        description="Silence after which a broker is fenced and its leaderships go to others; at"
        " least twice the heartbeat.",
    )
    imbalance_check_interval_ms: TimeoutMs = Field(
        default=30_000,
        description="Time between two looks at leaderships that are not with the preferred"
        " (first) replica.",
    )
    peer_queue_bytes_max: Bytes = Field(
        default=16_777_216,
        description="Raft messages kept for one peer that does not read; past that the oldest go.",
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
        description="A follower that has not caught up for this long leaves the in-sync set.",
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
        description="Bound of what this broker fetches for replicas that are not in sync; null:"
        " none.",
    )


class TransactionsSection(Section):
    """Transactions, whose producers this broker coordinates."""

    max_timeout_ms: TimeoutMs = Field(
        default=900_000,
        description="Longest transaction that a producer may ask for: the bound on what readers of"
        " committed records wait for, and on decisions of exactly-once sinks.",
    )
    id_expiration_ms: TimeoutMs = Field(
        default=604_800_000,
        description="How long a transactional id that nobody uses is remembered.",
    )
    two_phase_commit_enable: bool = Field(
        default=False,
        description="Whether producers may take part in a two-phase commit (KIP-939;"
        " transaction.two.phase.commit.enable): how their transactions end is decided elsewhere."
        " Switch it on when every broker knows it.",
    )
    two_phase_commit_timeout_max_ms: TimeoutMs = Field(
        default=604_800_000,
        description="So long such a transaction may be open, whatever its producer asks for: then"
        " it is aborted, for what is open holds readers of read_committed back.",
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
        description="Whether it speaks TLS (https), by the section tls, and by that alone.",
    )

    @model_validator(mode="after")
    def _tls_has_a_listener(self) -> AdminSection:
        if self.tls and self.address is None:
            raise ValueError("tls has no effect without address")
        return self


class TextSection(Section):
    """The listener of the text protocol, for people with `nc` (docs/text-protocol.md)."""

    port: Annotated[int, Field(strict=True, ge=0, le=65_535)] | None = Field(
        default=None,
        description="Port of the text protocol; 0 is any free port; null: off.",
    )
    host: Annotated[str, Field(strict=True, min_length=1)] = Field(
        default="127.0.0.1",
        description="Address that it listens on. Whoever reaches it may do what User:ANONYMOUS"
        " may: everything, but for ACLs.",
    )
    tls: Flag = Field(
        default=False,
        description="Whether it speaks TLS, by the section tls, and by that alone; the same on"
        " every broker, for they pass lines on to each other.",
    )
    strict: Flag = Field(
        default=False,
        description="Answer 'This is not the leader' instead of asking the broker that leads.",
    )
    acks: Literal["all", "1"] = Field(
        default="all",
        description="Whose confirmation a published message waits for: all replicas in sync, or the"
        " leader alone.",
    )
    timeout_ms: TimeoutMs = Field(
        default=10_000, description="How long a command waits for a leader, or for replicas."
    )
    session_timeout_ms: TimeoutMs = Field(
        default=300_000, description="A subscription without CONS for this long is given up."
    )
    subscriptions_max: Count = Field(
        default=1_000, description="Subscriptions that one connection may hold."
    )
    line_bytes_max: Annotated[Bytes, Field(ge=1_024, le=2**30)] = Field(
        default=1_048_576, description="Longest line; a longer one is refused as a whole."
    )
    reply_records_max: Count = Field(
        default=1_000, description="Records in one reply to CONS; past that it says More."
    )
    reply_bytes_max: Annotated[Bytes, Field(ge=1_024, le=2**30)] = Field(
        default=1_048_576,
        description="The same for their bytes; a larger record comes alone.",
    )

    @model_validator(mode="after")
    def _tls_has_a_listener(self) -> TextSection:
        if self.tls and self.port is None:
            raise ValueError("tls has no effect without port")
        return self


class LoggingSection(Section):
    """What the broker logs to stderr; the lines of its start and stop go to stdout."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe event to log."
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="json: a line is an object with time, level, logger, message and fields.",
    )

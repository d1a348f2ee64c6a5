"""The shapes of Fetch, coded by hand. See `produce.py` for the reason.

What changed when: 5 log start offset, 7 fetch sessions (KIP-227), 9 leader epochs (KIP-320),
11 rack and preferred replica (KIP-392), 12 flexible and diverging epochs (KIP-595), 13 topic ids
(KIP-516), 15 replica state (KIP-903), 16 node endpoints (KIP-951), 17 directory ids (KIP-853),
18 the follower's high watermark (KIP-1166). The tag `snapshot_id` of the response serves only
Kafka's own metadata log: it is ignored and not sent.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.produce import NodeEndpoint

ID_SINCE = 13
NO_HIGH_WATERMARK = 2**63 - 1


class FetchPartition(NamedTuple):
    """A partition and its fetch position; -1 means that the version does not carry the field."""

    index: int  # type: ignore[assignment]
    current_leader_epoch: LeaderEpoch
    fetch_offset: int
    last_fetched_epoch: LeaderEpoch
    log_start_offset: int
    max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = NO_HIGH_WATERMARK


class FetchTopic(NamedTuple):
    """Until version 12 by name and `topic_id` is None; since 13 by id and `name` is empty."""

    name: str
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(NamedTuple):
    """Partitions to remove from an incremental session (KIP-227)."""

    name: str
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    """`replica_id` is -1 for a consumer; `max_bytes` of the whole answer."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""
    replica_epoch: int = -1
    cluster_id: str | None = None


class AbortedTransaction(NamedTuple):
    """read_committed readers skip records of this producer from this offset."""

    producer_id: int
    first_offset: int


class FetchPartitionResponse(NamedTuple):
    """`records` are the buffers that follow each other on the wire; decoded, one slice.

    None and () differ on the wire only (null and empty). `diverging` is (epoch, end offset),
    `leader` is (id, epoch).
    """

    index: int  # type: ignore[assignment]
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = -1
    records: Sequence[Buffer] | None = ()
    diverging: tuple[LeaderEpoch, int] | None = None
    leader: tuple[int, LeaderEpoch] | None = None


class FetchTopicResponse(NamedTuple):
    """Partitions of one topic, named as in the request."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[FetchPartitionResponse]


class FetchResponse(NamedTuple):
    """One answer per partition; a top-level error code concerns the session (KIP-227)."""

    throttle_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    topics: Sequence[FetchTopicResponse] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()

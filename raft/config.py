"""The configuration of a node, with the bounds of everything that could grow."""

from dataclasses import dataclass

from raft.ids import NodeId

__all__ = ["FORMAT_MAX", "Config"]

FORMAT_MAX = 2
"""The newest message format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of one node. Raises ValueError for invalid values."""

    node_id: NodeId
    initial_voters: tuple[NodeId, ...] = ()
    """Voters of a new cluster while no node has data. Empty: this node joins and never forms
    one."""
    cluster_id: str = ""
    """Cluster id for the birth block if this node creates it; later the id in the chain is used."""

    format: int = FORMAT_MAX
    """Format of the messages this node sends, until `Node.speak`: all nodes must read it. Format 1
    has no checksum over a snapshot sent in chunks. Every format up to the newest is read."""

    heartbeat_ms: int = 100
    election_timeout_ms: int = 1000
    """Lower bound; each wait is random between one and two times this."""

    payload_bytes_max: int = 8 * 1024 * 1024
    """Limit of one block: it must fit a message, and memory many times."""
    append_bytes_max: int = 1024 * 1024
    """Limit of the blocks in one append message (a single larger block is sent alone)."""
    append_inflight_max: int = 64
    """Unanswered append messages to one follower: bounds what a slow follower costs."""
    snapshot_chunk_bytes: int = 256 * 1024
    proposals_max: int = 100_000
    """Outstanding proposals made here; beyond that `propose` is refused."""
    proposals_bytes_max: int = 64 * 1024 * 1024
    """Limit of their payloads together: bounds one batch, one frame of the block file, and
    memory."""
    forwarded_max: int = 10_000
    """Answered proposals of other nodes that are remembered. A message repeated after more than
    that many others gets no answer, so its sender learns the outcome from the chain."""
    reads_max: int = 100_000
    """Open linearizable reads; beyond that `read_index` is refused."""
    tail_blocks_max: int = 1_000
    """Blocks below the root that stay in memory, so that a follower that lags a little gets these
    blocks and not the whole snapshot. 0: none."""
    tail_bytes_max: int = 16 * 1024 * 1024
    """Limit of their payloads together."""
    apply_blocks_max: int = 1024
    """Blocks to apply in one Ready, so that a long chain is applied in steps."""
    collect_blocks_max: int = 256
    """Dead blocks removed in one Ready."""
    waiting_max: int = 10_000
    """Messages of one kind to one peer that wait until a batch is durable; beyond that the older
    half is dropped. A working disk never lets so many accumulate. For proposals the limit is
    `proposals_max`."""
    waiting_bytes_max: int = 64 * 1024 * 1024
    """Limit of the snapshot chunks among these."""

    def __post_init__(self) -> None:
        if self.node_id < 0:
            raise ValueError(f"node_id {self.node_id} must not be negative")
        if self.heartbeat_ms <= 0 or self.election_timeout_ms < 2 * self.heartbeat_ms:
            raise ValueError("election_timeout_ms must be at least twice heartbeat_ms, both > 0")
        if not 1 <= self.format <= FORMAT_MAX:
            raise ValueError(f"format {self.format} is not one of 1 to {FORMAT_MAX}")
        if self.initial_voters and self.node_id in self.initial_voters and not self.cluster_id:
            raise ValueError(
                "cluster_id is empty: a node in initial_voters may form a cluster and needs one"
            )

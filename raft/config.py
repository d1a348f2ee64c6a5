"""What a host decides about its node, with the bounds of everything that could grow."""

from dataclasses import dataclass

from raft.ids import NodeId

__all__ = ["FORMAT_MAX", "Config"]

FORMAT_MAX = 2
"""The newest format of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Raises ValueError for values that cannot work."""

    node_id: NodeId
    initial_voters: tuple[NodeId, ...] = ()
    """Who forms the cluster when nobody has data yet. Empty: this node only joins, never forms."""
    cluster_id: str = ""
    """What the birth block will say if this node makes it; afterwards the chain's own is used."""

    format: int = FORMAT_MAX
    """Of messages that this node sends, until `Node.speak`: all nodes must understand it. 1 has no
    checksum over a snapshot that is sent in chunks. Every format up to the newest is read."""

    heartbeat_ms: int = 100
    election_timeout_ms: int = 1000
    """Lower bound; each wait is drawn from one to two times this."""

    payload_bytes_max: int = 8 * 1024 * 1024
    """One block; it must fit a message and memory many times over."""
    append_bytes_max: int = 1024 * 1024
    """Blocks of one append message together (a single larger block still goes, alone)."""
    append_inflight_max: int = 64
    """Append messages to one follower without an answer: bounds what a slow one costs."""
    snapshot_chunk_bytes: int = 256 * 1024
    proposals_max: int = 100_000
    """Outstanding proposals made here; past that `propose` is refused."""
    proposals_bytes_max: int = 64 * 1024 * 1024
    """Their payloads together: bounds one batch, one frame of the block file, and memory."""
    forwarded_max: int = 10_000
    """Proposals of others that a node remembers the answer to. A message that arrives again after
    so many others gets no answer, so its sender learns it from the chain."""
    reads_max: int = 100_000
    """Linearizable reads open here; past that `read_index` is refused."""
    tail_blocks_max: int = 1_000
    """Blocks that a snapshot stands for and memory keeps all the same, so that a follower which is
    only a little behind gets these and not the whole snapshot. 0: none."""
    tail_bytes_max: int = 16 * 1024 * 1024
    """Their payloads together."""
    apply_blocks_max: int = 1024
    """Blocks to apply in one Ready, so that a long chain is applied in steps."""
    collect_blocks_max: int = 256
    """Dead blocks removed in one Ready."""
    waiting_max: int = 10_000
    """Messages of one kind to one peer that wait for a batch to be durable; past that the older
    half is dropped. More than come together while a disk writes at all. Of proposals as many wait
    as may be open."""
    waiting_bytes_max: int = 64 * 1024 * 1024
    """The pieces of a snapshot among these."""

    def __post_init__(self) -> None:
        if self.node_id < 0:
            raise ValueError(f"node_id {self.node_id} must not be negative")
        if self.heartbeat_ms <= 0 or self.election_timeout_ms < 2 * self.heartbeat_ms:
            raise ValueError("election_timeout_ms must be at least twice heartbeat_ms, both > 0")
        if not 1 <= self.format <= FORMAT_MAX:
            raise ValueError(f"format {self.format} is not one of 1 to {FORMAT_MAX}")
        if self.initial_voters and self.node_id in self.initial_voters and not self.cluster_id:
            raise ValueError("a node that may form a cluster needs a cluster_id to give it")

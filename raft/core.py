"""The state of one member and the state changes that several rules share.

`election.py`, `replication.py` and `forwarding.py` are the rules: functions over a Core. It is
private to this package; the interface is `node.py`. Invariants: `leading` is set exactly while
the role is LEADER (asserted before each Ready); a term starts without a vote or with our own
(`enter_term`); the clock does not go back (asserted).
"""

from collections.abc import Callable
from random import Random
from typing import Any

from raft.archive import Archive
from raft.block import BlockKind, make_block
from raft.candidacy import Candidacy
from raft.chain import Chain
from raft.config import Config
from raft.errors import CorruptBlock, InvariantBroken, WrongCluster
from raft.forwarded import Forwarded
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.members import MemberHistory, Members, decode_members
from raft.messages import Append, Message, SnapshotChunk
from raft.outbox import Outbox
from raft.progress import Progress
from raft.proposals import Proposals, Result
from raft.reads import Reads
from raft.roles import Role, RoleEvent, next_role
from raft.state import Recovered, Snapshot, State
from raft.tail import Tail

__all__ = ["Core", "Leading", "Requests"]


class Leading:
    """State that only a leader has, for one term."""

    __slots__ = (
        "heartbeat_due_ms",
        "own_match",
        "progress",
        "quorum_due_ms",
        "round",
        "transfer_end_ms",
        "transfer_to",
    )

    def __init__(self, *, now_ms: int, quorum_due_ms: int, own_match: Height) -> None:
        self.progress: dict[NodeId, Progress] = {}
        self.own_match = own_match
        self.round = 0
        self.heartbeat_due_ms = now_ms
        self.quorum_due_ms = quorum_due_ms
        self.transfer_to: NodeId | None = None
        self.transfer_end_ms = 0


class Requests:
    """Open requests: of clients of this node, and of other nodes."""

    __slots__ = ("forwarded", "proposals", "reads")

    def __init__(self, config: Config, *, first_number: int, known_after: Term) -> None:
        self.proposals = Proposals(
            config.proposals_max, config.proposals_bytes_max, first_number=first_number
        )
        self.reads = Reads(config.reads_max, first_number=first_number)
        self.forwarded = Forwarded(config.forwarded_max, known_after=known_after)


class Core:
    """The mutable state of one member."""

    def __init__(
        self, config: Config, recovered: Recovered | None, *, now_ms: int, rng: Random
    ) -> None:
        state = recovered.state if recovered else State()
        self.config = config
        self.format = config.format
        """Format of the messages we send: every node reads it."""
        self.now_ms = now_ms
        self.archive = Archive(
            recovered.snapshot if recovered else None,
            Tail(blocks_max=config.tail_blocks_max, bytes_max=config.tail_bytes_max),
        )
        self.chain = Chain.restore(
            root=state.root,
            head=state.head,
            commit=state.commit,
            blocks=recovered.blocks if recovered else (),
        )
        self.history = self._recover_members()
        self.cluster_id = ""
        """The cluster id of the *committed* birth block. An uncommitted block may still die, so it
        binds nobody. Empty until then; never changes later."""
        self._settle_identity()
        self.term = state.term
        self.role = Role.FOLLOWER
        self.leader: NodeId | None = None
        self.leading: Leading | None = None
        self.requests = Requests(config, first_number=rng.getrandbits(40), known_after=state.term)
        self.outbox = Outbox(state, self.archive.snapshot, config)
        before = recovered.promised if recovered else None
        self.candidacy = Candidacy(
            config.election_timeout_ms,
            rng,
            now_ms,
            vote=state.vote,
            promised=before.head if before else GENESIS,
        )
        if not self.is_sole_voter():  # a sole voter has nobody to wait for
            self.candidacy.reset(now_ms)

    def _recover_members(self) -> MemberHistory:
        chain = self.chain
        snapshot = self.archive.snapshot
        if snapshot is not None:
            members, cluster_id = snapshot.members, snapshot.cluster_id
        else:
            members, cluster_id = Members(voters=frozenset(self.config.initial_voters)), ""
        history = MemberHistory(chain.root.height, members, cluster_id)
        for block in chain.blocks_between(chain.root.height, chain.head.height):
            history.follow(block)
        return history

    # -- questions

    @property
    def id(self) -> NodeId:
        return self.config.node_id

    @property
    def members(self) -> Members:
        return self.history.current

    def durable(self) -> State:
        """The state that must survive a restart."""
        chain = self.chain
        return State(
            term=self.term,
            vote=self.candidacy.vote,
            head=chain.head,
            commit=chain.commit,
            root=chain.root,
        )

    def is_electable(self) -> bool:
        """It may stand for election: it is a voter, and has everything that it ever
        acknowledged."""
        if self.chain.head < self.candidacy.promised:
            return False
        return self.history.may_be_needed(self.id, self.chain.commit.height)

    def is_sole_voter(self) -> bool:
        return self.members.voters == {self.id}

    def check_cluster(self, message: Message) -> None:
        """Raises WrongCluster for a message of another cluster.

        A sender that knows of no commit names no cluster. But the leader of our term has our birth
        block on its path, so the blocks it sends identify its cluster.
        """
        ours, theirs = self.cluster_id, message.cluster_id
        if not theirs and isinstance(message, SnapshotChunk):
            raise CorruptBlock("a snapshot without a cluster id")
        if not theirs and isinstance(message, Append) and message.term >= self.term:
            born = (block for block in message.blocks if block.kind is BlockKind.BIRTH)
            theirs = next((decode_members(block.payload)[1] for block in born), "")
        if ours and theirs and ours != theirs:
            raise WrongCluster(f"a message of cluster {theirs!r}; this is {ours!r}")

    def hears_leader(self) -> bool:
        if self.role is Role.LEADER:
            return True
        return self.candidacy.hears_leader(self.now_ms)

    # -- moves

    def advance_clock(self, now_ms: int) -> None:
        assert now_ms >= self.now_ms, (now_ms, self.now_ms)
        self.now_ms = now_ms

    def send(self, kind: Callable[..., Message], to: NodeId, **fields: Any) -> None:
        """Queue a message; it is sent after everything written so far is durable."""
        fields.setdefault("term", self.term)
        message = kind(sender=self.id, to=to, cluster_id=self.cluster_id, **fields)
        self.outbox.add_message(message)

    def change_role(self, event: RoleEvent) -> None:
        """Follow the transition table; drop the state of the old role."""
        self.role = next_role(self.role, event)
        self.candidacy.votes.clear()
        if self.role is not Role.LEADER:
            self.leading = None
            self.leader = None
            self.requests.reads.start_over()

    def enter_term(self, term: Term, vote: NodeId | None) -> None:
        """Enter a newer term: a vote of the old term does not count in it."""
        if term <= self.term:
            raise InvariantBroken(f"term {self.term} cannot become {term}")
        self.term = term
        self.candidacy.vote = vote

    def grow(self, kind: BlockKind, payload: bytes) -> BlockId:
        """As leader, append a new block to the head."""
        assert self.leading is not None
        block = make_block(self.chain.head, self.term, kind, payload)
        self.chain.grow(block)
        self.outbox.add_blocks([block])
        self.history.follow(block)
        return block.id

    def follow(self, to: BlockId) -> None:
        """Move the head to another branch or further along its own."""
        fork, gained = self.chain.move_head(to)
        self.history.leave_above(fork)
        for block in gained:
            self.history.follow(block)

    def commit_to(self, height: Height) -> None:
        """Commit this block of the head path; end the proposals that can no longer be committed."""
        had_led = self.leading is not None and self.chain.commit.term == self.term
        self.chain.advance_commit(height)
        self._settle_identity()
        if had_led:  # blocks of this term are on our path, older ones have ended
            return
        for id_ in self.requests.proposals.placed_blocks():
            if self.is_overtaken(id_):
                self.requests.proposals.end_block(id_, Result.DEAD)

    def start_anew(self, snapshot: Snapshot) -> None:
        """Replace the whole chain by the leader's snapshot."""
        self.chain = Chain(snapshot.last)
        self.history = MemberHistory(snapshot.last.height, snapshot.members, snapshot.cluster_id)
        self._settle_identity()

    def _settle_identity(self) -> None:
        """After a commit moved: set the cluster id if the commit reached the birth block."""
        if not self.cluster_id:
            _, self.cluster_id = self.history.at(self.chain.commit.height)

    def is_overtaken(self, id_: BlockId) -> bool:
        """Can this block, above our root, never be committed any more, whether we have it or not?

        Another block is committed at its height; or commit has a later term, and terms never
        decrease along a path.
        """
        commit = self.chain.commit
        decided = id_.height <= commit.height or id_.term < commit.term
        return decided and not self.chain.on_head_path(id_)

"""The node: one member of a chained Raft cluster, without clock, sockets or files.

The host calls `step`, `tick`, `propose` and the like, then does the work that `ready` returns and
calls `advance`. Rules: a message leaves only after what it promises is durable; term and vote
change together and are durable before any answer; commit advances when a majority has a block of
the leader's own term; only blocks that are durable here are handed out to be applied, once, in
order.
Section numbers in this package refer to the Raft paper (Ongaro and Ousterhout, 2014), or to
Ongaro's thesis where marked. This file is the interface; the rules are in election.py,
replication.py and forwarding.py.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from raft import election, forwarding, plausible, replication, snapshots
from raft.block import BlockKind
from raft.chain import Chain
from raft.config import FORMAT_MAX, Config
from raft.core import Core
from raft.errors import CorruptBlock, Refused
from raft.ids import BlockId, NodeId, Term
from raft.members import Members, encode_members
from raft.messages import (
    Append,
    AppendAnswer,
    Message,
    Propose,
    ProposeAnswer,
    ReadAnswer,
    ReadRequest,
    SnapshotAnswer,
    SnapshotChunk,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from raft.proposals import Proposal
from raft.ready import Follower, Ready, Status
from raft.roles import Role, RoleEvent
from raft.state import Recovered

__all__ = ["Node"]


class Node:
    """One member. Times are the host's monotonic milliseconds; `rng` draws election timeouts."""

    def __init__(
        self, config: Config, recovered: Recovered | None, *, now_ms: int, rng: Random
    ) -> None:
        self._core = Core(config, recovered, now_ms=now_ms, rng=rng)

    # -- questions

    def status(self) -> Status:
        """The node's state at this moment, a frozen copy."""
        core = self._core
        return Status(
            node_id=core.id,
            cluster_id=core.cluster_id,
            role=core.role,
            term=core.term,
            format=core.format,
            leader=core.leader,
            head=core.chain.head,
            commit=core.chain.commit,
            applied=core.outbox.applied,
            root=core.chain.root,
            members=core.members,
            blocks_since_snapshot=core.outbox.applied.height - core.chain.root.height,
            bytes_since_snapshot=core.outbox.applied_bytes,
        )

    def followers(self) -> dict[NodeId, Follower]:
        """Progress of every other member as the leader knows it; empty on other nodes."""
        leading = self._core.leading
        if leading is None:
            return {}
        return {
            id_: Follower(match=each.match, answered_ms=each.answered_ms)
            for id_, each in leading.progress.items()
        }

    @property
    def chain(self) -> Chain:
        """For reading only."""
        return self._core.chain

    @property
    def term(self) -> Term:
        """The newest term that this node has seen."""
        return self._core.term

    @property
    def role(self) -> Role:
        """Its role in that term."""
        return self._core.role

    @property
    def leader(self) -> NodeId | None:
        """The leader of this term, if known."""
        return self._core.leader

    @property
    def members(self) -> Members:
        """Members in force: those of the last membership block on the head path."""
        return self._core.members

    @property
    def hands_over(self) -> bool:
        """It leads and waits for another voter to take over, for at most one election timeout."""
        leading = self._core.leading
        return leading is not None and leading.transfer_to is not None

    def wake_at_ms(self) -> int | None:
        """When `tick` next has work, if no other input arrives before."""
        core = self._core
        times = [core.requests.proposals.next_deadline_ms(), core.requests.reads.next_deadline_ms()]
        if core.leading is not None:
            if len(core.members.all) > 1:
                times += [core.leading.heartbeat_due_ms, core.leading.quorum_due_ms]
        else:
            if core.leader is not None:
                times.append(core.requests.proposals.next_resend_ms())
            if core.is_electable():
                times.append(core.candidacy.due_ms)
        return min((time for time in times if time is not None), default=None)

    # -- input

    def step(self, message: Message, now_ms: int) -> None:
        """Handle a message. Raises CorruptBlock for one that no correct node sends, and its
        subclass WrongCluster for one from another cluster; then nothing has changed."""
        core = self._core
        core.advance_clock(now_ms)
        if message.to != core.id:
            return
        core.check_cluster(message)
        reason = plausible.why_not(core, message)
        if reason is not None:
            raise CorruptBlock(f"node {message.sender}: {reason}")
        if message.term > core.term:
            if _ignores_newer_term(core, message):
                return
            if not (isinstance(message, VoteRequest) and message.pre) and not (
                isinstance(message, VoteAnswer) and message.pre and message.granted
            ):
                core.enter_term(message.term, vote=None)
                core.change_role(RoleEvent.NEWER_TERM)
                core.candidacy.reset(core.now_ms)
        elif message.term < core.term:
            _answer_stale(core, message)
            return
        _STEPS[type(message)](core, message)

    def tick(self, now_ms: int) -> None:
        """Let time pass: elections, heartbeats, check-quorum, deadlines."""
        core = self._core
        core.advance_clock(now_ms)
        core.requests.proposals.expire(now_ms)
        core.requests.reads.expire(now_ms)
        if core.leading is not None:
            replication.tick_leader(core, core.leading)
            return
        forwarding.ask_again(core)
        if core.is_electable() and now_ms >= core.candidacy.due_ms:
            election.start_election(core, RoleEvent.ELECTION_TIMEOUT)

    def propose(self, payload: bytes, now_ms: int, deadline_ms: int) -> Proposal:
        """Ask for a block with this payload; the Outcome of its number comes in a Ready.

        Without a known leader it waits, at most until `deadline_ms`. Raises Refused when the
        payload is too large or too many proposals are outstanding.
        """
        core = self._core
        core.advance_clock(now_ms)
        if len(payload) > core.config.payload_bytes_max:
            raise Refused(f"{len(payload)} bytes exceed {core.config.payload_bytes_max} per block")
        proposal = core.requests.proposals.add(BlockKind.DATA, payload, deadline_ms)
        forwarding.place_waiting(core)
        return proposal

    def read_index(self, now_ms: int, deadline_ms: int | None = None) -> int:
        """Start a linearizable read (section 8); the ReadDone of its number comes in a Ready.

        A node that does not lead asks the leader, or waits for one; at its deadline (if None, after
        an election timeout) the read ends without a commit. Raises Refused when too many are open.
        """
        core = self._core
        core.advance_clock(now_ms)
        if deadline_ms is None:
            deadline_ms = now_ms + core.config.election_timeout_ms
        return core.requests.reads.add(deadline_ms)

    def transfer_leadership(self, to: NodeId, now_ms: int) -> None:
        """Hand leadership to `to` as soon as it has our head (thesis 3.10). Raises Refused.

        Proposals wait meanwhile; without success after an election timeout we continue to lead.
        """
        core = self._core
        core.advance_clock(now_ms)
        if core.leading is None:
            raise Refused("only the leader can hand over")
        if to not in core.members.voters or to == core.id:
            raise Refused(f"node {to} is not another voter")
        replication.offer_takeover(core, core.leading, to)

    def change_members(self, members: Members, now_ms: int, deadline_ms: int) -> Proposal:
        """Propose new members, adding or removing at most one voter at a time (thesis 4.1).

        Raises Refused when this node does not lead or an earlier change is not committed.
        """
        core = self._core
        core.advance_clock(now_ms)
        if core.leading is None or core.leading.transfer_to is not None:
            raise Refused("only the leader changes members, and not while it hands over")
        commit = core.chain.commit
        if core.history.height > commit.height or commit.term != core.term:
            raise Refused("an earlier block that this depends on is not committed yet")
        if len(members.voters ^ core.members.voters) > 1 or not members.voters:
            raise Refused("one change may add or remove one voter, and one must remain")
        payload = encode_members(members, core.history.cluster_id)
        proposal = core.requests.proposals.add(BlockKind.CONFIG, payload, deadline_ms)
        forwarding.place_waiting(core)
        return proposal

    def peer_gone(self, peer: NodeId, now_ms: int) -> None:
        """The host knows that `peer` does not run (nothing listens at its port any more).

        If it is the leader we follow, we start an election at once instead of waiting for a
        timeout. A wrong report costs one round of pre-votes, which the nodes that hear the leader
        refuse.
        """
        core = self._core
        core.advance_clock(now_ms)
        if core.leader == peer and core.leading is None:
            core.candidacy.lose_leader(now_ms)

    def speak(self, format_: int) -> None:
        """All nodes read messages of this format from now on. The format never decreases; one above
        FORMAT_MAX counts as FORMAT_MAX."""
        core = self._core
        core.format = max(core.format, min(format_, FORMAT_MAX))

    def forget_progress(self, learner: NodeId) -> None:
        """A learner came back without its data: drop its earlier acknowledgements.

        Raises Refused when we do not lead, and for a voter: a commit may depend on its
        acknowledgement.
        """
        core = self._core
        if core.leading is None:
            raise Refused("only the leader tracks what other nodes have")
        if learner not in core.members.learners:
            raise Refused(f"node {learner} is not a learner")
        replication.begin_anew(core, core.leading, learner)

    def compact(self, data: bytes, last: BlockId | None = None) -> None:
        """Replace the blocks up to `last` by `data`, the host's state machine as of that block.

        Without `last`, `data` includes every block that was handed out; call it after `advance`,
        when all of them are applied. With `last` the host may have spent time on making the data.
        Raises Refused for a block that was not handed out yet.
        """
        core = self._core
        assert core.outbox.in_hand is None, "the host still works on a Ready"
        snapshots.compact(core, data, last or core.outbox.applied)

    # -- output

    def has_ready(self) -> bool:
        """Would `ready` have work? False while the host still works on one."""
        core = self._core
        assert (core.leading is not None) == (core.role is Role.LEADER), core.role
        if core.outbox.in_hand is not None:
            return False
        self._put_out()
        core.requests.reads.applied(core.outbox.applied)
        return bool(
            core.outbox.has_work(core.durable(), core.chain)
            or core.requests.proposals.outcomes
            or core.requests.reads.done
            or core.chain.has_dead
        )

    def ready(self) -> Ready:
        """The next work. Input is accepted meanwhile; `advance` reports the work done."""
        core = self._core
        assert core.outbox.in_hand is None, "advance() the last Ready first"
        self._put_out()
        removed = tuple(core.chain.collect(core.config.collect_blocks_max))
        committed = core.outbox.applicable(core.chain)
        for block in committed:
            core.requests.proposals.applied(block)
        core.requests.reads.applied(core.outbox.applied)
        outcomes, core.requests.proposals.outcomes = tuple(core.requests.proposals.outcomes), []
        reads, core.requests.reads.done = tuple(core.requests.reads.done), []
        return core.outbox.take(
            state=core.durable(),
            removed=removed,
            committed=committed,
            outcomes=outcomes,
            reads=reads,
        )

    def _put_out(self) -> None:
        """Queue the messages that the input so far makes due."""
        replication.replicate(self._core)
        forwarding.send_reads(self._core)

    def advance(self) -> None:
        """The last Ready is done: its batch is durable, its blocks applied, its messages sent."""
        self._core.outbox.done()
        replication.advance_commit(self._core)


def _ignores_newer_term(core: Core, message: Message) -> bool:
    """A node that hears a live leader ignores candidates, newer term or not (thesis 4.2.3)."""
    return (
        isinstance(message, VoteRequest)
        and not message.pre
        and not message.forced
        and core.hears_leader()
    )


def _answer_stale(core: Core, message: Message) -> None:
    """Send an old leader or candidate our term, so that it steps down and does not block us."""
    if isinstance(message, Append):
        core.send(
            AppendAnswer,
            message.sender,
            accepted=False,
            last=message.parent,
            hint=core.chain.root,
            round=0,
        )
    elif isinstance(message, SnapshotChunk):
        core.send(
            SnapshotAnswer, message.sender, last=message.last, next_offset=0, done=False, round=0
        )
    elif isinstance(message, VoteRequest):
        core.send(VoteAnswer, message.sender, pre=message.pre, granted=False)
    elif isinstance(message, Propose):
        forwarding.on_propose(core, message)
    elif isinstance(message, ProposeAnswer):
        forwarding.on_propose_answer(core, message)


_STEPS: dict[type[Message], Callable[[Core, Any], None]] = {
    VoteRequest: election.on_vote_request,
    VoteAnswer: election.on_vote_answer,
    TakeOver: election.on_take_over,
    Append: replication.on_append,
    AppendAnswer: replication.on_append_answer,
    SnapshotChunk: replication.take_chunk,
    SnapshotAnswer: replication.on_snapshot_answer,
    Propose: forwarding.on_propose,
    ProposeAnswer: forwarding.on_propose_answer,
    ReadRequest: forwarding.on_read_request,
    ReadAnswer: forwarding.on_read_answer,
}
"""Message → rule. A literal table, so that it can be grepped."""

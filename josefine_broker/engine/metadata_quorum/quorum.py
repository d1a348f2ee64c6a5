"""The metadata's Raft node as a broker uses it: open proposals, the Ready in hand, and views.

Rules: a proposal that ended without a commit is repeated until its deadline if it cannot take
effect twice: a failing leader costs time, but not the change. It is not repeated once its change is
settled: Raft may not know that a block was ours, but its payload shows it. One Ready of the node is
in hand at a time. This module does no I/O: its owner (broker.py) applies and sends what `take`
returns, and the host stores the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ports import Clock
from josefine_broker.engine.controller.membership import MemberChange, MemberStep
from josefine_broker.engine.metadata.proposals import may_propose_again
from josefine_broker.engine.metadata_quorum.controller_host import RaftView
from josefine_broker.engine.ports import QuorumMember, QuorumView
from raft import (
    GENESIS,
    Block,
    BlockId,
    Config,
    Members,
    Message,
    Node,
    NodeId,
    Outcome,
    Ready,
    Recovered,
    Refused,
    Result,
    Role,
    Status,
)

NEAR_HEAD_BLOCKS = 100
"""A learner that lacks fewer blocks may become a voter: it gets the rest in one round trip."""
MEMBERS_TIMEOUT_MS = 5_000
"""Deadline of a change of members. It is not repeated: the controller sees the members, and asks
again."""
PROPOSE_AGAIN_MS = 20
DEAD_KEPT = 200
"""How many blocks of dead branches are kept for display after the chain has forgotten them."""


class KnownBlock(NamedTuple):
    """A block as displayed to operators."""

    block: Block
    committed: bool
    dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """A snapshot is due after this many applied blocks, or bytes of payload, since the last one. A
    restart replays no more than that."""

    blocks: int = 10_000
    bytes: int = 64 * 1024 * 1024


class _Open(NamedTuple):
    """One attempt to get a block committed, open until Raft reports the result. Without a payload
    it is not repeated.

    `metadata.proposals.Proposals` holds something else: changes of this broker, which wait until
    their effect is in the image, by whichever block or snapshot. A change may need several
    attempts, one after another, and may be settled while one is still open. A newcomer's
    registration or a change of members is an attempt without a change there.
    """

    payload: bytes | None
    deadline_ms: int
    on_end: Callable[[Result], None] | None


class Quorum:
    """Raft for the broker: `engine.ports.RaftPort` and `QuorumPort`, and the controller's view."""

    def __init__(
        self,
        config: Config,
        recovered: Recovered,
        clock: Clock,
        rng: Random,
        limits: SnapshotLimits,
        on_work: Callable[[], None],
        is_open: Callable[[bytes], bool],
    ) -> None:
        """`on_work` is called whenever `take` may have something new; `is_open` returns whether
        the change in a payload from `propose` is still open."""
        self.recovered = recovered
        self.lacks_room = ""
        """Why nothing can be written now; empty while writes succeed."""
        self.has_ended = False
        """This broker has stopped: its node may have broken an invariant and is not used again."""
        self.in_hand: Ready | None = None
        self.applied: BlockId = GENESIS
        """The last block whose effect is in the image."""
        self.terms_seen = 0
        """Elections that this node took part in or learned of, for the metrics."""
        self.dead_blocks = 0
        self.proposed_again = 0
        self.snapshots = 0
        """Snapshots made here."""
        self._clock = clock
        self._limits = limits
        self._on_work = on_work
        self._is_open = is_open
        # By the number of the proposal, which is all that its outcome names.
        self._open: dict[int, _Open] = {}
        self._again: deque[tuple[int, _Open]] = deque()
        """Attempts to repeat, each with its time."""
        self._dead: deque[Block] = deque(maxlen=DEAD_KEPT)
        self._term = 0
        self.node = Node(config, recovered, now_ms=clock.monotonic_ms(), rng=rng)

    # -- requests to Raft

    def propose(self, payload: bytes, deadline_ms: int) -> object:
        """`engine.ports.RaftPort`. Raises KafkaError(not_controller) when this broker has stopped
        or its disk is full, so that the caller tries another broker."""
        if self.has_ended or self.lacks_room:
            reason = self.lacks_room or "this broker has stopped"
            raise KafkaError(ErrorCode.not_controller, reason)
        try:
            return self._propose(_Open(payload, deadline_ms, None))
        except Refused as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error

    def propose_once(
        self, payload: bytes, deadline_ms: int, on_end: Callable[[Result], None]
    ) -> None:
        """Propose without repeating, for callers that retry by themselves. Raises
        raft.Refused."""
        self._propose(_Open(payload, deadline_ms, on_end))

    def _propose(self, wanted: _Open) -> object:
        """Propose, and keep the attempt until its outcome. Raises raft.Refused."""
        assert wanted.payload is not None
        now_ms = self._clock.monotonic_ms()
        proposal = self.node.propose(wanted.payload, now_ms, wanted.deadline_ms)
        self._open[proposal.number] = wanted
        self._on_work()
        return proposal

    def remove_voter(self, broker_id: int) -> bool:
        """`engine.ports.QuorumPort`."""
        return self.change_members(MemberChange(step=MemberStep.REMOVE, broker_id=broker_id))

    def change_members(self, change: MemberChange) -> bool:
        """Start this membership step; False when Raft refuses it now, and must be asked again."""
        members = self.node.members
        node = NodeId(change.broker_id)
        voters, learners = set(members.voters), set(members.learners)
        match change.step:
            case MemberStep.ADD_LEARNER:
                learners.add(node)
            case MemberStep.PROMOTE:
                learners.discard(node)
                voters.add(node)
            case MemberStep.REMOVE:
                learners.discard(node)
                voters.discard(node)
        # One broker per change: any majority before it and any after it then have a member in
        # common, so no two leaders can be elected in one term (Ongaro's dissertation, section 4.1).
        wanted = Members(voters=frozenset(voters), learners=frozenset(learners))
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + MEMBERS_TIMEOUT_MS
        try:
            proposal = self.node.change_members(wanted, now_ms, deadline_ms)
        except Refused:
            return False  # an earlier change is not committed yet
        self._open[proposal.number] = _Open(None, deadline_ms, None)
        self._on_work()
        return True

    def hand_over(self, live: Collection[int]) -> bool:
        """Transfer the leadership to the most advanced other voter, preferably one of `live`;
        False if no transfer can be started."""
        # The most advanced follower needs the fewest blocks before it can be elected (Ongaro's
        # dissertation, section 3.10).
        followers = self.node.followers()
        voters = self.node.members.voters
        best = max(
            (each for each in followers if each in voters),
            key=lambda each: (each in live, followers[each].match or -1),
            default=None,
        )
        if best is None:
            return False
        try:
            self.node.transfer_leadership(best, self._clock.monotonic_ms())
        except Refused:
            return False
        self._on_work()
        return True

    def forget_progress(self, learner: int) -> None:
        """The learner lost its data: what it acknowledged before no longer counts."""
        with suppress(Refused):
            self.node.forget_progress(NodeId(learner))
            self._on_work()

    # -- work

    def step(self, message: Message, now_ms: int) -> None:
        """Handle a peer's message. Raises raft.CorruptBlock for one that violates the protocol."""
        self.node.step(message, now_ms)

    def tick(self, now_ms: int) -> None:
        """Let time pass for Raft, and repeat what ended without a commit."""
        self.node.tick(now_ms)
        while self._again and self._again[0][0] <= now_ms:
            _, wanted = self._again.popleft()
            assert wanted.payload is not None
            if not self._is_open(wanted.payload):
                # Its block was applied here although the leader that wrote it could not report so.
                # A repeated one could be applied after a later change that reverts it.
                continue
            with suppress(Refused):
                self._propose(wanted)
                self.proposed_again += 1

    def wake_at_ms(self) -> int | None:
        """Time of the next due `tick`."""
        wake_ms = self.node.wake_at_ms()
        if self._again and (wake_ms is None or self._again[0][0] < wake_ms):
            return self._again[0][0]
        return wake_ms

    def take(self) -> Ready | None:
        """The node's next Ready, which is in hand from then on; None if there is none, or one is in
        hand already."""
        if self.in_hand is not None or not self.node.has_ready():
            return None
        self._take_note()
        self.in_hand = ready = self.node.ready()
        self.dead_blocks += 0 if ready.batch is None else len(ready.batch.removed)
        return ready

    def ended(self, outcome: Outcome) -> None:
        """A proposal of this broker has a result; its block, if any, is applied."""
        wanted = self._open.pop(outcome.number)
        if wanted.on_end is not None:
            wanted.on_end(outcome.result)
        elif wanted.payload is not None and outcome.result is not Result.COMMITTED:
            now_ms = self._clock.monotonic_ms()
            is_dead = outcome.result is Result.DEAD
            if now_ms < wanted.deadline_ms and may_propose_again(wanted.payload, is_dead=is_dead):
                self._again.append((now_ms + PROPOSE_AGAIN_MS, wanted))

    def done(self) -> None:
        """The Ready in hand is processed: durable, applied, its messages sent."""
        self.in_hand = None
        self.node.advance()

    def compact(self, data: bytes) -> None:
        """Keep `data`, the image after all applied blocks, as snapshot; the chain drops those."""
        self.node.compact(data)
        self.snapshots += 1

    def is_snapshot_due(self) -> bool:
        """By number and by size: a restart replays what came after the last one."""
        status = self.node.status()
        return (
            status.blocks_since_snapshot >= self._limits.blocks
            or status.bytes_since_snapshot >= self._limits.bytes
        )

    def _take_note(self) -> None:
        """Keep for display what the next Ready drops. Dead branches are rare, so the scan over all
        known blocks costs little."""
        term = self.node.term
        if term != self._term:
            self.terms_seen += 1
            self._term = term
        chain = self.node.chain
        if chain.has_dead:
            known = {block.id for block in self._dead}
            for block in chain:
                if block.id not in known and not chain.is_live(block.id):
                    self._dead.append(block)

    # -- views

    def status(self) -> Status:
        """The node's status, with `applied` as the last block in the image."""
        return replace(self.node.status(), applied=self.applied)

    @property
    def has_caught_up(self) -> bool:
        """Whether what was recovered is applied: a sole voter applies its whole chain after it has
        won its election; with other voters it is the chain up to the recovered commit."""
        status = self.status()
        if status.members.voters == {status.node_id}:
            return status.role is Role.LEADER and status.applied == status.head
        return status.applied.height >= self.recovered.state.commit.height

    @property
    def is_rebuilt(self) -> bool:
        """Whether the chain has reached what this broker had promised before its files were
        damaged, and the image what it knew to be committed."""
        promised, status = self.recovered.promised, self.status()
        return promised is None or (
            status.head >= promised.head and status.applied.height >= promised.commit.height
        )

    def view(self, gone: Callable[[], frozenset[int]]) -> RaftView:
        """Raft's state for the controller; `gone` is called only on the leader."""
        node, members = self.node, self.node.members
        # A leader knows what is committed once a block of its own term is (Raft, 5.4.2 and 8):
        # earlier the controller could decide from an old image.
        leads = node.role is Role.LEADER and self.applied.term == node.term
        return RaftView(
            term=node.term,
            leader=-1 if node.leader is None else node.leader,
            leads=leads,
            voters=members.voters,
            learners=members.learners,
            caught_up=self._caught_up(members.learners) if leads else frozenset(),
            gone=gone() if leads else frozenset(),
        )

    def _caught_up(self, learners: Collection[int]) -> frozenset[int]:
        """Learners near enough to the head to become voters: one that lags would delay each commit
        (Raft dissertation, 4.2.1)."""
        if not learners:
            return frozenset()
        least = self.node.chain.head.height - NEAR_HEAD_BLOCKS
        return frozenset(
            id_
            for id_, each in self.node.followers().items()
            if id_ in learners and each.match is not None and each.match >= least
        )

    def describe(self) -> QuorumView:
        """`engine.ports.QuorumPort`."""
        status = self.status()
        followers = self.node.followers()
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()

        def member(id_: int) -> QuorumMember:
            """One row of the view; times are the wall clock's, as the protocol has them
            (KIP-836)."""
            if id_ == status.node_id:
                return QuorumMember(id_, status.head.height, wall_ms, wall_ms)
            follower = followers.get(NodeId(id_))
            if follower is None:
                return QuorumMember(id_)
            heard_ms = wall_ms - (now_ms - follower.answered_ms)
            match = -1 if follower.match is None else follower.match
            is_caught_up = match >= status.commit.height
            return QuorumMember(id_, match, heard_ms, heard_ms if is_caught_up else -1)

        return QuorumView(
            -1 if status.leader is None else status.leader,
            status.term,
            status.commit.height,
            tuple(member(each) for each in sorted(status.members.voters)),
            tuple(member(each) for each in sorted(status.members.learners)),
        )

    def known_blocks(self) -> Iterator[KnownBlock]:
        """The known blocks above the root and the last dead ones, highest first."""
        chain = self.node.chain
        blocks = {block.id: block for block in self._dead} | {block.id: block for block in chain}
        commit = chain.commit
        for id_ in sorted(blocks, key=lambda each: (each.height, each.term), reverse=True):
            on_path = chain.on_head_path(id_)
            yield KnownBlock(
                blocks[id_],
                committed=on_path and id_.height <= commit.height,
                dead=not on_path and not (chain.knows(id_) and chain.is_live(id_)),
            )

"""The metadata's Raft as a broker uses it: its node, the work in hand, and what was proposed here.

Rules: a proposal that ended without a commit is made again until its deadline, where that cannot
take effect twice: a leader that fails meanwhile costs time, not the change. It is not made again
once its change is settled: Raft may not know that a block was ours, but its payload tells. One
Ready of the node is in hand at a time. Nothing is done here: the owner (broker.py) applies and
sends what `take` gives, and its host stores the batch.
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
"""A learner that lacks fewer blocks may become a voter: it has the rest in a round trip."""
MEMBERS_TIMEOUT_MS = 5_000
PROPOSE_AGAIN_MS = 20
DEAD_KEPT = 200
"""Blocks of dead branches that are remembered for people after the chain has let go of them."""


class KnownBlock(NamedTuple):
    """A block as people look at it."""

    block: Block
    committed: bool
    dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """A snapshot is due when so many blocks were applied since the last, or so many bytes of
    payload: a restart applies no more than that again."""

    blocks: int = 10_000
    bytes: int = 64 * 1024 * 1024


class _Open(NamedTuple):
    """One attempt at a block, until Raft says what became of it; without a payload it is not made
    again.

    `metadata.proposals.Proposals` is no second table of the same: there a change of this broker's
    waits until its effect is in the image, by whichever block or snapshot. It has several of these
    attempts, one after another, or ends while one is still on its way; and a newcomer's
    registration or a change of members is an attempt that is nobody's change here.
    """

    payload: bytes | None
    deadline_ms: int
    on_end: Callable[[Result], None] | None


class Quorum:
    """`engine.ports.RaftPort` and `QuorumPort`, and what the controller asks of Raft."""

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
        """`on_work` is told that `take` may have something, whenever something is asked for;
        `is_open` tells whether the change of a payload from `propose` is still to be settled."""
        self.recovered = recovered
        self.lacks_room = ""
        """Why nothing can be written just now; empty while all is well."""
        self.has_ended = False
        """This broker has: its node may have broken a rule, and is not used any more."""
        self.in_hand: Ready | None = None
        self.applied: BlockId = GENESIS
        """The last block whose effect is in the image."""
        self.terms_seen = 0
        """Elections that this node took part in or heard of, for the metrics."""
        self.dead_blocks = 0
        self.proposed_again = 0
        self.snapshots = 0
        """Made here."""
        self._clock = clock
        self._limits = limits
        self._on_work = on_work
        self._is_open = is_open
        self._open: dict[int, _Open] = {}
        self._again: deque[tuple[int, _Open]] = deque()
        """What is proposed again, by when."""
        self._dead: deque[Block] = deque(maxlen=DEAD_KEPT)
        self._term = 0
        self.node = Node(config, recovered, now_ms=clock.monotonic_ms(), rng=rng)

    # -- what is asked of Raft here

    def propose(self, payload: bytes, deadline_ms: int) -> object:
        """`engine.ports.RaftPort`. A leader that fails meanwhile costs time, not the change;
        nor does one whose disk is full: it sends whoever asks to the others."""
        if self.has_ended or self.lacks_room:
            reason = self.lacks_room or "this broker has ended"
            raise KafkaError(ErrorCode.not_controller, reason)
        try:
            return self._propose(_Open(payload, deadline_ms, None))
        except Refused as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error

    def propose_once(
        self, payload: bytes, deadline_ms: int, on_end: Callable[[Result], None]
    ) -> None:
        """For somebody who asks again by himself. Raises raft.Refused."""
        self._propose(_Open(payload, deadline_ms, on_end))

    def _propose(self, wanted: _Open) -> object:
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
        """Begin this step; False: Raft refuses now, and is to be asked again."""
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
        """Let the best of the other voters lead, one of `live` if there is one; False: it cannot
        be begun."""
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
        """It came back without its data: what it acknowledged counts no more."""
        with suppress(Refused):
            self.node.forget_progress(NodeId(learner))
            self._on_work()

    # -- work

    def step(self, message: Message, now_ms: int) -> None:
        """Raises raft.CorruptBlock for one that nobody who keeps the rules sends."""
        self.node.step(message, now_ms)

    def tick(self, now_ms: int) -> None:
        self.node.tick(now_ms)
        while self._again and self._again[0][0] <= now_ms:
            _, wanted = self._again.popleft()
            assert wanted.payload is not None
            if not self._is_open(wanted.payload):
                # Its block was applied here, though the leader that made it could not say so any
                # more. Another one could come after a change that takes it back.
                continue
            with suppress(Refused):
                self._propose(wanted)
                self.proposed_again += 1

    def wake_at_ms(self) -> int | None:
        """When `tick` is due."""
        wake_ms = self.node.wake_at_ms()
        if self._again and (wake_ms is None or self._again[0][0] < wake_ms):
            return self._again[0][0]
        return wake_ms

    def take(self) -> Ready | None:
        """The node's next work, which is in hand then; None: there is none, or one is."""
        if self.in_hand is not None or not self.node.has_ready():
            return None
        self._take_note()
        self.in_hand = ready = self.node.ready()
        self.dead_blocks += 0 if ready.batch is None else len(ready.batch.removed)
        return ready

    def ended(self, outcome: Outcome) -> None:
        """A proposal of this broker came to its end; its block is applied, if there is one."""
        wanted = self._open.pop(outcome.number)
        if wanted.on_end is not None:
            wanted.on_end(outcome.result)
        elif wanted.payload is not None and outcome.result is not Result.COMMITTED:
            now_ms = self._clock.monotonic_ms()
            is_dead = outcome.result is Result.DEAD
            if now_ms < wanted.deadline_ms and may_propose_again(wanted.payload, is_dead=is_dead):
                self._again.append((now_ms + PROPOSE_AGAIN_MS, wanted))

    def done(self) -> None:
        """What was in hand is: durable, applied, its messages sent."""
        self.in_hand = None
        self.node.advance()

    def compact(self, data: bytes) -> None:
        """`data` is the image as of all that was applied: the blocks below can go."""
        self.node.compact(data)
        self.snapshots += 1

    def is_snapshot_due(self) -> bool:
        status = self.node.status()
        return (
            status.blocks_since_snapshot >= self._limits.blocks
            or status.bytes_since_snapshot >= self._limits.bytes
        )

    def _take_note(self) -> None:
        """Of what the next Ready forgets and people want to see. A dead branch is rare, so its
        look over all known blocks does not count."""
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
        """The node's, with `applied` being what is in the image."""
        return replace(self.node.status(), applied=self.applied)

    @property
    def has_caught_up(self) -> bool:
        """Has it applied what it recovered? A sole voter its whole chain, having won its election;
        with other voters it is the chain up to the recovered commit."""
        status = self.status()
        if status.members.voters == {status.node_id}:
            return status.role is Role.LEADER and status.applied == status.head
        return status.applied.height >= self.recovered.state.commit.height

    def view(self, gone: Callable[[], frozenset[int]]) -> RaftView:
        """What of Raft matters to the controller; `gone` is asked only where that is."""
        node, members = self.node, self.node.members
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
        """Known blocks above the root and the last dead ones, the newest (highest) first."""
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

"""Raft as this broker's handlers and its controller see it, over the host of the Raft node.

Rules: a proposal that ended without a commit is made again until its deadline, where that cannot
take effect twice: a leader that fails meanwhile costs time, not the change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ports import Clock
from josefine_broker.core.membership import MemberChange, MemberStep
from josefine_broker.core.proposals import may_propose_again
from josefine_broker.handlers.context import QuorumMember, QuorumView
from josefine_broker.handlers.controlling import RaftView
from josefine_broker.shell.raft_host import ProposalToken, RaftHost, Result
from raft import Members, NodeId, Refused, Role, Status

log = logging.getLogger(__name__)

NEAR_HEAD_BLOCKS = 100
"""A learner that lacks fewer blocks may become a voter: it has the rest in a round trip."""
MEMBERS_TIMEOUT_MS = 5_000
PROPOSE_AGAIN_MS = 20


class Quorum:
    """`handlers.context.RaftPort` and `QuorumPort`, and what the controller asks of Raft."""

    def __init__(self, host: RaftHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    def propose(self, payload: bytes, deadline_ms: int) -> object:
        """`handlers.context.RaftPort`. A leader that fails meanwhile costs time, not the change;
        nor does one whose disk is full: it sends whoever asks to the others."""
        if self._host.lacks_room:
            raise KafkaError(ErrorCode.not_controller, self._host.lacks_room)
        try:
            token = self._host.propose(payload, deadline_ms)
        except Refused as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error
        token.on_done = partial(self._ended, payload, deadline_ms)
        return token

    def _ended(self, payload: bytes, deadline_ms: int, token: ProposalToken) -> None:
        if token.result is Result.COMMITTED or self._host.failure is not None:
            return
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0 or not may_propose_again(payload, is_dead=token.result is Result.DEAD):
            return
        loop = asyncio.get_running_loop()
        loop.call_later(PROPOSE_AGAIN_MS / 1_000, self._propose_again, payload, deadline_ms)

    def _propose_again(self, payload: bytes, deadline_ms: int) -> None:
        try:
            self.propose(payload, deadline_ms)
        except KafkaError as error:
            log.info("not proposed again", extra={"reason": error})

    def describe(self) -> QuorumView:
        """`handlers.context.QuorumPort`."""
        status = self._host.status()
        followers = self._host.followers()
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

    def view(self, gone: Callable[[], frozenset[int]]) -> RaftView:
        """What of Raft matters to the controller; `gone` is asked only where that is."""
        status = self._host.status()
        leads = status.role is Role.LEADER and status.applied.term == status.term
        return RaftView(
            term=status.term,
            leader=-1 if status.leader is None else status.leader,
            leads=leads,
            voters=status.members.voters,
            learners=status.members.learners,
            caught_up=self._caught_up(status) if leads else frozenset(),
            gone=gone() if leads else frozenset(),
        )

    def _caught_up(self, status: Status) -> frozenset[int]:
        least = status.head.height - NEAR_HEAD_BLOCKS
        return frozenset(
            id_
            for id_, each in self._host.followers().items()
            if id_ in status.members.learners and each.match is not None and each.match >= least
        )

    def remove_voter(self, broker_id: int) -> bool:
        """`handlers.context.QuorumPort`."""
        return self.change_members(MemberChange(step=MemberStep.REMOVE, broker_id=broker_id))

    def change_members(self, change: MemberChange) -> bool:
        """Begin this step; False: Raft refuses now, and is to be asked again."""
        members = self._host.status().members
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
        deadline_ms = self._clock.monotonic_ms() + MEMBERS_TIMEOUT_MS
        try:
            self._host.change_members(wanted, deadline_ms)
        except Refused:
            return False  # an earlier change is not committed yet
        log.info("raft members change", extra={"step": change.step.value, "broker": node})
        return True

    def hand_over(self, live: Collection[int]) -> None:
        """Let the best of the other voters lead, one of `live` if there is one."""
        followers = self._host.followers()
        voters = self._host.status().members.voters
        best = max(
            (each for each in followers if each in voters),
            key=lambda each: (each in live, followers[each].match or -1),
            default=None,
        )
        if best is None:
            return
        try:
            self._host.transfer_leadership(best)
        except Refused as error:
            log.info("raft leadership stays", extra={"reason": error})

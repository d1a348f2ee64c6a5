"""Elections: pre-vote, vote and takeover (sections 5.2 and 5.4.1, thesis 3.10 and 9.6)."""

from raft import replication
from raft.core import Core
from raft.ids import NodeId, Term
from raft.messages import TakeOver, VoteAnswer, VoteRequest
from raft.roles import Role, RoleEvent

__all__ = ["on_take_over", "on_vote_answer", "on_vote_request", "start_election"]


def start_election(core: Core, event: RoleEvent) -> None:
    """ELECTION_TIMEOUT: start with a pre-vote. TRANSFER: become a candidate at once."""
    core.change_role(event)
    core.candidacy.await_answers(core.now_ms)
    if core.role is Role.PRE_CANDIDATE:
        _ask(core, pre=True, term=Term(core.term + 1), forced=False)
    else:
        _stand(core, forced=True)


def _stand(core: Core, *, forced: bool) -> None:
    core.enter_term(Term(core.term + 1), vote=core.id)
    core.candidacy.retry_soon(core.now_ms)
    _ask(core, pre=False, term=core.term, forced=forced)


def _ask(core: Core, *, pre: bool, term: Term, forced: bool) -> None:
    core.candidacy.votes = {core.id: True}
    for voter in sorted(core.members.voters - {core.id}):
        core.send(VoteRequest, voter, term=term, head=core.chain.head, pre=pre, forced=forced)
    _count(core)


def _count(core: Core) -> None:
    """Act when a majority grants, or when so many refuse that a majority is impossible."""
    voters, majority = core.members.voters, core.members.majority
    granted = sum(core.candidacy.votes.get(voter, False) for voter in voters)
    refused = sum(not core.candidacy.votes.get(voter, True) for voter in voters)
    if granted >= majority:
        if core.role is Role.PRE_CANDIDATE:
            core.change_role(RoleEvent.PRE_VOTE_WON)
            _stand(core, forced=False)
        else:
            core.change_role(RoleEvent.VOTE_WON)
            replication.start_leading(core)
    elif refused > len(voters) - majority:
        core.change_role(RoleEvent.VOTE_REFUSED)


def on_vote_request(core: Core, message: VoteRequest) -> None:
    """Grant when the candidate's head is at least ours and the vote of this term is free.

    A pre-vote promises nothing, so it needs no free vote; but a node that hears a leader refuses
    it.
    """
    # A head that damage took from us was acknowledged all the same.
    up_to_date = message.head >= max(core.chain.head, core.candidacy.promised)
    if message.pre:
        granted = up_to_date and message.term > core.term and not core.hears_leader()
        term = message.term if granted else core.term
        core.send(VoteAnswer, message.sender, term=term, pre=True, granted=granted)
        if granted and core.role is Role.PRE_CANDIDATE and message.sender > core.id:
            core.change_role(RoleEvent.GAVE_WAY)  # two simultaneous candidates would split the vote
        return
    free = core.candidacy.vote is None or core.candidacy.vote == message.sender
    granted = up_to_date and free and core.leader is None
    if granted:
        core.candidacy.vote = message.sender
        core.candidacy.reset(core.now_ms)
    core.send(VoteAnswer, message.sender, pre=False, granted=granted)


def on_vote_answer(core: Core, message: VoteAnswer) -> None:
    """Count the answer if it belongs to the current round; a duplicate counts once."""
    asking = Role.PRE_CANDIDATE if message.pre else Role.CANDIDATE
    if core.role is asking:
        core.candidacy.votes[NodeId(message.sender)] = message.granted
        _count(core)


def on_take_over(core: Core, message: TakeOver) -> None:
    """The leader transfers its leadership to us."""
    if core.role in (Role.FOLLOWER, Role.PRE_CANDIDATE) and core.is_electable():
        start_election(core, RoleEvent.TRANSFER)

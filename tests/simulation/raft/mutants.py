"""Wrong lines, one per rule of the library that matters: what test_mutants.py breaks it with.

`checker` is the invariant that must complain, by the name of its file; without one, the library
itself notices (an assertion or InvariantBroken) or the trace of the scenario is another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from raft import BlockFile, Node
from raft import core as core_rules
from raft.candidacy import Candidacy
from raft.chain import Chain
from raft.election import on_vote_request
from raft.forwarding import _fate, on_propose
from raft.members import MemberHistory, Members
from raft.node import _ignores_newer_term
from raft.outbox import Outbox, _promises
from raft.proposals import Proposals, fate_below
from raft.reads import Reads
from raft.replication import (
    _answer,
    _confirm_rounds,
    _finish_transfer,
    _heed_leader,
    _probe_back,
    advance_commit,
    on_append,
    replicate,
    start_leading,
    tick_leader,
)
from raft.segment import _encode_state
from raft.sent import Sent
from raft.snapshots import _install, compact, on_snapshot_chunk
from raft.synced import SyncedMark

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line."""

    breaks: str
    function: Callable[..., Any]
    old: str
    new: str
    scenario: str = ""
    """The text scenario that catches it; else random lives do."""
    checker: str = ""
    seed: int = 0
    """Where the search begins: a life that noticed, when it was last looked for."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Strengths that these lives have besides what chance gives them."""
    liveness: bool = False
    """These lives end with a healthy majority only: everybody healed would hide it."""


DAMAGE = {"disk_damaged_per_second": 6.0, "crash_per_second": 0.6}


def get(property_: Any) -> Callable[..., Any]:
    """The function behind a property."""
    return property_.fget  # type: ignore[no-any-return]


MUTANTS = [
    Mutant(
        breaks="a birth that is not committed binds nobody",
        function=core_rules.Core.send,
        old="cluster_id=self.cluster_id",
        new="cluster_id=self.history.cluster_id",
    ),
    Mutant(
        breaks="a birth that is not committed binds nobody after a restart",
        function=core_rules.Core._settle_identity,
        old="self.history.at(self.chain.commit.height)",
        new="self.history.at(self.chain.head.height)",
    ),
    Mutant(
        breaks="a vote is durable before the answer leaves",
        function=_encode_state,
        old="vote = -1 if state.vote is None else state.vote",
        new="vote = -1",
        checker="restart_keeps_promises",
    ),
    Mutant(
        breaks="term and vote are synced",
        function=_promises,
        old="return state.term, state.vote, state.head, state.root",
        new="return state.head, state.root",
        checker="restart_keeps_promises",
    ),
    Mutant(
        breaks="one vote per term",
        function=on_vote_request,
        old="free = core.candidacy.vote is None or core.candidacy.vote == message.sender",
        new="free = True",
        checker="one_vote_per_term",
    ),
    Mutant(
        breaks="a vote goes only to a candidate that is up to date",
        function=on_vote_request,
        old="up_to_date = message.head >= max(core.chain.head, core.candidacy.promised)",
        new="up_to_date = True",
        checker="leaders_are_complete",
    ),
    Mutant(
        breaks="a majority is more than half",
        function=get(Members.majority),
        old="len(self.voters) // 2 + 1",
        new="max(1, len(self.voters) // 2)",
        checker="leaders_are_complete",
    ),
    Mutant(
        breaks="the acknowledgement is for the message's last block",
        function=_answer,
        old="last = message.last if accepted",
        new="last = core.chain.head if accepted",
    ),
    Mutant(
        breaks="a late duplicate does not take an acknowledgement back",
        function=on_append,
        old="if not chain.on_head_path(last):",
        new="if chain.head != last:",
    ),
    Mutant(
        breaks="a follower commits no further than the leader's message reaches",
        function=on_append,
        old="min(message.commit.height, last.height)",
        new="min(message.commit.height, chain.head.height)",
        scenario="fork_and_dead_branch",
        checker="same_blocks_applied",
    ),
    Mutant(
        breaks="a rejected append is followed by one that fits",
        function=_probe_back,
        old="progress.probe_from(Height(meeting.height + 1))",
        new="pass",
        checker="progress_returns",
    ),
    Mutant(
        breaks="dead is told only of a block off the committed path",
        function=core_rules.Core.is_overtaken,
        old="return decided and not self.chain.on_head_path(id_)",
        new="return decided",
        checker="answers_are_true",
    ),
    Mutant(
        breaks="a proposal that was sent is not called dead when a block may be it",
        function=Sent.applied,
        old="if self._attempts[number].term == term:",
        new="if False:",
        checker="answers_are_true",
    ),
    Mutant(
        breaks="a proposal that was sent is appended in that term or never",
        function=on_propose,
        old="and term == core.term:",
        new=":",
        scenario="proposal_outlives_its_leader",
    ),
    Mutant(
        breaks="a proposal that was sent does not outlive the term it was sent in",
        function=Sent._left_behind,
        old="if attempt.term >= term:",
        new="if True:",
        scenario="proposal_outlives_its_leader",
    ),
    Mutant(
        breaks="of a block hidden by a snapshot nothing is claimed",
        function=fate_below,
        old="return Result.UNKNOWN",
        new="return Result.DEAD",
        scenario="proposal_behind_a_snapshot",
    ),
    Mutant(
        breaks="a forwarded proposal that arrives twice is appended once",
        function=on_propose,
        old="if not forwarded.knows(sender, term, number):",
        new="if True:",
        checker="same_blocks_applied",
    ),
    Mutant(
        breaks="a forwarded proposal whose answer is forgotten is not appended again",
        function=on_propose,
        old="if forwarded.may_have_appended(sender, term, number):",
        new="if False:",
        checker="same_blocks_applied",
    ),
    Mutant(
        breaks="the chunks of a snapshot are put together in order",
        function=on_snapshot_chunk,
        old="if message.offset == len(data):",
        new="if True:",
    ),
    Mutant(
        breaks="chunks of two leaders' snapshots are not put together",
        function=on_snapshot_chunk,
        old="core.archive.incoming.source != source:",
        new="core.archive.incoming.source[1] != message.last:",
        seed=40,
    ),
    Mutant(
        breaks="a leader's own copy counts when it is durable",
        function=advance_commit,
        old="chain.id_at(Height(own + 1)) not in unsynced",
        new="True",
        scenario="own_copy_is_durable",
        checker="commits_on_one_path",
    ),
    Mutant(
        breaks="a block of an older term is not committed by counting",
        function=advance_commit,
        old="and chain.id_at(height).term == core.term",
        new="",
        scenario="figure_8",
        checker="commits_on_one_path",
    ),
    Mutant(
        breaks="a branch above the commit is not collected",
        function=Chain.advance_commit,
        old="to - base]:",
        new="to - base + 1]:",
        checker="gc_spares_the_living",
    ),
    Mutant(
        breaks="a read is answered when a majority has answered a round after it",
        function=_confirm_rounds,
        old="answered[core.members.majority - 1]",
        new="answered[0]",
        scenario="read_index",
        checker="reads_see_writes",
    ),
    Mutant(
        breaks="an answer about reading is for the reads begun before its question",
        function=Reads.send,
        old="question = self._new_number()",
        new="question = self._queued[-1][1]",
        scenario="read_late_answer",
        checker="reads_see_writes",
    ),
    Mutant(
        breaks="a read waits for a commit of the leader's own term",
        function=replicate,
        old="if core.requests.reads.has_queued and core.chain.commit.term == core.term:",
        new="if core.requests.reads.has_queued:",
        checker="reads_see_writes",
    ),
    Mutant(
        breaks="one change of members at a time",
        function=Node.change_members,
        old="core.history.height > commit.height or commit.term != core.term",
        new="False",
        scenario="members_add_and_remove",
    ),
    Mutant(
        breaks="one voter comes or goes at a time",
        function=Node.change_members,
        old="len(members.voters ^ core.members.voters) > 1",
        new="False",
        scenario="members_add_and_remove",
    ),
    Mutant(
        breaks="a leader commits a block of its own term before it changes members",
        function=Node.change_members,
        old="core.history.height > commit.height or commit.term != core.term",
        new="core.history.height > commit.height",
        checker="changes_intersect",
        seed=21,
    ),
    Mutant(
        breaks="a follower goes by the members that the blocks say",
        function=core_rules.Core.follow,
        old="self.history.follow(block)",
        new="block.kind is BlockKind.CONFIG or self.history.follow(block)",
        checker="members_follow_the_chain",
    ),
    Mutant(
        breaks="a snapshot has the members of the block that it ends at",
        function=compact,
        old="core.history.at(last.height)",
        new="core.members, core.cluster_id",
        checker="members_follow_the_chain",
    ),
    Mutant(
        breaks="a restart finds the members that the blocks say",
        function=core_rules.Core._recover_members,
        old="history.follow(block)",
        new="block.kind is BlockKind.CONFIG or history.follow(block)",
        checker="members_follow_the_chain",
    ),
    Mutant(
        breaks="a snapshot from the leader brings its members",
        function=_install,
        old="members=message.members",
        new="members=core.members or message.members",
        checker="members_follow_the_chain",
    ),
    Mutant(
        breaks="a change above the root is kept by a snapshot below it",
        function=MemberHistory.forget_below,
        old="self._said[1][0] <= root",
        new="True",
        checker="members_follow_the_chain",
    ),
    Mutant(
        breaks="a change of members is forgotten with its branch",
        function=MemberHistory.leave_above,
        old="self._said.pop()",
        new="break",
        scenario="members_change_is_lost",
    ),
    Mutant(
        breaks="who is a voter until a change is committed stands for election",
        function=core_rules.Core.is_electable,
        old="self.history.may_be_needed(self.id, self.chain.commit.height)",
        new="self.id in self.members.voters",
        scenario="members_two_voters",
    ),
    Mutant(
        breaks="who hears a leader refuses a pre-vote",
        function=on_vote_request,
        old="and not core.hears_leader()",
        new="",
        scenario="pre_vote_keeps_the_peace",
    ),
    Mutant(
        breaks="a leader that hears no majority steps down",
        function=tick_leader,
        old="< core.members.majority:",
        new="< 0:",
        scenario="check_quorum",
    ),
    Mutant(
        breaks="a node that may have taken a proposal before a restart does not deny it",
        function=on_propose,
        old="elif not forwarded.can_refuse(term):",
        new="elif False:",
        scenario="forwarded_once",
    ),
    Mutant(
        breaks="only a block that is durable here is handed out to be applied",
        function=Outbox._next_applicable,
        old="chain.id_at(Height(height + 1)) not in self.unsynced",
        new="True",
        scenario="fork_and_dead_branch",
    ),
    Mutant(
        breaks="an election needs a majority, so that a term has one leader",
        function=get(Members.majority),
        old="len(self.voters) // 2 + 1",
        new="max(1, len(self.voters) // 2)",
        scenario="election_split_vote",
        checker="one_leader_per_term",
    ),
    Mutant(
        breaks="a pre-vote changes nobody's term",
        function=Node.step,
        old="if not (isinstance(message, VoteRequest) and message.pre) and not (",
        new="if not (",
        scenario="pre_vote_keeps_the_peace",
    ),
    Mutant(
        breaks="who hears a leader is not disturbed by a candidate",
        function=_ignores_newer_term,
        old="and core.hears_leader()",
        new="and False",
        scenario="late_vote_request",
    ),
    Mutant(
        breaks="a message of an older term is not taken",
        function=Node.step,
        old="elif message.term < core.term:",
        new="elif False:",
    ),
    Mutant(
        breaks="blocks are synced before they are acknowledged",
        function=Outbox._make_batch,
        old="bool(blocks) or snapshot is not None or _promises(state) != _promises(before)",
        new="(state.term, state.vote) != (before.term, before.vote)",
        checker="restart_keeps_promises",
    ),
    Mutant(
        breaks="a follower takes only blocks whose parent it has",
        function=on_append,
        old="if not chain.is_live(parent):",
        new="if False:",
    ),
    Mutant(
        breaks="a new leader appends a block at once",
        function=start_leading,
        old='core.grow(BlockKind.EMPTY, b"")',
        new="pass",
        scenario="older_term_counting",
    ),
    Mutant(
        breaks="a proposal ends at its deadline",
        function=Proposals.expire,
        old="if number in self._open:",
        new="if False:",
        checker="answers_are_true",
    ),
    Mutant(
        breaks="committed is told when the block is applied here",
        function=_fate,
        old="block_id.height <= core.outbox.applied.height",
        new="block_id.height <= core.chain.commit.height",
        checker="answers_are_true",
        seed=94,
    ),
    Mutant(
        breaks="a proposal that waits is sent to the next leader",
        function=_heed_leader,
        old="place_waiting(core)",
        new="pass",
        scenario="transfer",
    ),
    Mutant(
        breaks="a read waits until what was committed is applied here",
        function=Reads.applied,
        old="commit.height <= applied.height and number in self._open",
        new="number in self._open",
        checker="reads_see_writes",
    ),
    Mutant(
        breaks="leadership goes to a voter that has the head",
        function=_finish_transfer,
        old="leading.progress[peer].match == core.chain.head.height",
        new="True",
        scenario="transfer",
    ),
    Mutant(
        breaks="learners do not count",
        function=advance_commit,
        old="for voter in core.members.voters:",
        new="for voter in core.members.all:",
        checker="commits_on_one_path",
    ),
    Mutant(
        breaks="a leader that committed its own removal steps down",
        function=advance_commit,
        old="if core.id not in core.members.voters and",
        new="if False and",
        scenario="members_leader_leaves",
    ),
    Mutant(
        breaks="who only joins never forms a cluster",
        function=core_rules.Core.is_electable,
        old="self.history.may_be_needed(self.id, self.chain.commit.height)",
        new="True",
        scenario="members_add_and_remove",
    ),
    Mutant(
        breaks="dead blocks go leaf first",
        function=Chain.collect,
        old="if children:",
        new="if False:",
        checker="gc_spares_the_living",
    ),
    Mutant(
        breaks="a snapshot does not replace a chain that is ahead of it",
        function=on_snapshot_chunk,
        old="done = message.last.height <= core.chain.commit.height",
        new="done = False",
        seed=69,
    ),
    Mutant(
        breaks="what a mark knows to have been synced is not cut as a torn write",
        function=SyncedMark.check,
        old="if found < known:",
        new="if False:",
        faults=DAMAGE,
        seed=1,
    ),
    Mutant(
        breaks="what a later frame knows to have been synced is not cut as a torn write",
        function=BlockFile._recover_segment,
        old="if not is_last or later is not None:",
        new="if not is_last:",
        faults=DAMAGE,
        seed=3,
    ),
    Mutant(
        breaks="a leader that hears no majority steps down",
        function=tick_leader,
        old="< core.members.majority",
        new="< 0",
        seed=70,
        checker="liveness",
        liveness=True,
    ),
    Mutant(
        breaks="a transfer to a node that never answers ends",
        function=tick_leader,
        old="core.now_ms >= leading.transfer_end_ms",
        new="False",
        faults={"transfer_per_second": 8.0},
        checker="liveness",
        liveness=True,
    ),
    Mutant(
        breaks="a leader that fell silent is forgotten",
        function=Candidacy.hears_leader,
        old="now_ms < self._heard_ms + self._timeout_ms",
        new="True",
        checker="liveness",
        liveness=True,
    ),
    Mutant(
        breaks="a follower that fell silent is not counted as heard",
        function=tick_leader,
        old="p.answered_ms > core.now_ms - timeout",
        new="True",
        seed=70,
        checker="liveness",
        liveness=True,
    ),
]

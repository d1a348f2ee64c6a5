"""The checkers can fail: each mutant breaks one rule of the library, and is caught.

Most are caught by random lives within a few seeds. Where chance needs too long, a text scenario
plays the very case: it names the scenario, whose checkers or whose trace must then complain.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import pytest

from raft import InvariantBroken, Node
from raft import core as core_rules
from raft.chain import Chain
from raft.election import on_vote_request
from raft.forwarding import on_propose
from raft.members import MemberHistory, Members
from raft.outbox import Outbox, _promises
from raft.proposals import fate_below
from raft.reads import Reads
from raft.replication import (
    _answer,
    _confirm_rounds,
    _probe_back,
    advance_commit,
    on_append,
    replicate,
    tick_leader,
)
from raft.segment import _encode_state
from raft.sent import Sent
from raft.snapshots import on_snapshot_chunk
from tests.simulation.raft.run import simulate
from tests.simulation.raft.scenarios import SCENARIOS, play

SEEDS_MAX = 60
BROKEN = (AssertionError, InvariantBroken, ValueError, KeyError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line."""

    breaks: str
    function: Callable[..., Any]
    old: str
    new: str
    scenario: str = ""
    """The text scenario that catches it; else random lives do."""


def get(property_: Any) -> Callable[..., Any]:
    """The function behind a property."""
    return property_.fget  # type: ignore[no-any-return]


MUTANTS = [
    Mutant(
        breaks="a vote is durable before the answer leaves",
        function=_encode_state,
        old="vote = -1 if state.vote is None else state.vote",
        new="vote = -1",
    ),
    Mutant(
        breaks="term and vote are synced",
        function=_promises,
        old="return state.term, state.vote, state.head, state.root",
        new="return state.head, state.root",
    ),
    Mutant(
        breaks="one vote per term",
        function=on_vote_request,
        old="free = core.vote is None or core.vote == message.sender",
        new="free = True",
    ),
    Mutant(
        breaks="a vote goes only to a candidate that is up to date",
        function=on_vote_request,
        old="up_to_date = message.head >= core.chain.head",
        new="up_to_date = True",
    ),
    Mutant(
        breaks="a majority is more than half",
        function=get(Members.majority),
        old="len(self.voters) // 2 + 1",
        new="max(1, len(self.voters) // 2)",
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
    ),
    Mutant(
        breaks="a rejected append is followed by one that fits",
        function=_probe_back,
        old="progress.probe_from(Height(meeting.height + 1))",
        new="pass",
    ),
    Mutant(
        breaks="dead is told only of a block off the committed path",
        function=core_rules.Core.is_overtaken,
        old="return decided and not self.chain.on_head_path(id_)",
        new="return decided",
    ),
    Mutant(
        breaks="a proposal that was sent is not called dead when a block may be it",
        function=Sent.applied,
        old="if self._attempts[number].term == term:",
        new="if False:",
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
        old="if not core.forwarded.knows(sender, term, number):",
        new="if True:",
    ),
    Mutant(
        breaks="a forwarded proposal whose answer is forgotten is not appended again",
        function=on_propose,
        old="if core.forwarded.may_have_appended(sender, term, number):",
        new="if False:",
    ),
    Mutant(
        breaks="the chunks of a snapshot are put together in order",
        function=on_snapshot_chunk,
        old="if message.offset == len(data):",
        new="if True:",
    ),
    Mutant(
        breaks="a leader's own copy counts when it is durable",
        function=advance_commit,
        old="chain.id_at(Height(own + 1)) not in unsynced",
        new="True",
        scenario="own_copy_is_durable",
    ),
    Mutant(
        breaks="a block of an older term is not committed by counting",
        function=advance_commit,
        old="and chain.id_at(height).term == core.term",
        new="",
        scenario="figure_8",
    ),
    Mutant(
        breaks="a branch above the commit is not collected",
        function=Chain.advance_commit,
        old="to - base]:",
        new="to - base + 1]:",
    ),
    Mutant(
        breaks="a read is answered when a majority has answered a round after it",
        function=_confirm_rounds,
        old="answered[core.members.majority - 1]",
        new="answered[0]",
        scenario="read_index",
    ),
    Mutant(
        breaks="an answer about reading is for the reads begun before its question",
        function=Reads.send,
        old="question = self._new_number()",
        new="question = self._queued[-1][1]",
        scenario="read_late_answer",
    ),
    Mutant(
        breaks="a read waits for a commit of the leader's own term",
        function=replicate,
        old="if core.reads.has_queued and core.chain.commit.term == core.term:",
        new="if core.reads.has_queued:",
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
        old="elif not core.forwarded.can_refuse(term):",
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
]


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The function with the wrong line in place, everywhere it is referred to."""
    function = mutant.function
    assert isinstance(function, FunctionType)
    source = textwrap.dedent(inspect.getsource(function)).replace("@property\n", "")
    assert source.count(mutant.old) == 1, f"{mutant.old!r} is not in the source any more"
    compiled = compile(source.replace(mutant.old, mutant.new), function.__name__, "exec")
    (code,) = (part for part in compiled.co_consts if isinstance(part, CodeType))
    good, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = good


def is_caught_by(scenario: str) -> bool:
    (path,) = (path for path in SCENARIOS if path.stem == scenario)
    text = path.read_text()
    try:
        return play(text) != text
    except BROKEN:
        return True


def is_caught_by_lives() -> bool:
    for seed in range(SEEDS_MAX):
        try:
            simulate(seed, for_ms=6_000)
        except BROKEN:
            return True
    return False


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    with mutated(mutant):
        caught = is_caught_by(mutant.scenario) if mutant.scenario else is_caught_by_lives()

    assert caught, f"nobody noticed that this is broken: {mutant.breaks}"

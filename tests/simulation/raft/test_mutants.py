"""The checkers can fail: each mutant breaks one rule of the library, and a few seeds catch it.

Three rules are broken too rarely by chance in these worlds (60 seeds do not notice), so unit tests
play them instead: committing an older term's block by counting (the paper's figure 8) and a
leader's own copy that is not durable, in tests/unit/raft/test_node_among_others.py; branches above
the commit that GC must spare, in tests/unit/raft/test_chain.py.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import pytest

from raft import InvariantBroken
from raft import core as core_rules
from raft.election import on_vote_request
from raft.forwarding import on_propose
from raft.members import Members
from raft.outbox import _promises
from raft.replication import (
    _answer,
    _probe_back,
    on_append,
)
from raft.segment import _encode_state
from raft.snapshots import on_snapshot_chunk
from tests.simulation.raft.run import simulate

SEEDS_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line."""

    breaks: str
    function: Callable[..., Any]
    old: str
    new: str
    first_seed: int = 0
    """A seed that catches it soon; later ones follow."""


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
        first_seed=127,
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
        function=core_rules.Core.commit_to,
        old="and not self.chain.on_head_path(id_)",
        new="",
    ),
    Mutant(
        breaks="a forwarded proposal that arrives twice is appended once",
        function=on_propose,
        old="if not core.forwarded.knows(sender, term, number):",
        new="if True:",
    ),
    Mutant(
        breaks="the chunks of a snapshot are put together in order",
        function=on_snapshot_chunk,
        old="if message.offset == len(data):",
        new="if True:",
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_the_checkers_catch_a_broken_rule(mutant: Mutant) -> None:
    with mutated(mutant):
        for seed in range(mutant.first_seed, mutant.first_seed + SEEDS_MAX):
            try:
                simulate(seed, for_ms=6_000)
            except (AssertionError, InvariantBroken, ValueError):
                return
    raise AssertionError(f"{SEEDS_MAX} seeds did not notice that this is broken: {mutant.breaks}")

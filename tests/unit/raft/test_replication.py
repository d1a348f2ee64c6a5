"""Appending and committing: what a leader counts, and what a follower acknowledges."""

from typing import Any

import pytest

from raft.block import BlockKind
from raft.core import Core
from raft.errors import InvariantBroken
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.messages import Append, AppendAnswer
from raft.replication import advance_commit, on_append, on_append_answer, replicate, tick_leader
from raft.roles import Role
from tests.unit.raft.cores import (
    ME,
    PEER,
    THIRD,
    TIMEOUT_MS,
    follower_of,
    leader_of,
    run_of,
    sent,
)


def matched(core: Core, **matches: int) -> int:
    """The committed height after followers (by name) have acknowledged these heights."""
    assert core.leading is not None
    for name, match in matches.items():
        peer = {"peer": PEER, "third": THIRD}[name]
        core.leading.progress[peer].match = Height(match)
    advance_commit(core)
    return core.chain.commit.height


def append(core: Core, parent: BlockId, blocks: list[Any], **fields: Any) -> AppendAnswer:
    values = {"term": core.term, "commit": GENESIS, "round": 7, **fields}
    on_append(core, Append(sender=PEER, to=ME, cluster_id="c", parent=parent,
                           blocks=tuple(blocks), **values))  # fmt: skip
    (answer,) = sent(core, AppendAnswer)
    return answer


def test_a_block_commits_when_a_majority_has_it() -> None:
    core = leader_of()
    core.grow(BlockKind.DATA, b"x")
    core.outbox.unsynced.clear()

    assert matched(core) == 0
    assert matched(core, peer=1) == 1
    assert matched(core, third=2) == 2


def test_the_leaders_own_block_counts_only_when_it_is_durable() -> None:
    core = leader_of()
    block = core.grow(BlockKind.DATA, b"x")

    assert matched(core, peer=2) == 1
    core.outbox.unsynced.discard(block)
    assert matched(core) == 2


def test_a_block_of_an_earlier_term_commits_only_below_one_of_the_leaders_own() -> None:
    """Figure 8 of the paper."""
    core = leader_of(term=4, before=run_of(GENESIS, 2, 2))

    assert matched(core, peer=2, third=2) == 0
    assert matched(core, peer=3) == 3


def test_a_term_starts_with_a_block_and_the_first_one_names_the_cluster() -> None:
    core = leader_of()

    assert core.chain.block(core.chain.head).kind is BlockKind.BIRTH
    assert (core.leader, core.chain.head) == (ME, BlockId(Term(1), Height(1)))


def test_a_message_has_as_many_blocks_as_fit_and_one_at_least() -> None:
    core = leader_of(append_bytes_max=1)
    core.grow(BlockKind.DATA, b"x" * 50)

    replicate(core)

    assert {len(each.blocks) for each in sent(core, Append)} == {1}


def test_a_follower_acknowledges_the_last_block_of_the_message_and_no_more() -> None:
    core = follower_of()
    blocks = run_of(GENESIS, 1, 3)
    append(core, GENESIS, blocks)

    answer = append(core, GENESIS, blocks[:2])

    assert (answer.accepted, answer.last, answer.round) == (True, blocks[1].id, 7)
    assert core.chain.head == blocks[2].id


def test_a_commit_is_followed_only_up_to_the_blocks_of_the_message() -> None:
    core = follower_of()
    blocks = run_of(GENESIS, 1, 3)
    append(core, GENESIS, blocks)

    append(core, GENESIS, blocks[:2], commit=blocks[2].id)

    assert core.chain.commit == blocks[1].id


def test_a_parent_that_is_not_here_is_refused_with_the_highest_block_that_may_be_common() -> None:
    core = follower_of()
    blocks = run_of(GENESIS, 1, 2)
    append(core, GENESIS, blocks)

    answer = append(core, BlockId(Term(1), Height(5)), [])

    assert (answer.accepted, answer.last.height, answer.hint) == (False, 5, blocks[1].id)


def test_two_leaders_of_one_term_break_an_invariant() -> None:
    core = follower_of(leader=THIRD)

    with pytest.raises(InvariantBroken, match="3 and 2 both lead term 1"):
        append(core, GENESIS, [])


def test_answers_of_an_earlier_run_of_a_follower_move_nothing() -> None:
    core = leader_of()
    assert core.leading is not None
    core.leading.progress[PEER].since_round = 5
    head = core.chain.head
    late = AppendAnswer(sender=PEER, to=ME, cluster_id="c", term=Term(1), accepted=True,
                        last=head, hint=head, round=4)  # fmt: skip

    on_append_answer(core, late)

    assert core.leading.progress[PEER].match is None
    assert core.chain.commit == GENESIS


@pytest.mark.parametrize(("heard_ms", "role"), [(TIMEOUT_MS, Role.LEADER), (0, Role.FOLLOWER)])
def test_a_leader_that_no_majority_answers_within_a_timeout_steps_down(heard_ms, role) -> None:
    core = leader_of()
    assert core.leading is not None
    core.leading.progress[PEER].answered_ms = heard_ms
    core.advance_clock(TIMEOUT_MS)

    tick_leader(core, core.leading)

    assert core.role is role


def test_each_heartbeat_is_a_round_of_its_own() -> None:
    core = leader_of()
    assert core.leading is not None

    tick_leader(core, core.leading)
    tick_leader(core, core.leading)

    rounds = [(each.to, each.round) for each in sent(core, Append)]
    assert rounds == [(PEER, 1), (THIRD, 1)]
    assert core.leading.progress.keys() == {NodeId(2), NodeId(3)}

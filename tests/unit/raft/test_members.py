"""Who belongs to the cluster, and since which block."""

import pytest

from raft import Block, BlockKind, CorruptBlock, Height, Members, NodeId, Term
from raft.block import make_block
from raft.ids import BlockId
from raft.members import MemberHistory, decode_members, encode_members

A, B, C = NodeId(1), NodeId(2), NodeId(3)


def voters(*ids: NodeId) -> Members:
    return Members(voters=frozenset(ids))


def said(height: int, members: Members) -> Block:
    parent = BlockId(Term(1), Height(height - 1))
    return make_block(parent, Term(1), BlockKind.CONFIG, encode_members(members, "c"))


def history(*changes: tuple[int, Members]) -> MemberHistory:
    made = MemberHistory(Height(0), voters(A, B), "")
    for height, members in changes:
        assert made.follow(said(height, members))
    return made


def test_members_survive_their_encoding() -> None:
    members = Members(voters=frozenset({A, C}), learners=frozenset({B}))

    assert decode_members(encode_members(members, "cluster")) == (members, "cluster")


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"[1]", b"\xff", b'{"version":1,"voters":3,"learners":[]}']
)
def test_members_that_cannot_be_read_are_refused(payload: bytes) -> None:
    with pytest.raises(CorruptBlock, match="cannot be read"):
        decode_members(payload)


def test_members_of_another_version_are_refused() -> None:
    with pytest.raises(CorruptBlock, match="format version 2; this code reads 1"):
        decode_members(b'{"version":2}')


def test_the_last_word_on_the_head_path_counts_committed_or_not() -> None:
    """Raft paper, section 6."""
    made = history((1, voters(A, B)), (5, voters(A, B, C)))

    assert made.current == voters(A, B, C)
    assert made.height == 5
    assert made.at(Height(4))[0] == voters(A, B)


def test_what_a_left_branch_said_is_forgotten() -> None:
    made = history((1, voters(A, B)), (5, voters(A, B, C)))

    made.leave_above(Height(4))

    assert made.current == voters(A, B)


def test_a_snapshot_keeps_the_members_in_force() -> None:
    made = history((1, voters(A, B)), (5, voters(A, B, C)), (9, voters(A)))

    made.forget_below(Height(7))

    assert made.at(Height(7))[0] == voters(A, B, C)
    assert made.current == voters(A)


def test_a_voter_leaving_by_an_uncommitted_change_may_still_be_needed() -> None:
    """Thesis 4.2.2."""
    made = history((1, voters(A, B)), (5, voters(B)))

    assert made.may_be_needed(A, Height(4))
    assert not made.may_be_needed(A, Height(5))
    assert made.may_be_needed(B, Height(5))
    assert not made.may_be_needed(C, Height(0))


def test_a_majority_is_more_than_half() -> None:
    assert [voters(*map(NodeId, range(n))).majority for n in range(1, 6)] == [1, 2, 2, 3, 3]


def test_blocks_of_other_kinds_say_nothing_about_members() -> None:
    made = history()
    block = make_block(BlockId(Term(1), Height(0)), Term(1), BlockKind.DATA, b"{}")

    assert not made.follow(block)

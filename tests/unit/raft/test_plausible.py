"""What a member that keeps the rules never says is refused, and the node is as it was.

Each of these once broke an invariant, failed in the middle of a change, or took memory: they need
no stranger, only a member whose memory is damaged.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raft import GENESIS, Block, BlockId, BlockKind, CorruptBlock, Height, Members, NodeId, Term
from raft.block import make_block
from raft.members import encode_members
from raft.messages import (
    Append,
    AppendAnswer,
    Message,
    Propose,
    ProposeAnswer,
    ReadAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from raft.plausible import NUMBER_MAX, SNAPSHOT_BYTES_MAX, TERM_JUMP_MAX
from tests.unit.raft.test_node_among_others import ALL, ME, PEER, THIRD, One, run_of

VOTERS = Members(voters=frozenset(ALL))
FOLLOWED = run_of(GENESIS, 1, 4)
"""What the follower of these tests has; the first two are committed."""
OTHER = [make_block(GENESIS, Term(2), BlockKind.DATA, b"other")]


def follower() -> One:
    one = One()
    one.append(FOLLOWED, commit=FOLLOWED[1].id)
    return one


def born() -> One:
    """A follower that knows its cluster."""
    one = One()
    birth = make_block(GENESIS, Term(1), BlockKind.BIRTH, encode_members(VOTERS, "c"))
    one.append([birth], commit=birth.id)
    return one


def with_a_dead_branch() -> One:
    """A block beside the committed one, dead and not collected yet."""
    one = One()
    one.append(run_of(GENESIS, 1, 1))
    one.node.step(
        Append(
            sender=PEER, to=ME, term=Term(2), cluster_id="c", parent=GENESIS,
            blocks=tuple(OTHER), commit=OTHER[0].id, round=0,
        ),
        one.now_ms,
    )  # fmt: skip
    return one


def leader() -> One:
    one = One()
    one.elect()
    return one


def asker() -> One:
    """A follower with two proposals on their way to the leader, the first placed in a block."""
    one = follower()
    numbers = [one.node.propose(b"%d" % i, one.now_ms, one.now_ms + 9_000).number for i in (1, 2)]
    one.work()
    one.numbers = numbers  # type: ignore[attr-defined]
    one.hear(ProposeAnswer, number=numbers[0], asked=Term(1), block_id=FOLLOWED[3].id)
    return one


def append(blocks: list[Block], **fields: Any) -> tuple[type[Message], dict[str, Any]]:
    parent = blocks[0].parent if blocks else FOLLOWED[3].id
    return Append, {"parent": parent, "blocks": tuple(blocks), "commit": GENESIS, "round": 0} | (
        fields
    )


def chunk(**fields: Any) -> tuple[type[Message], dict[str, Any]]:
    values = {"last": BlockId(Term(1), Height(9)), "members": VOTERS, "offset": 0, "data": b"s"}
    return SnapshotChunk, values | {"done": False, "round": 0} | fields


def said_members(payload: bytes) -> list[Block]:
    return [make_block(FOLLOWED[3].id, Term(1), BlockKind.CONFIG, payload)]


FAR = BlockId(Term(1), Height(NUMBER_MAX + 1))
AHEAD = BlockId(Term(9), Height(9))
CASES: dict[str, tuple[Callable[[], One], tuple[type[Message], dict[str, Any]], str]] = {
    "own name": (follower, (VoteAnswer, {"sender": ME, "pre": False, "granted": True}), "itself"),
    "term out of reach": (
        born,
        (VoteAnswer, {"term": Term(TERM_JUMP_MAX + 2), "pre": False, "granted": True}),
        "too far above our term 1 for elections",
    ),
    "two leaders": (follower, append([], sender=THIRD), "2 and 3 both lead"),
    "two leaders, one of them this": (leader, append([], parent=GENESIS), "1 and 2 both lead"),
    "snapshot of a second leader": (follower, chunk(sender=THIRD), "2 and 3 both lead"),
    "take-over by a second leader": (follower, (TakeOver, {"sender": THIRD}), "2 and 3 both lead"),
    "block of a later term": (
        follower,
        append([make_block(FOLLOWED[3].id, Term(2), BlockKind.DATA, b"d")]),
        "2:5, which cannot exist in term 1",
    ),
    "parent of a later term": (follower, append([], parent=AHEAD), "9:9, which cannot exist"),
    "commit of a later term": (follower, append([], commit=AHEAD), "9:9, which cannot exist"),
    "height out of bounds": (follower, append([], parent=FAR), "which cannot exist"),
    "blocks not in line": (
        follower,
        append([FOLLOWED[0], FOLLOWED[2]]),
        "1:3 does not follow 1:1",
    ),
    "first block not on the parent": (
        follower,
        append([FOLLOWED[3]], parent=FOLLOWED[1].id),
        "1:4 does not follow 1:2",
    ),
    "another block than the committed": (
        follower,
        append(OTHER, term=Term(2)),
        "2:1 is not 1:1, which is committed",
    ),
    "a dead block, known": (
        with_a_dead_branch,
        append(run_of(GENESIS, 1, 1), term=Term(2)),
        "1:1 is not 2:1, which is committed",
    ),
    "another commit than ours": (
        follower,
        append([], commit=BlockId(Term(0), Height(2))),
        "0:2 is not 1:2, which is committed",
    ),
    "commit of another block at its height": (
        follower,
        append(FOLLOWED[2:], commit=BlockId(Term(0), Height(4))),
        "1:4 cannot be committed as 0:4",
    ),
    "members that cannot be read": (follower, append(said_members(b"[" * 99_999)), "1:5: members"),
    "members of endless ids": (
        follower,
        append(said_members(b'{"version":1,"voters":[Infinity],"learners":[],"cluster_id":"c"}')),
        "1:5: members cannot be read",
    ),
    "nobody votes": (follower, append(said_members(encode_members(Members(), "c"))), "no voters"),
    "no cluster": (
        follower,
        append(said_members(encode_members(VOTERS, ""))),
        "its cluster id is empty",
    ),
    "id of a member": (
        follower,
        append(said_members(encode_members(Members(voters=frozenset({NodeId(-1)})), "c"))),
        "a member id outside 0 to",
    ),
    "snapshot without voters": (follower, chunk(members=Members()), "it has no voters"),
    "snapshot of nothing": (follower, chunk(last=GENESIS), "a snapshot up to 0:0"),
    "snapshot without end": (
        follower,
        chunk(offset=SNAPSHOT_BYTES_MAX),
        "a snapshot up to 1:9 with",
    ),
    "snapshot of another block than the committed": (
        follower,
        chunk(last=BlockId(Term(0), Height(2))),
        "ends at 0:2, but 1:2 is committed",
    ),
    "candidate ahead of its term": (
        follower,
        (VoteRequest, {"term": Term(3), "head": BlockId(Term(3), Height(5)), "pre": False}),
        "a candidate of term 3 has a head of term 3",
    ),
    "acknowledged before it was made": (
        leader,
        (
            AppendAnswer,
            {"accepted": True, "last": BlockId(Term(1), Height(2)), "hint": GENESIS, "round": 0},
        ),
        "1:2, which this leader did not make yet",
    ),
    "round that was not asked": (
        leader,
        (AppendAnswer, {"accepted": True, "last": GENESIS, "hint": GENESIS, "round": 2**63}),
        "it answers round",
    ),
    "round of no snapshot": (
        leader,
        (SnapshotAnswer, {"last": GENESIS, "next_offset": 0, "done": False, "round": 5}),
        "it answers round 5, but the last round is 0",
    ),
    "payload too large": (
        leader,
        (Propose, {"number": 1, "payload": b"x" * (8 * 1024 * 1024 + 1)}),
        "8388609 bytes exceed 8388608",
    ),
    "answer of a later term than its own": (
        follower,
        (ProposeAnswer, {"number": 1, "asked": Term(2), "block_id": None}),
        "a proposal of term 2",
    ),
    "proposal in a block of another term": (
        follower,
        (ProposeAnswer, {"number": 1, "asked": Term(1), "block_id": GENESIS}),
        "cannot be block 0:0",
    ),
    "read of a later commit": (
        follower,
        (ReadAnswer, {"number": 1, "commit": AHEAD}),
        "9:9, which cannot exist",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_true_is_refused_and_changes_nothing(name: str) -> None:
    make, (kind, fields), reason = CASES[name]
    one = make()
    before = one.node.status(), one.node._core.durable()

    with pytest.raises(CorruptBlock, match=reason):
        one.hear(kind, **fields)

    assert (one.node.status(), one.node._core.durable()) == before


@pytest.mark.parametrize(("number", "block"), [(0, FOLLOWED[2].id), (1, FOLLOWED[3].id)])
def test_a_proposal_has_one_block_and_a_block_one_proposal(number: int, block: BlockId) -> None:
    """The book of proposals failed with a KeyError when either ended."""
    one = asker()
    numbers: list[int] = one.numbers  # type: ignore[attr-defined]

    with pytest.raises(CorruptBlock, match="does not hold proposal"):
        one.hear(ProposeAnswer, number=numbers[number], asked=Term(1), block_id=block)

    one.at(one.now_ms + 9_999)
    assert not one.node._core.requests.proposals.placed_blocks()


def test_a_snapshot_answer_ends_within_the_snapshot() -> None:
    one = One(tail_blocks_max=0)
    one.elect()
    one.acknowledge(one.node.status().head)
    one.node.compact(b"state")
    said = one.hear(
        AppendAnswer, term=one.term, accepted=False, last=GENESIS, hint=GENESIS, round=0
    )
    sent = [each for each in said if isinstance(each, SnapshotChunk)]
    fields = {"done": False, "round": 0, "last": BlockId(Term(1), Height(1))}

    assert sent
    with pytest.raises(CorruptBlock, match="it acknowledges 6 of 5 snapshot bytes"):
        one.hear(SnapshotAnswer, term=one.term, next_offset=6, **fields)


@pytest.mark.parametrize("jump", [1, 1_000, TERM_JUMP_MAX])
def test_a_term_that_a_member_may_have_missed_is_entered(jump: int) -> None:
    one = born()

    one.hear(VoteAnswer, term=Term(1 + jump), pre=False, granted=False)

    assert one.term == 1 + jump


def test_who_joins_enters_whatever_term_the_cluster_has_come_to() -> None:
    """Also behind jumps that were made while nobody could have missed so many elections."""
    joiner = One(initial_voters=())
    far = 3 * TERM_JUMP_MAX

    joiner.hear(Append, term=Term(far), parent=GENESIS, blocks=(), commit=GENESIS, round=0)

    assert joiner.term == far

"""A snapshot comes from one leader whole, or not at all; and old code is sent what it can read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raft import GENESIS, BlockId, Config, Height, Members, NodeId, Snapshot, Term
from raft.messages import AppendAnswer, SnapshotAnswer, SnapshotChunk
from raft.state import snapshot_checksum
from tests.unit.raft.test_node_among_others import ALL, PEER, THIRD, One, only

LAST = BlockId(Term(2), Height(50))
MEMBERS = Members(voters=frozenset(ALL))


def snapshot(data: bytes) -> Snapshot:
    return Snapshot(last=LAST, cluster_id="c", members=MEMBERS, data=data)


def hear(
    one: One, sender: NodeId, term: int, whole: Snapshot, begin: int, end: int, *, old: bool = False
) -> SnapshotAnswer:
    """A piece of this leader's snapshot arrives, from code before there were checksums if `old`."""
    said = one.hear(
        SnapshotChunk,
        sender,
        term=Term(term),
        last=whole.last,
        members=whole.members,
        offset=begin,
        data=whole.data[begin:end],
        done=end == len(whole.data),
        round=0,
        checksum=None if old else snapshot_checksum(whole),
    )
    return only(said, SnapshotAnswer)


@pytest.mark.parametrize("old", [False, True])
def test_chunks_of_another_leader_begin_the_snapshot_anew(old: bool) -> None:
    """Both have one of the same block; their hosts wrote it differently."""
    one = One()
    first, second = snapshot(b"aaaa"), snapshot(b"bbbb")
    assert hear(one, PEER, 2, first, 0, 2, old=old).next_offset == 2

    assert hear(one, THIRD, 3, second, 2, 4, old=old).next_offset == 0
    assert hear(one, THIRD, 3, second, 0, 2, old=old).next_offset == 2
    assert hear(one, THIRD, 3, second, 2, 4, old=old).done

    assert One(one.files.crash()).store is not None
    assert one.node._core.archive.snapshot == second


def test_a_late_chunk_of_the_leader_before_adds_nothing() -> None:
    one = One()
    first, second = snapshot(b"aaaa"), snapshot(b"bbbb")
    hear(one, THIRD, 3, second, 0, 2)

    assert hear(one, PEER, 2, first, 2, 4).term == 3

    assert hear(one, THIRD, 3, second, 2, 4).done
    assert one.node._core.archive.snapshot == second


@pytest.mark.parametrize(
    "other",
    [
        {"data": b"aaab"},
        {"members": Members(voters=frozenset((PEER,)))},
        {"last": BlockId(Term(2), Height(51))},
        {"cluster_id": "d"},
    ],
    ids=lambda each: next(iter(each)),
)
def test_what_does_not_have_the_checksum_of_the_whole_is_not_installed(
    other: dict[str, object],
) -> None:
    one = One()
    good = snapshot(b"aaaa")
    said = one.hear(
        SnapshotChunk, PEER, term=Term(2), offset=0, done=True, round=0,
        last=good.last, members=good.members, data=good.data,
        checksum=snapshot_checksum(replace(good, **other)),  # type: ignore[arg-type]
    )  # fmt: skip

    answer = only(said, SnapshotAnswer)
    assert (answer.done, answer.next_offset) == (False, 0)
    assert one.node.status().root == GENESIS
    assert hear(one, PEER, 2, good, 0, 4).done


def test_a_leader_sends_the_checksum_when_everybody_understands_it() -> None:
    one = One(snapshot_chunk_bytes=4, tail_blocks_max=0, format=1)
    first = one.elect()
    one.acknowledge(first)
    one.node.compact(b"0123456")
    one.work()

    def ask() -> SnapshotChunk:
        said = one.hear(
            AppendAnswer, PEER, term=one.term, accepted=False, last=GENESIS, hint=GENESIS, round=0
        )
        said += one.at(one.now_ms + 100)
        return next(each for each in said if isinstance(each, SnapshotChunk))

    assert ask().checksum is None
    one.node.speak(2)
    whole = one.node._core.archive.snapshot
    assert whole is not None
    assert ask().checksum == snapshot_checksum(whole)
    one.node.speak(1)
    assert ask().checksum is not None, "there is no way back"


def test_a_format_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="format 3 is not one of 1 to 2"):
        Config(node_id=NodeId(1), format=3)

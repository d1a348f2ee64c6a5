"""Snapshots in chunks: chunks of two leaders are never combined, and a damaged whole is refused."""

from typing import Any

import pytest

from raft.archive import Incoming
from raft.core import Core
from raft.errors import Refused
from raft.ids import GENESIS, BlockId, Height, Term
from raft.members import Members
from raft.messages import SnapshotAnswer, SnapshotChunk
from raft.snapshots import begin_snapshot, compact, on_snapshot_chunk, send_chunk
from raft.state import Snapshot, snapshot_checksum
from tests.unit.raft.cores import ME, PEER, chain_up, follower_of, leader_of, run_of, sent

LAST = BlockId(Term(1), Height(9))
MEMBERS = Members(voters=frozenset({ME, PEER}))
DATA = b"0123456789"
WHOLE = Snapshot(last=LAST, cluster_id="c", members=MEMBERS, data=DATA)


def hear(core: Core, start: int, end: int, **fields: Any) -> SnapshotAnswer:
    values = {
        "term": Term(1), "last": LAST, "members": MEMBERS, "offset": start,
        "data": DATA[start:end], "done": end == len(DATA), "round": 3,
        "checksum": snapshot_checksum(WHOLE), **fields,
    }  # fmt: skip
    on_snapshot_chunk(core, SnapshotChunk(sender=PEER, to=ME, cluster_id="c", **values))
    (answer,) = sent(core, SnapshotAnswer)
    return answer


def test_chunks_in_order_become_the_chain() -> None:
    core = follower_of()

    assert hear(core, 0, 4).next_offset == 4
    assert hear(core, 4, 8).next_offset == 8
    answer = hear(core, 8, 10)

    assert (answer.done, answer.last, answer.round) == (True, LAST, 3)
    assert core.archive.snapshot == WHOLE
    assert (core.chain.root, core.chain.head, core.chain.commit) == (LAST, LAST, LAST)
    assert core.archive.incoming is None


def test_a_chunk_that_comes_twice_or_too_early_is_asked_for_from_where_the_bytes_end() -> None:
    core = follower_of()
    hear(core, 0, 4)

    assert hear(core, 0, 4).next_offset == 4
    assert hear(core, 8, 10).next_offset == 4
    assert core.archive.snapshot is None


@pytest.mark.parametrize("other", [{"term": Term(2)}, {"checksum": 1}])
def test_chunks_of_another_leader_or_of_other_bytes_start_again(other: dict[str, Any]) -> None:
    core = follower_of()
    hear(core, 0, 4)

    answer = hear(core, 4, 8, **other)

    assert answer.next_offset == 0
    assert isinstance(core.archive.incoming, Incoming)
    assert core.archive.incoming.data == b""


def test_bytes_that_are_not_the_leaders_are_refused_and_asked_for_again() -> None:
    core = follower_of()
    hear(core, 0, 4, data=b"9999")

    answer = hear(core, 4, 10)

    assert (answer.done, answer.next_offset) == (False, 0)
    assert core.archive.snapshot is None
    assert core.chain.root == GENESIS


def test_a_leader_of_an_older_format_sends_no_checksum() -> None:
    assert hear(follower_of(), 0, 10, checksum=None).done


def test_a_snapshot_of_blocks_that_are_here_commits_them_and_moves_nothing_else() -> None:
    core = follower_of()
    blocks = run_of(GENESIS, 1, 9)
    chain_up(core, blocks)

    answer = hear(core, 0, 4)

    assert answer.done
    assert (core.chain.commit, core.chain.root) == (LAST, GENESIS)
    assert core.archive.snapshot is None


def applied_leader(count: int = 5, **config: Any) -> Core:
    core = leader_of(before=run_of(GENESIS, 1, count), term=2, **config)
    core.chain.advance_commit(Height(count))
    core.outbox.applied = core.chain.id_at(Height(count))
    return core


def test_a_compacted_chain_starts_at_the_snapshot_and_keeps_a_tail() -> None:
    core = applied_leader(tail_blocks_max=2)

    compact(core, b"state", core.chain.id_at(Height(4)))

    assert core.chain.root.height == 4
    assert core.archive.snapshot is not None
    assert core.archive.snapshot.data == b"state"
    tail = core.archive.tail
    assert [tail.id_at(Height(n)) is not None for n in (1, 3, 4)] == [False, True, True]
    assert core.outbox.applied_bytes == len(b"d")


def test_a_block_that_is_not_applied_here_is_no_end_of_a_snapshot() -> None:
    core = applied_leader()
    core.outbox.applied = core.chain.id_at(Height(3))

    with pytest.raises(Refused, match="is not applied here"):
        compact(core, b"state", core.chain.id_at(Height(4)))
    assert core.archive.snapshot is None


def test_an_older_snapshot_than_the_chains_changes_nothing() -> None:
    core = applied_leader()
    compact(core, b"new", core.chain.id_at(Height(4)))
    before = core.archive.snapshot

    compact(core, b"old", BlockId(Term(1), Height(2)))

    assert core.archive.snapshot == before


@pytest.mark.parametrize(("format_", "has_checksum"), [(1, False), (2, True)])
def test_chunks_cover_the_data_and_a_lost_answer_sends_the_same_again(
    format_: int, has_checksum: bool
) -> None:
    core = applied_leader(snapshot_chunk_bytes=3, format=format_)
    compact(core, b"state", core.chain.id_at(Height(4)))
    assert core.leading is not None
    progress = core.leading.progress[PEER]
    begin_snapshot(core, progress)

    send_chunk(core, core.leading, PEER, progress)
    send_chunk(core, core.leading, PEER, progress)
    assert progress.transfer is not None
    progress.transfer.move_to(3, 1)
    send_chunk(core, core.leading, PEER, progress)

    chunks = sent(core, SnapshotChunk)
    assert [(c.offset, c.data, c.done) for c in chunks] == [
        (0, b"sta", False), (0, b"sta", False), (3, b"te", True),
    ]  # fmt: skip
    assert {c.checksum is not None for c in chunks} == {has_checksum}

"""What honest nodes hardly ever do: bytes of another kind, late messages, misplaced requests."""

import struct
import zlib

import pytest

from raft import (
    GENESIS,
    BlockFile,
    BlockId,
    BlockKind,
    CorruptBlock,
    CorruptStore,
    Height,
    Members,
    MemoryFiles,
    NodeId,
    Refused,
    Role,
    Snapshot,
    StoreFailed,
    Term,
)
from raft.block import decode_block, encode_block, make_block
from raft.codec import decode, encode
from raft.core import Core
from raft.errors import InvariantBroken
from raft.members import MemberHistory
from raft.messages import (
    Append,
    AppendAnswer,
    Propose,
    ProposeAnswer,
    ReadAnswer,
    ReadRequest,
    SnapshotAnswer,
    SnapshotChunk,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from raft.reads import Reads
from raft.segment import decode_snapshot, encode_snapshot
from raft.state import Batch, State
from tests.unit.raft.test_node_among_others import ALL, ME, PEER, THIRD, One, only, run_of

SNAPSHOT = Snapshot(
    last=BlockId(Term(1), Height(3)),
    cluster_id="c",
    members=Members(voters=frozenset(ALL)),
    data=b"state",
)


def resealed(data: bytes) -> bytes:
    """The same bytes with a checksum that fits."""
    return data[:-4] + struct.pack(">I", zlib.crc32(data[:-4]))


# -- bytes


def test_a_block_of_a_kind_from_the_future_is_refused() -> None:
    data = bytearray(encode_block(make_block(GENESIS, Term(1), BlockKind.DATA, b"d")))
    data[32] = 200  # four integers of eight bytes, then the kind

    with pytest.raises(CorruptBlock, match="unknown kind 200"):
        decode_block(resealed(bytes(data)))


def test_a_flag_that_is_neither_yes_nor_no_is_refused() -> None:
    answer = AppendAnswer(
        sender=PEER, to=ME, term=Term(1), cluster_id="", accepted=True, last=GENESIS, hint=GENESIS,
        round=0,
    )  # fmt: skip
    data = encode(answer)
    at = data.index(b"\x01", 28)  # behind the envelope

    with pytest.raises(CorruptBlock, match="neither 0 nor 1"):
        decode(data[:at] + b"\x07" + data[at + 1 :])


def test_a_cluster_id_that_is_not_text_is_refused() -> None:
    data = encode(TakeOver(sender=PEER, to=ME, term=Term(1), cluster_id="ab"))

    with pytest.raises(CorruptBlock, match="not text"):
        decode(data.replace(b"ab", b"\xff\xfe"))


def test_a_snapshot_file_of_another_format_is_refused() -> None:
    data = encode_snapshot(SNAPSHOT)

    with pytest.raises(CorruptStore, match="format version"):
        decode_snapshot(resealed(data.replace(b"RAFTSNP\n", b"RAFTSNP!")), "x.snap")
    with pytest.raises(CorruptStore, match="members"):
        decode_snapshot(resealed(data.replace(b'"voters"', b'"fighter')), "x.snap")


def test_a_snapshot_file_under_the_name_of_another_is_refused() -> None:
    files = MemoryFiles()
    store, _ = BlockFile.open(files, ME)
    state = State(head=SNAPSHOT.last, commit=SNAPSHOT.last, root=SNAPSHOT.last)
    store.persist(Batch(state=state, snapshot=SNAPSHOT))
    (name,) = (name for name in files.names() if name.endswith(".snap"))
    file = files.open(name)
    file.truncate(0)
    other = Snapshot(
        last=BlockId(Term(1), Height(2)), cluster_id="c", members=SNAPSHOT.members, data=b""
    )
    file.append(encode_snapshot(other))

    with pytest.raises(CorruptStore, match="it ends at 1:2"):
        BlockFile.open(files, ME)


def test_a_segment_under_the_name_of_another_is_refused() -> None:
    files = MemoryFiles()
    store, _ = BlockFile.open(files, ME)
    store.persist(Batch(state=State(term=Term(1))))
    (name,) = (name for name in files.names() if name.endswith(".seg"))
    files.rename(name, name.replace("1.seg", "2.seg"))

    with pytest.raises(CorruptStore, match="its header belongs to"):
        BlockFile.open(files, ME)


def test_a_failed_sync_fails_the_store_for_good() -> None:
    class BrokenFiles(MemoryFiles):
        broken = False

        def operation(self) -> None:
            if self.broken:
                raise OSError("the disk is gone")
            super().operation()

    files = BrokenFiles()
    store, _ = BlockFile.open(files, ME)
    store.append(Batch(state=State(term=Term(1))))
    files.broken = True

    with pytest.raises(StoreFailed, match="the disk is gone"):
        store.sync()
    files.broken = False
    with pytest.raises(StoreFailed, match="no more work"):
        store.sync()


# -- messages that are late or misplaced


def test_a_take_over_reaches_no_candidate_and_no_outsider() -> None:
    """Thesis 3.10: who stands already has no use for it, and a learner must not lead."""
    learner = One(initial_voters=())
    assert learner.hear(TakeOver) == []

    candidate = One()
    candidate.elect()
    with pytest.raises(CorruptBlock, match="both lead"):
        candidate.hear(TakeOver, term=candidate.term)
    assert candidate.node.status().role is Role.LEADER


def test_who_is_behind_in_terms_is_told_ours() -> None:
    """5.1: an old leader steps down, an old candidate stops asking. Checklist row 15."""
    one = One()
    one.append(run_of(GENESIS, 2, 1), term=Term(2))
    old = Term(1)

    said = one.hear(
        SnapshotChunk, THIRD, term=old, last=SNAPSHOT.last, members=SNAPSHOT.members, offset=0,
        data=b"a", done=False, round=0,
    )  # fmt: skip
    said += one.hear(VoteRequest, THIRD, term=old, head=GENESIS, pre=False)
    said += one.hear(Propose, THIRD, term=old, number=1, payload=b"d")

    assert [(type(m), m.term) for m in said] == [
        (SnapshotAnswer, 2), (VoteAnswer, 2), (ProposeAnswer, 2),
    ]  # fmt: skip
    assert one.hear(ReadAnswer, THIRD, term=old, number=1, commit=GENESIS) == []


def test_answers_to_a_leader_that_is_none_any_more_change_nothing() -> None:
    one = One()
    first = run_of(GENESIS, 1, 1)
    one.append(first)
    last = first[0].id

    said = one.hear(AppendAnswer, THIRD, accepted=True, last=last, hint=last, round=0)
    said += one.hear(SnapshotAnswer, THIRD, last=last, next_offset=0, done=True, round=0)
    said += one.hear(ReadRequest, THIRD, number=1)

    assert said == []
    assert one.commit == GENESIS


def test_a_rejection_of_what_was_acknowledged_since_is_late() -> None:
    one = One()
    first = one.elect()
    one.acknowledge(first)

    said = one.hear(
        AppendAnswer, THIRD, term=one.term, accepted=False, last=first, hint=GENESIS, round=0
    )

    assert said == []


def test_a_leader_tells_what_it_knows_of_each_follower() -> None:
    one = One()
    assert one.node.followers() == {}
    first = one.elect()

    one.acknowledge(first)

    known = one.node.followers()
    assert {id_: each.match for id_, each in known.items()} == {PEER: None, THIRD: first.height}
    assert known[THIRD].answered_ms == one.now_ms


def test_a_message_for_another_node_is_not_ours() -> None:
    one = One()
    stray = TakeOver(sender=PEER, to=THIRD, term=Term(9), cluster_id="c")

    one.node.step(stray, 0)

    assert one.term == 0


def test_blocks_that_do_not_follow_the_offered_parent_are_corrupt() -> None:
    one = One()
    blocks = run_of(GENESIS, 1, 2)

    with pytest.raises(CorruptBlock, match="does not follow 0:0"):
        one.hear(Append, parent=GENESIS, blocks=(blocks[1],), commit=GENESIS, round=0)


def test_a_late_append_from_below_the_root_is_answered_with_the_root() -> None:
    one = One()
    blocks = run_of(GENESIS, 1, 4)
    one.append(blocks, commit=blocks[2].id)
    one.node.compact(b"state")

    assert one.append(blocks[:2]).last == blocks[2].id
    assert one.append(blocks).last == blocks[3].id


def test_a_snapshot_of_what_is_here_already_only_commits_it() -> None:
    """Section 7: retain what follows it."""
    one = One()
    blocks = run_of(GENESIS, 1, 3)
    one.append(blocks)

    said = one.hear(
        SnapshotChunk, last=blocks[1].id, members=SNAPSHOT.members, offset=0, data=b"a",
        done=False, round=0,
    )  # fmt: skip

    assert [getattr(message, "done", None) for message in said] == [True]
    assert one.commit == blocks[1].id
    assert one.node.status().head == blocks[2].id


def test_an_acknowledgement_of_a_block_that_is_not_ours_counts_for_nothing() -> None:
    one = One()
    first = one.elect()

    one.acknowledge(BlockId(Term(0), Height(1)))

    assert one.commit == GENESIS
    one.acknowledge(first)
    assert one.commit == first


# -- requests


def test_only_the_leader_hands_over_and_only_to_another_voter() -> None:
    one = One()
    with pytest.raises(Refused, match="only the leader"):
        one.node.transfer_leadership(PEER, 0)
    one.elect()

    for to in (ME, NodeId(9)):
        with pytest.raises(Refused, match="not another voter"):
            one.node.transfer_leadership(to, one.now_ms)
    one.work()


def test_a_handover_waits_for_a_voter_whose_progress_is_not_tracked_yet() -> None:
    """The change of members is in the chain, and nobody has asked for messages since."""
    one = One(initial_voters=(ME,))
    one.at(0)
    change = Members(voters=frozenset({ME, PEER}))
    one.node.change_members(change, one.now_ms, one.now_ms + 1000)

    one.node.transfer_leadership(PEER, one.now_ms)

    assert not any(isinstance(message, TakeOver) for message in one.work())


def test_a_term_never_goes_back() -> None:
    core: Core = One().node._core
    core.enter_term(Term(3), vote=None)

    with pytest.raises(InvariantBroken, match="cannot become 3"):
        core.enter_term(Term(3), vote=None)


def test_who_never_was_a_voter_is_not_needed() -> None:
    history = MemberHistory(Height(5), Members(voters=frozenset({PEER})), "c")

    assert not history.may_be_needed(ME, Height(4))


def test_reads_that_others_ask_for_are_bounded() -> None:
    reads = Reads(2, first_number=1)
    for number in range(5):
        reads.add_for(PEER, number)

    reads.ask(1, GENESIS)

    assert [number for _, number, _ in reads.confirm(1)] == [0, 1]


def test_a_read_that_is_done_does_not_expire() -> None:
    reads = Reads(2, first_number=1)
    reads.add(100)
    reads.ask(1, GENESIS)
    reads.confirm(1)
    reads.applied(GENESIS)

    reads.expire(100)

    assert [read.commit for read in reads.done] == [GENESIS]


def test_the_append_answer_of_one_who_is_no_member_is_ignored() -> None:
    one = One()
    first = one.elect()

    said = one.acknowledge(first, NodeId(9))

    assert said == []
    assert only(one.acknowledge(first), Append).commit == first

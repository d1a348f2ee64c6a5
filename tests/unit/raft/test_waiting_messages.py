"""What is to be sent waits for the batch in hand, which a full disk may hold up for days: it is
bounded, the newest stays, and what was dropped is said again."""

from __future__ import annotations

import pytest

from raft import GENESIS, BlockId, Members, Message, NodeId, Ready, Term
from raft.messages import (
    Append,
    AppendAnswer,
    Propose,
    ProposeAnswer,
    SnapshotChunk,
    VoteAnswer,
    VoteRequest,
)
from tests.unit.raft.test_node_among_others import ME, PEER, THIRD, TIMEOUT_MS, One, run_of

LEARNER = NodeId(9)
HEARTBEAT_MS = 100


def follower_whose_disk_is_full(**overrides: int) -> tuple[One, Ready]:
    """It has taken a block of its leader's, and cannot write it."""
    one = One(**overrides)
    blocks = tuple(run_of(GENESIS, 1, 1))
    one.node.step(append(blocks[0].parent, round_=0, blocks=blocks), 0)
    ready = one.node.ready()
    assert ready.batch is not None
    return one, ready


def append(parent: BlockId, round_: int, **fields: object) -> Append:
    values = {"term": Term(1), "cluster_id": "c", "blocks": (), "commit": GENESIS, **fields}
    return Append(sender=PEER, to=ME, parent=parent, round=round_, **values)  # type: ignore[arg-type]


def room_again(one: One, ready: Ready) -> list[Message]:
    """The batch is written at last; what is sent from then on."""
    one.do(ready)
    return one.work()


def test_answers_to_one_peer_are_bounded_and_the_newest_are_kept() -> None:
    one, ready = follower_whose_disk_is_full(waiting_max=100)
    head = one.node.status().head

    for round_ in range(1, 5_001):
        one.node.step(append(head, round_), round_ * HEARTBEAT_MS)
        assert len(one.node._core.outbox.messages) <= 100

    one.now_ms = 5_000 * HEARTBEAT_MS
    rounds = [each.round for each in room_again(one, ready) if isinstance(each, AppendAnswer)]
    assert 50 <= len(rounds) <= 100
    assert rounds == list(range(5_001 - len(rounds), 5_001)), "in order, none missing"


def test_who_is_answered_often_pushes_out_no_answer_to_another_and_none_of_another_kind() -> None:
    one, ready = follower_whose_disk_is_full(waiting_max=10)
    head = one.node.status().head
    one.node.step(VoteRequest(sender=THIRD, to=ME, cluster_id="c", term=Term(2), head=GENESIS,
                              pre=True), 0)  # fmt: skip
    one.node.step(Propose(sender=PEER, to=ME, cluster_id="c", term=Term(1), number=7,
                          payload=b"p"), 0)  # fmt: skip

    for round_ in range(1, 100):
        one.node.step(append(head, round_), round_ * HEARTBEAT_MS)

    one.now_ms = 99 * HEARTBEAT_MS
    said = room_again(one, ready)
    assert [each.to for each in said if isinstance(each, VoteAnswer)] == [THIRD]
    assert [each.number for each in said if isinstance(each, ProposeAnswer)] == [7]


@pytest.mark.parametrize(
    ("bytes_max", "least", "most"),
    [pytest.param(10_000, 5, 10, id="some"), pytest.param(10, 1, 1, id="less than one")],
)
def test_bytes_that_messages_carry_are_bounded_too(bytes_max: int, least: int, most: int) -> None:
    """A leader that votes alone goes on leading; each heartbeat repeats a piece of its snapshot."""
    one = One(initial_voters=(ME,), waiting_bytes_max=bytes_max, snapshot_chunk_bytes=1_000,
              tail_blocks_max=0)  # fmt: skip
    one.at(0)
    one.node.compact(b"s" * 5_000)
    one.work()
    learners = Members(voters=frozenset({ME}), learners=frozenset({LEARNER}))
    one.node.change_members(learners, 0, 60_000)
    one.work()
    one.hear(AppendAnswer, LEARNER, accepted=False, last=one.node.status().head, hint=GENESIS,
             round=0)  # fmt: skip
    one.node.propose(b"p", 0, 60_000)
    ready = one.node.ready()

    for beat in range(1, 1_000):
        one.node.tick(beat * HEARTBEAT_MS)
        waiting = one.node._core.outbox.messages
        assert sum(isinstance(each, SnapshotChunk) for each in waiting) <= most

    one.now_ms = 999 * HEARTBEAT_MS
    chunks = [each for each in room_again(one, ready) if isinstance(each, SnapshotChunk)]
    assert least <= len(chunks) <= most


def test_proposal_whose_message_was_dropped_is_sent_again() -> None:
    one, ready = follower_whose_disk_is_full(proposals_max=5)
    payloads = [bytes([each]) for each in range(5)]
    for payload in payloads:
        one.node.propose(payload, 0, 60_000)

    head = one.node.status().head
    for beat in range(1, 100):  # repeated all the time, because nobody answers
        hear_leader(one, head, beat)
        assert len(proposed(one.node._core.outbox.messages)) <= 5
    one.now_ms = 99 * HEARTBEAT_MS
    room_again(one, ready)
    sent: list[bytes] = []
    for beat in range(100, 100 + TIMEOUT_MS // HEARTBEAT_MS):
        hear_leader(one, head, beat)
        sent += proposed(one.work())

    assert sent == payloads


def test_burst_of_proposals_is_sent_whole() -> None:
    """As many as may be open come together on any disk, before the host looks."""
    one, ready = follower_whose_disk_is_full(waiting_max=2, proposals_max=50)
    payloads = [bytes([each]) for each in range(50)]

    for payload in payloads:
        one.node.propose(payload, 0, 60_000)

    assert proposed(room_again(one, ready)) == payloads


def hear_leader(one: One, head: BlockId, beat: int) -> None:
    one.node.step(append(head, beat), beat * HEARTBEAT_MS)
    one.node.tick(beat * HEARTBEAT_MS)


def proposed(said: list[Message]) -> list[bytes]:
    return [each.payload for each in said if isinstance(each, Propose)]

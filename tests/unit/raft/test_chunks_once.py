"""One answer asks for one chunk: a network that duplicates must not multiply what is on the way."""

from __future__ import annotations

from collections.abc import Sequence

from raft import GENESIS, BlockId, Message
from raft.messages import AppendAnswer, SnapshotAnswer, SnapshotChunk
from tests.unit.raft.test_node_among_others import PEER, One

CHUNK_BYTES = 10


def offsets(said: Sequence[Message]) -> list[int]:
    """Of the chunks that went out."""
    return [each.offset for each in said if isinstance(each, SnapshotChunk) and each.to == PEER]


def sending() -> tuple[One, BlockId]:
    """A leader whose first chunk of five is on its way to a follower that has nothing."""
    one = One(snapshot_chunk_bytes=CHUNK_BYTES, tail_blocks_max=0)
    first = one.elect()
    one.acknowledge(first)
    one.node.compact(bytes(5 * CHUNK_BYTES))
    one.work()
    said = one.hear(
        AppendAnswer, PEER, term=one.term, accepted=False, last=GENESIS, hint=GENESIS, round=0
    )
    assert offsets(said) == [0]
    return one, first


def answered(one: One, last: BlockId, next_offset: int, round_: int) -> list[int]:
    said = one.hear(
        SnapshotAnswer,
        PEER,
        term=one.term,
        last=last,
        next_offset=next_offset,
        done=False,
        round=round_,
    )
    return offsets(said)


def test_answer_that_arrives_again_asks_for_nothing() -> None:
    """Simulation seed 100579: 90,000 chunks of a snapshot of a few."""
    one, last = sending()

    assert answered(one, last, 10, 0) == [10]
    assert answered(one, last, 10, 0) == []
    assert answered(one, last, 20, 0) == [20]
    assert answered(one, last, 10, 0) == []


def test_follower_that_lost_what_it_had_begins_anew_with_the_next_heartbeat() -> None:
    one, last = sending()
    assert answered(one, last, 10, 0) == [10]

    sent = [each for each in one.at(one.now_ms + 100) if isinstance(each, SnapshotChunk)]
    rounds = {each.round for each in sent}

    assert offsets(sent) == [10]
    assert answered(one, last, 0, max(rounds)) == [0]

"""A leader's view of a follower: what may be sent next, and which answers count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.errors import InvariantBroken
from raft.ids import BlockId, Height, Term
from raft.members import Members
from raft.progress import TRANSITIONS, Flow, FlowEvent, Progress, SnapshotTransfer
from raft.state import Snapshot, snapshot_checksum

SNAPSHOT = Snapshot(
    last=BlockId(Term(1), Height(5)), cluster_id="c", members=Members(voters=frozenset()),
    data=b"0123456789",
)  # fmt: skip
INFLIGHT_MAX = 3
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 3)),
        st.tuples(st.just("ack"), st.integers(0, 30)),
        st.tuples(st.just("refuse"), st.integers(0, 30)),
        st.tuples(st.just("snapshot"), st.just(0)),
    )
)


@given(EVENTS)
def test_whatever_a_follower_answers_the_next_block_is_after_what_it_has(events) -> None:
    progress = Progress(Height(10), 0)

    for what, number in events:
        if what == "send" and progress.may_send_blocks(INFLIGHT_MAX):
            progress.sent(Height(progress.next - 1 + number), Height(0))
        elif what == "ack":
            progress.acknowledge(Height(number))
        elif what == "refuse":
            progress.probe_from(Height(number))
        elif what == "snapshot":
            progress.send_snapshot(SNAPSHOT)

        match = -1 if progress.match is None else progress.match
        assert progress.next > match
        assert len(progress.inflight) <= INFLIGHT_MAX
        assert all(last > match for last in progress.inflight)
        assert (progress.transfer is None) is (progress.flow is not Flow.SNAPSHOT)


def test_what_a_follower_acknowledged_is_never_taken_back_by_a_late_answer() -> None:
    progress = Progress(Height(10), 0)
    progress.acknowledge(Height(7))

    progress.acknowledge(Height(3))
    progress.probe_from(Height(2))

    assert (progress.match, progress.next) == (7, 8)


def test_one_probe_is_out_at_a_time() -> None:
    progress = Progress(Height(10), 0)

    progress.sent(Height(12), Height(0))

    assert not progress.may_send_blocks(INFLIGHT_MAX)
    assert (progress.next, list(progress.inflight)) == (10, [])


def test_the_window_closes_when_full_and_opens_with_an_answer() -> None:
    progress = Progress(Height(10), 0)
    progress.acknowledge(Height(9))
    for last in (10, 12, 13):
        progress.sent(Height(last), Height(0))

    assert not progress.may_send_blocks(INFLIGHT_MAX)
    progress.acknowledge(Height(12))
    assert progress.may_send_blocks(INFLIGHT_MAX)
    assert list(progress.inflight) == [13]


def test_a_heartbeat_below_the_next_block_takes_no_place_in_the_window() -> None:
    progress = Progress(Height(10), 0)
    progress.acknowledge(Height(9))

    progress.sent(Height(9), Height(4))

    assert (list(progress.inflight), progress.next, progress.commit_sent) == ([], 10, 4)


@pytest.mark.parametrize("pair", [(flow, event) for flow in Flow for event in FlowEvent])
def test_an_event_that_the_table_lacks_breaks_an_invariant(pair) -> None:
    progress = Progress(Height(1), 0)
    progress.flow = pair[0]

    if pair in TRANSITIONS:
        progress.on(pair[1])
        assert progress.flow is TRANSITIONS[pair]
    else:
        with pytest.raises(InvariantBroken, match="MET cannot happen to REPLICATE"):
            progress.on(pair[1])


@pytest.mark.parametrize(
    ("offset", "round_", "is_news"),
    [(8, 0, True), (4, 9, False), (0, 6, True), (0, 5, False), (3, 4, False)],
)
def test_an_answer_asks_for_a_chunk_once_and_goes_back_only_after_a_loss(
    offset, round_, is_news
) -> None:
    transfer = SnapshotTransfer(SNAPSHOT)
    transfer.move_to(4, 5)

    assert transfer.is_news(offset, round_) is is_news
    assert transfer.checksum == snapshot_checksum(SNAPSHOT)

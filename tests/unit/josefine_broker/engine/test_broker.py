"""The engine alone, with the smallest host: its order of work, what waits for the disk, and whose
it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.messages import Discovered, Said
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from josefine_broker.engine.metadata_quorum.ready_work import ROOM_CHECK_MS
from raft import Message, NodeId
from raft.messages import VoteAnswer, VoteRequest
from tests.unit.josefine_broker.engine.members import ELECTION_MS, Group, Member
from tests.unit.josefine_broker.engine.scenes import alone, three, topic

# -- one order of work


def test_one_round_goes_from_raft_over_the_view_to_enrolment_controller_and_readers() -> None:
    """And then to the questions and the handing over: whoever comes later sees what came before."""
    member = Member(Group(), 1, voters=(1,))
    member.enrol()
    broker, order = member.broker, list[str]()
    steps: list[tuple[object, str]] = [
        (broker.transfer, "step"),
        (broker, "_ask_around"),
        (broker.peers, "learn_from_image"),
        (broker.controlling, "step"),
        (broker.enrolment, "step"),
        (broker.controlling, "raft_moved"),
        (broker.raft_work, "take"),
    ]
    for owner, name in steps:
        _listen(owner, name, order)

    member.group.settle()

    rounds = " ".join(order).split("RaftWork.take ")
    assert (
        "Controlling.raft_moved Enrolment.step Controlling.step Peers.learn_from_image"
        " Broker._ask_around LeadershipTransfer.step "
    ) in rounds
    assert all(each.startswith("Controlling.raft_moved") for each in rounds if each.strip())


def _listen(owner: object, name: str, order: list[str]) -> None:
    """The real one works; its turn is noted."""
    own: Callable[..., Any] = getattr(owner, name)

    def noting(*args: Any, **more: Any) -> Any:
        kind = type(owner).__name__.replace("_Watched", "Broker")
        order.append(f"{kind}.{name}")
        return own(*args, **more)

    setattr(owner, name, noting)


def test_what_is_committed_is_applied_before_anybody_hears_of_it_and_before_the_next_sync() -> None:
    member = alone()
    member.holds_store = True
    proposal = member.submit(topic("first"))
    member.do()
    first = member.store
    assert first is not None
    member.finish_store()  # durable, and so committed: the next batch says so
    assert not proposal.settled
    member.submit(topic("second"))
    member.do()

    work = member.store
    assert work is not None
    assert work.sync_apart, "the first waits to be applied, and the second to be synced"
    seen = []
    proposal.on_settled = lambda: seen.append("first" in member.broker.ctx.image.topics)
    member.step(e.Appended())

    assert seen == [True]


# -- store, send


def test_nothing_is_sent_before_the_batch_it_depends_on_is_durable() -> None:
    group = Group()
    member = Member(group, 1, voters=(1, 2, 3))
    member.holds_store = True
    group.pass_ms(2 * ELECTION_MS)
    pre_votes = [each for ready in member.readys for each in ready.sends]
    granted = [granted_by_two(each.said) for each in pre_votes if each.to == 2]
    member.readys.clear()
    member.hears(Hello(node_id=2, to=1, cluster_id="", address=""), granted[-1])
    member.do()
    assert member.store is not None, "a term and a vote"
    assert member.store.batch.must_sync

    member.step(e.Appended())
    member.do()
    assert [each for ready in member.readys for each in ready.sends] == []
    member.step(e.Synced())
    member.do()

    said = [each.said for ready in member.readys for each in ready.sends]
    assert {type(each) for each in said} == {VoteRequest}
    assert len(said) == 2


def granted_by_two(said: Said) -> Message:
    """The yes to a question before a vote."""
    assert isinstance(said, VoteRequest)
    assert said.pre
    return VoteAnswer(
        sender=NodeId(2), to=said.sender, term=said.term, cluster_id="", pre=True, granted=True
    )


def test_batch_without_room_is_written_again_and_everything_else_goes_on() -> None:
    member = alone()
    member.is_full = True
    proposal = member.submit(topic("a"), timeout_ms=60_000)
    member.group.settle()

    with pytest.raises(KafkaError, match="the disk is full") as caught:
        member.submit(topic("b"))
    assert caught.value.code is ErrorCode.not_controller, "others take changes"
    assert member.broker.quorum.lacks_room == "the disk is full"
    first = next(each.store for each in reversed(member.readys) if each.store is not None)
    member.readys.clear()
    began_ms = member.group.now_ms
    member.group.until(lambda: any(each.store for each in member.readys), "the same again")

    assert member.group.now_ms == began_ms + ROOM_CHECK_MS
    assert [each.store for each in member.readys if each.store is not None] == [first]
    member.is_full = False
    member.group.pass_ms(ROOM_CHECK_MS)
    assert (proposal.settled, member.broker.quorum.lacks_room) == (True, "")


def test_snapshot_is_made_when_all_that_was_handed_out_is_applied() -> None:
    member = Member(Group(), 1, voters=(1,), snapshots=SnapshotLimits(blocks=5))
    member.group.settle()
    for number in range(12):
        member.submit(topic(f"t{number}"))
        member.group.settle()

    assert member.broker.quorum.snapshots == 2
    again = member.new_life()
    again.group.settle()
    assert again.broker.ctx.image.topics == member.broker.ctx.image.topics
    assert again.applied[0][1] is None, "the image begins with the snapshot"
    assert len(again.applied) <= 6


# -- whose it is


def test_cluster_is_noted_before_or_with_the_first_frame_that_names_it() -> None:
    """Three are born as one cluster; a fourth joins it."""
    group = three()
    Member(group, 4, seeds=(1, 2))
    group.serve(4)

    for member in group.members.values():
        assert_named_after_noted(member)
    assert len({each.disk.cluster_id for each in group.members.values()}) == 1


def assert_named_after_noted(member: Member) -> None:
    noted = ""
    for ready in member.readys:
        noted = noted or ready.belongs_to
        said = [each.said for each in (*ready.sends, *ready.replies)]
        named = {each.cluster_id for each in said if isinstance(each, Message | Discovered)}
        assert named <= {"", noted}, (member.id, named, noted)


def test_cluster_is_noted_also_where_its_first_block_waits_behind_the_next_batch() -> None:
    """The answer to the blocks that name it leaves when they are durable; to apply them takes
    another write by then."""
    group = Group()
    founder = Member(group, 1, voters=(1,))
    group.serve(1)
    joiner = Member(group, 2, seeds=(1,))
    joiner.enrol()
    group.until(lambda: joiner.store is None and joiner.broker.quorum.node.term, "a first word")
    joiner.holds_store = True
    group.until(lambda: joiner.broker.quorum.node.members.all, "the first blocks")
    founder.new_life()  # a new term, while the first blocks are written
    group.until(lambda: joiner.broker.quorum.node.term == 2, "a second term")

    joiner.finish_store()
    group.settle()

    assert joiner.store is not None, "what the first blocks said is not applied yet"
    assert joiner.broker.ctx.image.cluster_id == ""
    assert_named_after_noted(joiner)
    assert joiner.broker.hello(0).cluster_id == joiner.disk.cluster_id


def test_greeting_names_no_cluster_before_the_host_was_told_to_note_it() -> None:
    """Between a step and the next `ready` a host may dial, and be killed."""
    member = Member(Group(), 1, voters=(1,))
    member.holds_store = True
    while member.do() or member.store is not None:
        if member.store is not None:
            work, member.store = member.store, None
            member._file.persist(work.batch)
            member.step(e.Appended())
            assert member.broker.hello(0).cluster_id == member.disk.cluster_id
            member.step(e.Synced())
            assert member.broker.hello(0).cluster_id == member.disk.cluster_id

    assert member.broker.hello(0).cluster_id == member.disk.cluster_id == "named-by-1"


def test_who_joins_by_a_snapshot_learns_whose_it_is_and_notes_it() -> None:
    """Only the snapshot says so. A broker that never heard it greets as one that lost its data."""
    group = Group()
    founder = Member(group, 1, voters=(1,), snapshots=SnapshotLimits(blocks=5))
    group.serve(1)
    for number in range(10):
        founder.submit(topic(f"t{number}"))
        group.settle()
    founder = founder.new_life()  # without the blocks below the snapshot in memory
    group.serve(1)
    joiner = Member(group, 2, seeds=(1,))
    group.serve(2)

    assert joiner.applied[0][1] is None
    assert joiner.disk.cluster_id == founder.disk.cluster_id == "named-by-1"
    assert joiner.broker.ctx.image.cluster_id == "named-by-1"
    assert joiner.broker.peers.cluster_id == "named-by-1", "from now on it proposes by itself"
    assert joiner.broker.ctx.image.topics == founder.broker.ctx.image.topics

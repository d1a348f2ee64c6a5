"""When a broker is due: by its own word alone, and never all the time."""

from __future__ import annotations

from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.joining import PAUSE_MS
from josefine_broker.engine.metadata_quorum.ready_work import ROOM_CHECK_MS
from raft import Role
from tests.unit.josefine_broker.engine.members import ELECTION_MS, SESSION_MS, Group, Member
from tests.unit.josefine_broker.engine.scenes import topic, with_learner

# -- time


def test_leader_that_lost_its_majority_is_no_controller_in_the_same_moment() -> None:
    """Though Raft has nothing to send or to store just then."""
    group = Group()
    for each in (1, 2, 3):
        Member(group, each, voters=(1, 2, 3), heartbeat_ms=30)
    group.until(
        lambda: any(each.broker.controlling.leads for each in group.members.values()), "one"
    )
    leader = group.leader()
    group.cut = {leader.id}

    group.until(lambda: not leader.leads, "its fall", within_ms=3 * ELECTION_MS)

    assert leader.broker.quorum.node.status().role is Role.FOLLOWER
    cluster = leader.broker.ctx.cluster
    assert (cluster.controller_id, cluster.controller_term) == (-1, None)


def test_broker_that_waits_for_others_is_not_due_all_the_time() -> None:
    group = Group()
    for each in (1, 2):
        Member(group, each, voters=(1, 2, 3)).enrol()
    Member(group, 4, seeds=(3,)).enrol()
    group.cut = {1, 2, 4}

    group.pass_ms(2_000)  # which asserts it

    for member in group.members.values():
        assert member.broker.place is Place.UNKNOWN
        wake_ms = member.broker.wake_at_ms()
        assert wake_ms is not None
        assert wake_ms > group.now_ms


def test_who_waits_to_join_asks_again_after_each_pause_by_itself() -> None:
    group = Group()
    joiner = Member(group, 4, seeds=(1,))
    joiner.enrol()

    group.pass_ms(4 * PAUSE_MS)

    assert sum(len(each.asks) for each in joiner.readys) == 5
    told = [each for ready in joiner.readys for each in ready.notices]
    assert [(each.message, each.fields["reason"]) for each in told] == [
        ("not joined yet", "host1:9093: nobody")
    ]


def test_decision_that_raft_does_not_take_is_made_again_soon_and_not_all_the_time() -> None:
    """Of a full disk: where it leads alone, nobody takes over."""
    group, learner = with_learner()
    full = group.members[1]
    full.is_full = True
    full.submit(topic("a"), timeout_ms=60_000)
    group.forget(learner)

    group.pass_ms(2 * SESSION_MS)  # which asserts that it is not due all the time

    assert full.broker.quorum.lacks_room
    assert full.broker.ctx.image.is_live(2)
    full.is_full = False
    group.pass_ms(2 * ROOM_CHECK_MS)
    assert not full.broker.ctx.image.is_live(2)


def test_registration_that_was_given_up_is_made_again_without_another_event() -> None:
    """At its deadline the table of what waits says so, and nobody else."""
    group = Group()
    member = Member(group, 1, voters=(1,))
    group.settle()
    member.holds_store = True
    member.enrol()
    group.settle()
    stuck = member.store
    assert stuck is not None, "the disk stands still"

    group.pass_ms(1_000)

    assert member.broker.enrolment is not None
    assert member.wake_ms is not None
    assert len(member.broker.ctx.metadata.proposals) == 1
    assert member.broker.enrolment._proposal is not None, "proposed anew"


def test_to_tick_more_often_than_it_is_due_changes_nothing() -> None:
    """`wake_at_ms` never lies: driven by it alone, the same happens in the same millisecond."""
    ends = []
    for every_ms in (None, 1):
        group = Group()
        for each in (1, 2, 3):
            Member(group, each, voters=(1, 2, 3)).enrol()
        Member(group, 4, seeds=(1, 2)).enrol()
        trace = []
        for number in range(6):
            group.pass_ms(300, every_ms=every_ms)
            leaders = [each for each in group.members.values() if each.leads]
            if number == 1 and leaders:
                group.cut = {leaders[0].id}
            elif number == 3:
                group.cut = set()
            elif leaders:
                leaders[-1].submit(topic(f"t{number}"), timeout_ms=250)
            trace.append([_seen(each) for each in group.members.values()])
        group.pass_ms(2_000, every_ms=every_ms)
        trace.append([_seen(each) for each in group.members.values()])
        ends.append(trace)

    assert ends[0] == ends[1]
    assert {each[-1] for each in ends[0][-1]} == {Place.SERVING}


def _seen(member: Member) -> tuple[object, ...]:
    status, ctx = member.broker.quorum.status(), member.broker.ctx
    return (
        member.id,
        status.term,
        status.leader,
        status.head,
        status.commit,
        status.applied,
        ctx.image.digest() if hasattr(ctx.image, "digest") else ctx.image.to_bytes(),
        ctx.cluster.controller_id,
        member.broker.place,
    )

"""A learner that comes back without its data begins anew; a voter may not."""

from __future__ import annotations

import pytest

from raft import GENESIS, Height, Members, NodeId, Refused, Term
from raft.messages import Append, AppendAnswer, SnapshotAnswer
from tests.unit.raft.test_node_among_others import ME, One, only

LEARNER = NodeId(9)
HEARTBEAT_MS = 100


def leader_with_a_learner_that_has_everything() -> One:
    one = One(initial_voters=(ME,))
    one.at(0)
    one.work()
    members = Members(voters=frozenset({ME}), learners=frozenset({LEARNER}))
    one.node.change_members(members, 0, 1_000)
    one.work()
    head = one.node.status().head
    one.hear(AppendAnswer, LEARNER, accepted=True, last=head, hint=head, round=0)
    assert one.node.followers()[LEARNER].match == head.height
    return one


def test_learner_without_its_data_is_found_again_from_the_beginning() -> None:
    one = leader_with_a_learner_that_has_everything()

    one.node.forget_progress(LEARNER)
    probe = only(one.at(HEARTBEAT_MS), Append)
    root = one.node.status().root
    said = one.hear(
        AppendAnswer, LEARNER, accepted=False, last=probe.parent, hint=root, round=probe.round
    )

    appends = [each for each in said if isinstance(each, Append)]
    assert appends[0].parent == root
    assert [block.id.height for block in appends[0].blocks] == [
        Height(1 + each) for each in range(one.node.status().head.height)
    ]


@pytest.mark.parametrize("accepted", [True, False])
def test_late_answers_of_its_earlier_life_count_for_nothing(accepted: bool) -> None:
    """Or a leader would believe what is lost, and count it when the learner becomes a voter."""
    one = leader_with_a_learner_that_has_everything()
    before = only(one.at(HEARTBEAT_MS), Append)
    head = one.node.status().head

    one.node.forget_progress(LEARNER)
    said = one.hear(
        AppendAnswer, LEARNER, accepted=accepted, last=head, hint=GENESIS, round=before.round
    )
    said += one.hear(
        SnapshotAnswer, LEARNER, last=head, next_offset=0, done=True, round=before.round
    )

    assert said == []
    assert one.node.followers()[LEARNER].match is None


def test_without_that_what_it_acknowledged_is_never_sent_again() -> None:
    one = leader_with_a_learner_that_has_everything()
    head, root = one.node.status().head, one.node.status().root

    said = one.hear(AppendAnswer, LEARNER, accepted=False, last=head, hint=root, round=0)

    assert all(each.parent == head for each in said if isinstance(each, Append))


def test_progress_of_a_voter_or_by_a_follower_is_not_forgotten() -> None:
    one = leader_with_a_learner_that_has_everything()
    with pytest.raises(Refused, match="node 1 is not a learner"):
        one.node.forget_progress(ME)
    follower = One()
    root = follower.node.status().root
    follower.hear(Append, parent=root, blocks=(), commit=root, round=0)
    with pytest.raises(Refused, match="only the leader"):
        follower.node.forget_progress(LEARNER)
    assert follower.node.status().term == Term(1)

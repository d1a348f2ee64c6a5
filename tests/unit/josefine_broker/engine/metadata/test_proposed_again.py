"""When a broker proposes a change again: only while nobody knows what became of it."""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

from josefine_broker.engine.metadata.changes import Change, DeleteTopic, UnregisterBroker
from josefine_broker.engine.metadata.proposals import Proposal
from raft.messages import Append, Propose, ProposeAnswer
from tests.unit.josefine_broker.engine.members import Group, Member
from tests.unit.josefine_broker.engine.scenes import another_process, others, three, topic

TOPIC_ID = uuid5(NAMESPACE_OID, "t")
LONGER_THAN_THE_PAUSE_MS = 500


def three_whose_leader_fails(*, lost: tuple[type, ...], change: Change) -> tuple[Group, Proposal]:
    """The change of a follower whose leader fails after these messages of the cluster are lost."""
    group = three()
    leader, proposer = group.leader(), others(group)[0]
    group.loses = lost
    proposal = proposer.submit(change)
    group.settle()
    group.pass_ms(10)
    group.loses = ()
    group.cut.add(leader.id)
    group.forget(leader)
    return group, proposal


def new_leader(group: Group) -> Member:
    def has_applied(member: Member) -> bool:
        status = member.broker.quorum.status()
        return member.leads and status.applied.term == status.term

    group.until(lambda: any(map(has_applied, group.members.values())), "another leader")
    return next(filter(has_applied, group.members.values()))


def proposed_again(group: Group) -> int:
    return sum(each.broker.quorum.proposed_again for each in group.members.values())


def test_change_in_effect_is_not_proposed_again_although_no_answer_came_from_its_leader() -> None:
    group, proposal = three_whose_leader_fails(lost=(ProposeAnswer,), change=topic("t"))
    assert (proposal.settled, proposal.error) == (True, None)

    leader = new_leader(group)
    deletion = leader.submit(DeleteTopic(topic_id=TOPIC_ID))
    group.until(lambda: deletion.settled, "the topic is deleted")
    group.pass_ms(LONGER_THAN_THE_PAUSE_MS)

    assert deletion.error is None
    assert not any(each.broker.ctx.image.topics for each in group.members.values())
    assert proposed_again(group) == 0


def test_registration_in_effect_is_not_proposed_again_for_its_broker_may_be_gone_by_then() -> None:
    group, proposal = three_whose_leader_fails(lost=(ProposeAnswer,), change=another_process(7))
    assert (proposal.settled, proposal.error) == (True, None)

    leader = new_leader(group)
    removal = leader.submit(UnregisterBroker(broker_id=7))
    group.until(lambda: removal.settled, "broker 7 is removed")
    group.pass_ms(LONGER_THAN_THE_PAUSE_MS)

    assert removal.error is None
    assert not any(7 in each.broker.ctx.image.brokers for each in group.members.values())
    assert proposed_again(group) == 0


def test_change_that_its_leader_took_with_it_is_proposed_again() -> None:
    group, proposal = three_whose_leader_fails(lost=(Append, Propose), change=topic("t"))
    assert not proposal.settled

    new_leader(group)
    group.until(lambda: proposal.settled, "the topic is created")

    assert proposal.error is None
    assert proposed_again(group) == 1

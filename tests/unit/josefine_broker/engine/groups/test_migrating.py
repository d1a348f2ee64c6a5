"""When a classic group may become one of the consumer protocol, and what its members have then."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.consumer_protocol import encode_assignment
from josefine_broker.engine.groups.consumer.values import Beat
from josefine_broker.engine.groups.group import Group, GroupCounts, Written
from josefine_broker.engine.groups.migrating import upgraded
from josefine_broker.engine.groups.records import StoredGroup
from josefine_broker.engine.groups.states import MemberState
from josefine_broker.engine.groups.values import GroupRecord, Member, Protocol
from josefine_broker.engine.groups.views import restored
from tests.unit.josefine_broker.engine.groups.consumer.lab import Lab
from tests.unit.josefine_broker.engine.groups.consumer.mixed_lab import subscription

LAB = Lab(t=4)
AGAIN = ErrorCode.coordinator_load_in_progress


def classic(owned: tuple[int, ...] = (), *, given: tuple[int, ...] = (0, 1)) -> Group:
    """Of one member that joined with `owned`, and was given so much of `t`."""
    said = subscription(("t",), [("t", index) for index in owned])
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocols=(Protocol("range", said),),
        assignment=encode_assignment(TopicPartition("t", index) for index in given),
        state=MemberState.ASSIGNED,
    )
    record = GroupRecord(
        generation=7,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="m",
        members=(member,),
    )
    return restored("g", count(), GroupCounts(), StoredGroup(record, -1))


def refused(group: Group) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        upgraded(group, LAB.topics)
    return caught.value.code


def test_its_generation_is_the_epoch_and_its_assignment_the_target() -> None:
    became = upgraded(classic(), LAB.topics)

    member = became.members["m"]
    assert (became.epoch, became.target_epoch, member.epoch) == (7, 7, 7)
    assert member.assigned == became.target_of("m") == LAB.parts("t", 0, 1)
    assert became.state.value == "Stable"


def test_what_a_cooperative_member_was_not_given_again_it_may_still_have() -> None:
    became = upgraded(classic((1, 2, 3)), LAB.topics)

    member = became.members["m"]
    assert (member.assigned, member.revoking) == (LAB.parts("t", 0, 1), LAB.parts("t", 2, 3))
    assert became.state.value == "Reconciling"


def test_whoever_joins_it_what_nobody_was_given_is_given_now() -> None:
    """Also when it is one whose former process is still named in the classic group."""
    lab = Lab(t=4)
    joining = Beat(
        member_id="m",
        epoch=0,
        rebalance_timeout_ms=20_000,
        topics=frozenset({"t"}),
        owned=frozenset(),
    )

    _, answer = lab.groups.beat("g", joining, lab.topics, upgraded(classic(), lab.topics))

    assert (answer.epoch, answer.parts) == (8, lab.every("t"))


def test_topics_that_are_gone_are_nobodys() -> None:
    gone = Lab(u=1)

    assert not upgraded(classic((1,)), gone.topics).members["m"].assigned


def test_all_its_members_have_heard_what_they_were_given() -> None:
    group = classic((1, 2))
    group.put(replace(group.members["m"], state=MemberState.JOINED))

    assert refused(group) is AGAIN


def test_nobody_is_about_to_join_or_take_a_place() -> None:
    about_to_join, about_to_be_stored = classic(), classic()
    about_to_join.reserved["n"] = 5
    about_to_be_stored.writes[1] = Written(7)

    assert refused(about_to_join) is AGAIN
    assert refused(about_to_be_stored) is AGAIN

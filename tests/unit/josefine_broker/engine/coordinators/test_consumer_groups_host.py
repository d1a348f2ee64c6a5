"""Groups of the consumer protocol through the whole broker: members, commits, admins, the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.coordinators.groups_host import expire_offsets
from josefine_broker.engine.coordinators.loading_groups import shorten_offsets_log
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.groups.consumer.records import changes
from josefine_broker.engine.groups.consumer.values import WAITING_MS, BeatAnswer
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.metadata.features import JOSEFINE_VERSION
from josefine_broker.engine.metadata.image import GROUP_VERSION, OFFSETS_TOPIC, FeatureRange
from josefine_broker.wire import apis
from josefine_broker.wire.entities import list_groups
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api import group_clients as classic
from tests.unit.josefine_broker.api.consumer_clients import (
    beat,
    commit,
    described,
    fetched,
    owned,
    parts,
    send_beat,
    send_commit,
)
from tests.unit.josefine_broker.api.group_clients import (
    GROUP,
    At,
    committed,
    delete,
    delete_offset,
    find_coordinator,
    group_world,
    listed,
    said,
)
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.test_group_loading import lead_anew
from tests.unit.josefine_broker.api.world import World

NONE = ErrorCode.none
SESSION_MS = 9_000


world = fixture_of(lambda: group_world(consumer_session_timeout_ms=SESSION_MS))


def test_a_member_joins_and_is_told_what_it_has_and_how_often_to_be_heard(world: World) -> None:
    answer = beat(world)

    assert (answer.error_code, answer.member_id, answer.member_epoch) == (NONE, "m", 1)
    assert parts(answer) == [0, 1, 2]
    assert answer.heartbeat_interval_ms == GroupSettings().consumer_heartbeat_interval_ms
    assert parts(beat(world, "m", 1)) is None, "it is as it was"


def test_member_that_leaves_is_not_to_be_heard_again(world: World) -> None:
    """As in Kafka. Found by tests/oracle."""
    beat(world)

    assert beat(world, "m", -1).heartbeat_interval_ms == 0


def test_member_without_an_expression_is_described_with_an_empty_one(world: World) -> None:
    """As in Kafka. Found by tests/oracle."""
    beat(world)

    (member,) = described(world).members
    assert member.subscribed_topic_regex == ""


def test_who_waits_for_what_another_has_is_to_be_heard_sooner(world: World) -> None:
    normal_ms = GroupSettings().consumer_heartbeat_interval_ms
    beat(world, "a")

    assert beat(world, "b").heartbeat_interval_ms == WAITING_MS
    told = beat(world, "a", 1)
    assert told.heartbeat_interval_ms == normal_ms, "it has to give up, and says when it did"
    assert beat(world, "b", 2).heartbeat_interval_ms == WAITING_MS
    assert beat(world, "a", 1, owned=owned(told)).heartbeat_interval_ms == normal_ms

    got = beat(world, "b", 2)
    assert parts(got)
    assert got.heartbeat_interval_ms == normal_ms


def test_many_that_wait_are_heard_fifty_times_a_second_and_no_later_than_is_configured() -> None:
    def soon_ms(members: int, configured_ms: int = 5_000) -> int:
        return BeatAnswer(waits_among=members).interval_ms(configured_ms)

    assert [soon_ms(each) for each in (2, 100, 150, 1_000)] == [2_000, 2_000, 3_000, 5_000]
    assert soon_ms(2, 300) == 300


def test_version_0_gives_an_id_to_who_has_none(world: World) -> None:
    given = beat(world, "", version=0).member_id

    assert given
    assert beat(world, given, 1).error_code is NONE
    assert beat(world, "").error_code is ErrorCode.invalid_request


def test_two_members_share_step_by_step(world: World) -> None:
    beat(world, "a")
    assert parts(beat(world, "b")) == []

    told = beat(world, "a", 1)
    assert parts(beat(world, "b", 2)) is None
    assert beat(world, "a", 1, owned=owned(told)).member_epoch == 2
    got = beat(world, "b", 2)

    assert sorted([*(parts(told) or ()), *(parts(got) or ())]) == [0, 1, 2]
    group = described(world)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "uniform"
    assert [each.member_id for each in group.members] == ["a", "b"]
    assert all(each.assignment == each.target_assignment for each in group.members)
    assert group.members[0].assignment.topic_partitions[0].topic_name == "orders"


def test_a_member_that_is_not_heard_is_lost_without_anybodys_request(world: World) -> None:
    beat(world)

    world.advance(SESSION_MS)

    assert described(world).group_state == "Empty"
    assert beat(world, "m", 1).error_code is ErrorCode.unknown_member_id
    assert world.ctx.clients.groups.coordinator.counts.members_lost == 1


def test_a_refusal_says_why(world: World) -> None:
    answer = beat(world, "m", rebalance_timeout_ms=-1)

    assert answer.error_code is ErrorCode.invalid_request
    assert "RebalanceTimeoutMs" in answer.error_message
    assert beat(world, "m", 7).error_code is ErrorCode.unknown_member_id
    assert beat(world, "m", group="").error_code is ErrorCode.invalid_group_id


def test_it_is_served_where_every_broker_knows_it() -> None:
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, 4),))
    find_coordinator(world)

    answer = beat(world)

    assert answer.error_code is ErrorCode.unsupported_version
    assert GROUP_VERSION in answer.error_message


# Commits.


def test_a_commit_counts_in_its_members_epoch_alone(world: World) -> None:
    beat(world)

    assert commit(world, 5, "m", 1) is NONE
    assert commit(world, 6, "m", 0) is ErrorCode.stale_member_epoch
    assert commit(world, 6, "m", 2) is ErrorCode.stale_member_epoch
    assert commit(world, 6, "n", 1) is ErrorCode.unknown_member_id
    assert commit(world, 6, "", -1) is ErrorCode.unknown_member_id
    assert commit(world, 6, "m", 1, version=8) is ErrorCode.unsupported_version
    assert commit(world, 6, "n", 1, version=8) is ErrorCode.unknown_member_id
    assert committed(world) == {"orders": 5}


def test_offsets_are_told_to_a_member_in_its_epoch_and_to_who_claims_none(world: World) -> None:
    beat(world)

    assert fetched(world, "m", 1) is NONE
    assert fetched(world, "m", 2) is ErrorCode.stale_member_epoch
    assert fetched(world, "n", 1) is ErrorCode.unknown_member_id
    assert fetched(world, None, -1) is NONE


# Admins.


def test_lists_tell_types_and_filter_by_them(world: World) -> None:
    beat(world)
    classic.stable(world, group="other")

    request = list_groups.ListGroupsRequest()
    types = {
        each.group_id: (each.group_type, each.protocol_type)
        for each in world.ask(apis.LIST_GROUPS, request).groups
    }
    assert types == {GROUP: ("consumer", "consumer"), "other": ("classic", "consumer")}
    assert listed(world, types_filter=("Consumer",)) == [(GROUP, "Stable")]
    assert listed(world, types_filter=("classic",)) == [("other", "Stable")]
    assert listed(world, states_filter=("empty",)) == []


def test_each_kind_of_description_knows_its_own_groups(world: World) -> None:
    beat(world)
    classic.stable(world, group="other")

    assert classic.described(world).error_code is ErrorCode.group_id_not_found
    assert classic.described(world, version=5).group_state == "Dead"
    assert described(world, "other").error_code is ErrorCode.group_id_not_found
    assert described(world, "none").error_code is ErrorCode.group_id_not_found


def test_a_group_is_deleted_when_nobody_is_in_it(world: World) -> None:
    beat(world)
    commit(world, 5, "m", 1)
    assert delete(world, GROUP) == {GROUP: ErrorCode.non_empty_group}
    beat(world, "m", -1)

    assert delete(world, GROUP) == {GROUP: NONE}

    assert listed(world) == []
    lead_anew(world)
    assert listed(world) == []
    assert beat(world).member_epoch == 1


def test_offsets_of_topics_that_are_read_are_not_deleted(world: World) -> None:
    world.create("other")
    beat(world, subscribed_topic_regex="ord.*", subscribed_topic_names=())

    code, by_topic = delete_offset(world, "orders", "other")

    assert code is NONE
    assert by_topic == {"orders": ErrorCode.group_subscribed_to_topic, "other": NONE}


def test_an_expression_that_names_an_internal_topic_reads_it(world: World) -> None:
    """As in Kafka, whose broker hides none."""
    answer = beat(world, subscribed_topic_regex="__consumer_.*", subscribed_topic_names=())

    (assigned,) = answer.assignment.topic_partitions
    assert world.ctx.image.topic_names[assigned.topic_id] == OFFSETS_TOPIC


def test_old_offsets_go_but_for_what_is_read_and_the_group_with_the_last(world: World) -> None:
    beat(world)
    commit(world, 5, "m", 1)
    week_ms = GroupSettings().offsets_retention_ms
    world.clock.elapsed_ms += week_ms

    for _ in expire_offsets(world.ctx):
        pass
    assert committed(world) == {"orders": 5}
    world.advance(1)  # its session is over as well

    for _ in expire_offsets(world.ctx):
        pass
    assert committed(world) == {}
    assert listed(world) == []


# The two protocols.


def test_a_group_with_members_of_one_protocol_takes_none_of_the_other(world: World) -> None:
    beat(world)
    classic.stable(world, group="other")

    refused = said(classic.join(world))
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    answer = beat(world, group="other")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    assert "classic" in answer.error_message


def test_an_empty_classic_group_becomes_a_consumer_group_with_its_offsets(world: World) -> None:
    joined = classic.stable(world)
    classic.commit(world, 7, joined)
    classic.leave(world, (joined.member_id, None))

    assert beat(world).member_epoch == 3, "its epochs go on where the generations ended"

    lead_anew(world)
    assert listed(world, types_filter=("consumer",)) == [(GROUP, "Stable")]
    assert listed(world, types_filter=("classic",)) == []
    assert committed(world) == {"orders": 7}


def test_an_empty_consumer_group_becomes_a_classic_group_with_its_offsets(world: World) -> None:
    beat(world)
    commit(world, 7, "m", 1)
    beat(world, "m", -1)

    classic.stable(world)

    lead_anew(world)
    assert listed(world, types_filter=("classic",)) == [(GROUP, "Stable")]
    assert listed(world, types_filter=("consumer",)) == []
    assert committed(world) == {"orders": 7}


# The log.


def test_a_broker_that_starts_again_goes_on_with_its_groups(world: World) -> None:
    first = beat(world, "a")
    beat(world, "b")
    before = world.ctx.clients.groups.coordinator.consumers.get(GROUP)

    again = world.restart()

    assert again.ctx.clients.groups.coordinator.consumers.get(GROUP) == before
    assert parts(beat(again, "b", 2)) is None, "what another has is not given out"
    assert beat(again, "a", 1, owned=owned(first)).member_epoch == 1


def test_a_shortened_log_keeps_the_groups(world: World) -> None:
    for epoch in range(1, 5):
        beat(world)
        beat(world, "m", -1)
        assert epoch
    beat(world)
    tp, hosted = coordinator_of(world.ctx, GROUP)
    before = world.ctx.clients.groups.coordinator.consumers.get(GROUP)

    shorten_offsets_log(world.ctx, tp, hosted, 0)
    assert hosted.log.log_start_offset > 0
    lead_anew(world)

    assert world.ctx.clients.groups.coordinator.consumers.get(GROUP) == before
    assert before is not None
    assert hosted.log.log_end_offset - hosted.log.log_start_offset == len(changes(None, before))


def test_what_the_disk_does_not_take_has_not_happened(world: World) -> None:
    beat(world, "a")
    world.files.space_bytes = 0

    refused = beat(world, "b")

    assert refused.error_code is ErrorCode.coordinator_not_available
    assert [each.member_id for each in described(world).members] == ["a"]
    world.files.space_bytes = None
    assert beat(world, "b").error_code is NONE


@pytest.fixture
def group_replicas() -> Replicas:
    """Three brokers that know the protocol; broker 1 coordinates."""
    cluster = Replicas(3)
    cluster.create()
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.run()
    for ctx in cluster.ctx.values():
        ctx.image = replace(ctx.image, features={**ctx.image.features, GROUP_VERSION: 1})
    return cluster


def test_an_answer_waits_until_every_replica_knows_what_it_says(group_replicas: Replicas) -> None:
    waiting = send_beat(At(group_replicas, 1))
    assert not waiting.done
    again = send_beat(At(group_replicas, 1), "m", 1)
    assert not again.done, "nor is anything said that only followed from it"

    group_replicas.run()

    assert said(waiting).member_epoch == 1
    assert said(again).error_code is NONE


def test_the_next_coordinator_goes_on_where_members_were_told(group_replicas: Replicas) -> None:
    first = send_beat(At(group_replicas, 1))
    group_replicas.run()
    told = said(first)
    wrote = send_commit(At(group_replicas, 1), 3, "m", 1)
    group_replicas.run()
    assert said(wrote).topics[0].partitions[0].error_code is NONE

    group_replicas.kill(1)
    group_replicas.run()
    for ctx in group_replicas.ctx.values():
        ctx.image = replace(ctx.image, features={**ctx.image.features, GROUP_VERSION: 1})

    new = At(group_replicas, 2)
    going_on = send_beat(new, "m", 1, owned=owned(told))
    group_replicas.run()
    assert said(going_on).member_epoch == 1
    assert parts(said(going_on)) is None
    assert committed(new) == {"orders": 3}


def test_who_waits_when_the_leadership_goes_looks_for_the_new_coordinator(
    group_replicas: Replicas,
) -> None:
    waiting = send_beat(At(group_replicas, 1))
    group_replicas.fence(1)

    assert said(waiting).error_code is ErrorCode.not_coordinator

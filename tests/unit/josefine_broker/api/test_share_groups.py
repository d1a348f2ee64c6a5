"""Share groups at a broker in memory: members, sessions, records, and what is stored (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from josefine_broker.api import alter_share_group_offsets as handler
from josefine_broker.api.share_fetch import WaitingShareFetch
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings, Context, OffsetsSettings
from josefine_broker.engine.coordinators import loading_share_states
from josefine_broker.engine.coordinators.share_state_requests import ASK_TIMEOUT_MS, Heard
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share.config import ShareConfig, StartAt
from josefine_broker.engine.groups.share.sessions import Part
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire import apis
from josefine_broker.wire.entities import alter_share_group_offsets as e
from josefine_broker.wire.entities import (
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    list_groups,
    read_share_group_state,
    read_share_group_state_summary,
    share_group_describe,
    write_share_group_state,
)
from tests.unit.josefine_broker.api.share_members import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    Sharer,
    ack_codes,
    find,
    got,
    values_of,
)
from tests.unit.josefine_broker.api.test_isolation import Producers
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

LOCK_MS = 30_000


def sharing(*values: bytes, partitions: int = 1) -> tuple[World, Sharer]:
    """A member that has joined and opened its session, and records that came after that."""
    world = world_of(partitions=partitions)
    member = Sharer(world, "a").join()
    assert got(member.fetch()) == []
    for value in values:
        world.produce(batch_of(value))
    return world, member


def listed(world: World) -> list[tuple[str, str, str]]:
    answer = world.ask(apis.LIST_GROUPS, list_groups.ListGroupsRequest())
    return [(each.group_id, each.group_type, each.group_state) for each in answer.groups]


def described(world: World, group_id: str = GROUP) -> Any:
    request = share_group_describe.ShareGroupDescribeRequest(
        group_ids=(group_id,), include_authorized_operations=False
    )
    return world.ask(apis.SHARE_GROUP_DESCRIBE, request).groups[0]


def offsets(world: World, group_id: str = GROUP) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) → (start offset, lag)."""
    d = describe_share_group_offsets
    group = d.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = d.DescribeShareGroupOffsetsRequest(groups=(group,))
    (found,) = world.ask(apis.DESCRIBE_SHARE_GROUP_OFFSETS, request).groups
    assert found.error_code is ErrorCode.none
    return {
        (topic.topic_name, part.partition_index): (part.start_offset, part.lag)
        for topic in found.topics
        for part in topic.partitions
    }


def alter(world: World, start: int, topic: str = "orders", group_id: str = GROUP) -> Any:
    part = e.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
    topics = (e.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=(part,)),)
    request = e.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
    answer = world.ask(apis.ALTER_SHARE_GROUP_OFFSETS, request)
    if answer.error_code is not ErrorCode.none:
        return answer.error_code
    return answer.responses[0].partitions[0].error_code


# Members.


def test_members_share_a_partition_and_are_described() -> None:
    world, a = sharing()
    b = Sharer(world, "b").join()
    a.beat()
    assert a.parts == b.parts != {}
    group = described(world)
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert sorted(each.member_id for each in group.members) == ["a", "b"]
    assert (GROUP, "share", "Stable") in listed(world)
    for each in (a, b):
        assert each.beat(-1).member_epoch == -1
    assert (GROUP, "share", "Empty") in listed(world)


def test_partitions_are_spread_over_members() -> None:
    world, a = sharing(partitions=4)
    b = Sharer(world, "b").join()
    a.beat()
    assert len(a.parts) == len(b.parts) == 2
    assert not a.parts.keys() & b.parts.keys()


def test_member_that_is_silent_is_lost() -> None:
    world, a = sharing()
    world.advance(46_000)
    assert described(world).group_state == "Empty"
    assert a.beat().error_code is ErrorCode.unknown_member_id


def test_heartbeats_are_checked() -> None:
    world, a = sharing()
    assert a.beat(a.epoch + 1).error_code is ErrorCode.fenced_member_epoch
    assert Sharer(world, "c").beat(3).error_code is ErrorCode.unknown_member_id
    assert Sharer(world, "").beat(0).error_code is ErrorCode.invalid_request
    assert Sharer(world, "c").beat(-2).error_code is ErrorCode.invalid_request


def test_group_id_belongs_to_one_protocol() -> None:
    world, _ = sharing()
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    answer = world.ask(apis.CONSUMER_GROUP_HEARTBEAT, request)
    assert answer.error_code is ErrorCode.group_id_not_found
    other = world.ask(
        apis.CONSUMER_GROUP_HEARTBEAT,
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="others",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        ),
    )
    assert other.error_code is ErrorCode.none
    taken = Sharer(world, "a", group_id="others").beat(0)
    assert taken.error_code is ErrorCode.group_id_not_found
    assert described(world, "others").error_code is ErrorCode.group_id_not_found


# Records.


def test_records_go_to_one_member_each() -> None:
    world, a = sharing(b"v0", b"v1")
    b = Sharer(world, "b").join()
    first = a.fetch(max_records=1)
    assert (got(first), values_of(first)) == ([(0, 0, 1)], [b"v0"])
    second = b.fetch()
    assert (got(second), values_of(second)) == ([(1, 1, 1)], [b"v1"])
    assert first.acquisition_lock_timeout_ms == LOCK_MS


def test_answers_count_with_the_next_fetch_or_alone() -> None:
    world, a = sharing(b"v0", b"v1", b"v2")
    assert got(a.fetch()) == [(0, 2, 1)]
    assert ack_codes(a.fetch((0, 0, ACCEPT))) == [ErrorCode.none]
    assert a.acknowledge((1, 1, REJECT)) is ErrorCode.none
    assert a.acknowledge((2, 2, RELEASE)) is ErrorCode.none
    assert offsets(world) == {("orders", 0): (2, 1)}
    assert got(a.fetch()) == [(2, 2, 2)]
    assert a.acknowledge((1, 2, ACCEPT)) is ErrorCode.none
    assert offsets(world) == {("orders", 0): (3, 0)}


def test_answer_for_what_is_not_acquired_is_refused() -> None:
    world, a = sharing(b"v0", b"v1")
    b = Sharer(world, "b").join()
    a.fetch(max_records=1)
    b.fetch()
    assert a.acknowledge((0, 1, ACCEPT)) is ErrorCode.invalid_record_state
    assert a.acknowledge((1, 1, ACCEPT)) is ErrorCode.invalid_record_state
    assert a.acknowledge((0, 0, 9)) is ErrorCode.invalid_request
    assert a.acknowledge((0, 0, RENEW)) is ErrorCode.invalid_request
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none


def test_lock_that_ends_wakes_a_member_that_waits() -> None:
    world, a = sharing(b"v0")
    b = Sharer(world, "b").join()
    a.fetch()
    waiting = b.fetch(max_wait_ms=LOCK_MS + 10_000)
    assert isinstance(waiting, Parked)
    world.advance(LOCK_MS)
    assert got(waiting.response) == [(0, 0, 2)]
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.invalid_record_state


def test_what_one_group_does_with_its_records_is_of_no_concern_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand groups may wait for one partition: each event of one of them looked at them all,
    so as many groups that joined held up the broker for minutes."""
    world, a = sharing(b"v0")
    a.fetch()
    idle = [Sharer(world, "i", group_id=f"group-{number}").join() for number in range(3)]
    for each in idle:
        each.beat()
        assert got(each.fetch()) == []
    looked: list[str] = []
    look_at = WaitingShareFetch.look_at

    def look(self: WaitingShareFetch, parts: Sequence[Part]) -> None:
        looked.append(self._request.group_id or "")
        look_at(self, parts)

    b = Sharer(world, "b").join()
    waits = [each.fetch(max_wait_ms=60_000) for each in (*idle, b)]
    assert all(isinstance(each, Parked) for each in waits)
    monkeypatch.setattr(WaitingShareFetch, "look_at", look)

    assert a.acknowledge((0, 0, RELEASE)) is ErrorCode.none

    assert set(looked) == {GROUP}
    assert got(waits[-1].response) == [(0, 0, 2)]
    world.produce(batch_of(b"v1"))
    assert all(each.done for each in waits)


def test_renewed_lock_is_not_over() -> None:
    world, a = sharing(b"v0")
    a.fetch()
    world.advance(LOCK_MS - 1)
    limits: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert ack_codes(a.fetch((0, 0, RENEW), is_renew_ack=True, **limits)) == [ErrorCode.none]
    world.advance(LOCK_MS - 1)
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none
    refused = a.fetch((0, 0, RENEW), is_renew_ack=True)
    assert refused.error_code is ErrorCode.invalid_request


def test_record_is_given_up_after_five_deliveries() -> None:
    world, a = sharing(b"v0")
    for count in range(1, 6):
        assert got(a.fetch()) == [(0, 0, count)]
        assert a.acknowledge((0, 0, RELEASE)) is ErrorCode.none
    assert got(a.fetch()) == []
    assert offsets(world) == {("orders", 0): (1, 0)}


def test_new_record_wakes_a_member_that_waits() -> None:
    world, a = sharing()
    waiting = a.fetch(max_wait_ms=1_000)
    assert isinstance(waiting, Parked)
    world.produce(batch_of(b"v"))
    assert values_of(waiting.response) == [b"v"]


def test_fetch_without_records_ends_with_its_wait() -> None:
    world, a = sharing()
    waiting = a.fetch(max_wait_ms=1_000)
    world.advance(1_000)
    assert got(waiting.response) == []


def test_record_limit_splits_a_batch() -> None:
    world, a = sharing()
    world.produce(batch_of(b"v0", b"v1", b"v2"))
    assert got(a.fetch(max_records=2, share_acquire_mode=1)) == [(0, 1, 1)]
    assert got(a.fetch(max_records=2)) == [(2, 2, 1)]


def test_deleted_records_are_passed() -> None:
    world, a = sharing(b"v0", b"v1", b"v2")
    world.ctx.hosted.partitions["orders", 0].log.delete_before(2)
    assert got(a.fetch()) == [(2, 2, 1)]


def group_of(*, is_committed_only: bool) -> World:
    """A broker whose share groups start at the beginning."""
    share = ShareConfig(start_at=StartAt.EARLIEST, is_committed_only=is_committed_only)
    groups = GroupSettings(share=share)
    world = World(BrokerSettings(offsets=OffsetsSettings(groups=groups)))
    world.create()
    return world


def test_records_of_aborted_transactions_are_not_for_a_group_that_reads_committed() -> None:
    world, producers = group_of(is_committed_only=True), Producers()
    producers.write(world.ctx, 7, b"aborted")
    producers.write(world.ctx, 8, b"committed")
    a = Sharer(world, "a").join()
    assert got(a.fetch()) == []  # both are open
    producers.end(world.ctx, 7, is_commit=False)
    waiting = a.fetch(max_wait_ms=1_000)
    assert isinstance(waiting, Parked)
    producers.end(world.ctx, 8, is_commit=True)
    answer = waiting.response
    assert (got(answer), values_of(answer)) == ([(1, 1, 1)], [b"committed"])
    assert a.acknowledge((1, 1, ACCEPT)) is ErrorCode.none
    assert got(a.fetch()) == []
    assert offsets(world) == {("orders", 0): (4, 0)}


def test_marker_at_the_end_is_no_lag() -> None:
    world, producers = group_of(is_committed_only=True), Producers()
    producers.write(world.ctx, 7, b"v0")
    producers.end(world.ctx, 7, is_commit=True)
    a = Sharer(world, "a").join()
    assert got(a.fetch()) == [(0, 0, 1)]
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none
    producers.write(world.ctx, 8, b"v2")
    producers.end(world.ctx, 8, is_commit=False)
    assert got(a.fetch()) == []
    assert offsets(world) == {("orders", 0): (4, 0)}


def test_group_that_reads_uncommitted_gets_everything_but_markers() -> None:
    world, producers = group_of(is_committed_only=False), Producers()
    producers.write(world.ctx, 7, b"aborted")
    producers.end(world.ctx, 7, is_commit=False)
    producers.write(world.ctx, 8, b"open")
    answer = Sharer(world, "a").join().fetch()
    assert (got(answer), values_of(answer)) == ([(0, 0, 1), (2, 2, 1)], [b"aborted", b"open"])


# Sessions.


def test_sessions_count_their_requests() -> None:
    world, a = sharing(b"v0")
    assert a.fetch(session=7).error_code is ErrorCode.invalid_share_session_epoch
    assert Sharer(world, "b").fetch(session=1).error_code is ErrorCode.share_session_not_found
    assert Sharer(world, "").fetch().error_code is ErrorCode.invalid_request
    assert Sharer(world, "b", group_id="").fetch().error_code is ErrorCode.invalid_group_id
    opening = a.acknowledge((0, 0, ACCEPT), share_session_epoch=0)
    assert opening is ErrorCode.invalid_share_session_epoch
    assert got(a.fetch()) == [(0, 0, 1)]


def test_session_that_closes_gives_its_records_to_others() -> None:
    world, a = sharing(b"v0", b"v1")
    b = Sharer(world, "b").join()
    b.fetch(max_records=1)
    a.fetch()
    waiting = b.fetch(max_wait_ms=5_000)
    a.fetch((1, 1, ACCEPT), session=-1)
    assert isinstance(waiting, Parked)
    b.fetch(session=-1)  # of its own wait, too
    c = Sharer(world, "c").join()
    assert got(c.fetch()) == [(0, 0, 1)]


# What is stored.


def test_accepted_records_stay_accepted_after_a_restart() -> None:
    world, a = sharing(b"v0", b"v1", b"v2")
    a.fetch()
    a.acknowledge((1, 1, ACCEPT))
    again = world.restart()
    again.advance(10)
    b = Sharer(again, "b").join()
    assert got(b.fetch()) == [(0, 0, 1), (2, 2, 1)]
    assert {each.member_id for each in described(again).members} == {"a", "b"}


def test_group_starts_at_the_end_and_stays_there() -> None:
    world = world_of()
    world.produce(batch_of(b"before"))
    a = Sharer(world, "a").join()
    assert got(a.fetch()) == []
    world.produce(batch_of(b"after"))
    again = world.restart()
    again.advance(10)
    assert got(Sharer(again, "b").join().fetch()) == [(1, 1, 1)]


def test_offsets_of_a_group_without_members_can_be_altered() -> None:
    world, a = sharing(b"v0", b"v1")
    assert alter(world, 0) is ErrorCode.non_empty_group
    a.fetch()
    a.acknowledge((0, 1, ACCEPT))
    a.fetch(session=-1)
    a.beat(-1)
    assert alter(world, 1) is ErrorCode.none
    assert offsets(world) == {("orders", 0): (1, 1)}
    assert got(Sharer(world, "b").join().fetch()) == [(1, 1, 1)]
    assert alter(world, 0, topic="none", group_id="new") is ErrorCode.unknown_topic_or_partition


def test_alteration_waits_as_long_as_both_of_its_requests_may_take() -> None:
    world, a = sharing()
    a.beat(-1)
    part = e.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topics = (e.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=(part,)),)
    request = e.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
    asked: list[Heard] = []

    def summarize(ctx: Context, key: ShareKey, heard: Heard) -> None:
        asked.append(heard)

    with patch.object(handler, "summarize_state", summarize):
        waiting = world.ask(apis.ALTER_SHARE_GROUP_OFFSETS, request)
    world.advance(ASK_TIMEOUT_MS)
    with patch.object(handler, "initialize_state", lambda *arguments: None):
        asked[0](Outcome())
    world.advance(ASK_TIMEOUT_MS)
    assert isinstance(waiting, Parked)
    assert not waiting.done


def test_offsets_can_be_set_before_the_group_has_a_member() -> None:
    world = world_of()
    world.produce(batch_of(b"v0"))
    find(world)
    assert alter(world, 0, group_id="new") is ErrorCode.coordinator_not_available
    assert alter(world, 0, group_id="new") is ErrorCode.none
    assert got(Sharer(world, "a", group_id="new").join().fetch()) == [(0, 0, 1)]


def test_deleted_offsets_are_those_of_a_new_group() -> None:
    world, a = sharing(b"v0")
    d = delete_share_group_offsets
    topics = tuple(
        d.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("orders", "none")
    )
    request = d.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
    answer = world.ask(apis.DELETE_SHARE_GROUP_OFFSETS, request)
    assert answer.error_code is ErrorCode.non_empty_group
    a.fetch(session=-1)
    a.beat(-1)
    answer = world.ask(apis.DELETE_SHARE_GROUP_OFFSETS, request)
    codes = [each.error_code for each in answer.responses]
    assert codes == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    assert offsets(world) == {}
    assert got(Sharer(world, "b").join().fetch()) == []  # from the end again


def test_states_of_a_deleted_topic_are_deleted() -> None:
    world, a = sharing(b"v0", b"v1")
    ((topic_id, index),) = a.parts
    a.fetch()
    a.acknowledge((0, 0, ACCEPT))
    states, led = world.ctx.clients.shares.states, world.ctx.clients.shares.led
    assert [key.topic_id for key in states] == [topic_id] == [key.topic_id for key in led]
    world.delete("orders")
    assert (list(states), list(led)) == ([], [])
    # A topic that is created with its name is another one: the group starts there anew.
    new_id = world.create()
    world.produce(batch_of(b"before"))
    a.beat()
    assert list(a.parts) == [(new_id, index)]
    assert got(a.fetch(session=0)) == []
    assert offsets(world) == {("orders", 0): (1, 0)}
    # In the log, too: the next coordinator finds the new state alone.
    with patch.object(loading_share_states, "forget_missing_states"):
        again = world.restart()
        again.advance(10)
    assert [key.topic_id for key in again.ctx.clients.shares.states] == [new_id]


def test_states_of_a_topic_that_was_deleted_meanwhile_are_deleted_with_the_load() -> None:
    world, a = sharing(b"v0")
    a.fetch()
    a.acknowledge((0, 0, ACCEPT))
    # Written by a coordinator that had not heard of the deletion.
    with patch.object(loading_share_states, "forget_missing_states"):
        world.delete("orders")
        assert len(world.ctx.clients.shares.states) == 1
    again = world.restart()
    again.advance(10)
    assert not again.ctx.clients.shares.loading
    assert list(again.ctx.clients.shares.states) == []


def test_nothing_is_stored_of_a_topic_that_is_not_there() -> None:
    world, _ = sharing(b"v0")
    r = read_share_group_state
    part = r.PartitionData(partition=0, leader_epoch=5)
    topics = (r.ReadStateData(topic_id=world.topic_id(), partitions=(part,)),)
    request = r.ReadShareGroupStateRequest(group_id=GROUP, topics=topics)
    answer = world.ask(apis.READ_SHARE_GROUP_STATE, request)
    code = answer.results[0].partitions[0].error_code
    assert code is ErrorCode.unknown_topic_or_partition
    assert len(world.ctx.clients.shares.states) == 1


def test_deleted_group_is_new_again() -> None:
    world, a = sharing(b"v0")
    request = delete_groups.DeleteGroupsRequest(groups_names=(GROUP,))
    (result,) = world.ask(apis.DELETE_GROUPS, request).results
    assert result.error_code is ErrorCode.non_empty_group
    a.fetch(session=-1)
    a.beat(-1)
    (result,) = world.ask(apis.DELETE_GROUPS, request).results
    assert result.error_code is ErrorCode.none
    assert listed(world) == []
    assert len(world.ctx.clients.shares.states) == 0
    assert got(Sharer(world, "b").join().fetch()) == []


@pytest.mark.parametrize("leader_epoch", [4, 5, 6])
def test_older_leader_may_not_write(leader_epoch: int) -> None:
    world, a = sharing()
    (topic_id, index) = next(iter(a.parts))
    r = read_share_group_state
    part = r.PartitionData(partition=index, leader_epoch=5)
    topics = (r.ReadStateData(topic_id=topic_id, partitions=(part,)),)
    read = r.ReadShareGroupStateRequest(group_id=GROUP, topics=topics)
    world.ask(apis.READ_SHARE_GROUP_STATE, read)
    w = write_share_group_state
    state = w.PartitionData(
        partition=index, state_epoch=0, leader_epoch=leader_epoch, start_offset=1, state_batches=()
    )
    written = w.WriteShareGroupStateRequest(
        group_id=GROUP, topics=(w.WriteStateData(topic_id=topic_id, partitions=(state,)),)
    )
    answer = world.ask(apis.WRITE_SHARE_GROUP_STATE, written)
    code = answer.results[0].partitions[0].error_code
    assert code is (ErrorCode.fenced_leader_epoch if leader_epoch < 5 else ErrorCode.none)


def test_a_lock_is_not_stored_and_refused_for_its_partition_alone() -> None:
    world, a = sharing()
    (topic_id, index) = next(iter(a.parts))
    w = write_share_group_state
    locked = w.StateBatch(first_offset=0, last_offset=0, delivery_state=1, delivery_count=1)
    states = (
        w.PartitionData(partition=at, state_epoch=0, leader_epoch=0, start_offset=0,
                        state_batches=batches)
        for at, batches in ((index, ()), (index + 1, (locked,)))
    )  # fmt: skip
    request = w.WriteShareGroupStateRequest(
        group_id=GROUP, topics=(w.WriteStateData(topic_id=topic_id, partitions=tuple(states)),)
    )
    (found,) = world.ask(apis.WRITE_SHARE_GROUP_STATE, request).results
    assert [(each.partition, each.error_code) for each in found.partitions] == [
        (index, ErrorCode.none), (index + 1, ErrorCode.invalid_request),
    ]  # fmt: skip


def test_state_is_initialized_summarized_and_deleted() -> None:
    world, a = sharing()
    ((topic_id, index),) = a.parts

    def start() -> int:
        r = read_share_group_state_summary
        part = r.PartitionData(partition=index, leader_epoch=-1)
        topics = (r.ReadStateSummaryData(topic_id=topic_id, partitions=(part,)),)
        request = r.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=topics)
        answer = world.ask(apis.READ_SHARE_GROUP_STATE_SUMMARY, request)
        return int(answer.results[0].partitions[0].start_offset)

    i = initialize_share_group_state
    begun = i.PartitionData(partition=index, state_epoch=1, start_offset=5)
    begin = i.InitializeShareGroupStateRequest(
        group_id=GROUP, topics=(i.InitializeStateData(topic_id=topic_id, partitions=(begun,)),)
    )
    world.ask(apis.INITIALIZE_SHARE_GROUP_STATE, begin)
    assert start() == 5
    d = delete_share_group_state
    gone = (d.DeleteStateData(topic_id=topic_id, partitions=(d.PartitionData(partition=index),)),)
    request = d.DeleteShareGroupStateRequest(group_id=GROUP, topics=gone)
    world.ask(apis.DELETE_SHARE_GROUP_STATE, request)
    assert start() == -1

"""Groups whose partition of the offsets topic has replicas: who answers, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.coordinators.loading_groups import shorten_offsets_log
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.wire import apis
from josefine_broker.wire.entities import delete_groups, offset_commit, offset_fetch
from tests.unit.josefine_broker.api.group_clients import (
    At,
    beat,
    committed,
    described,
    join,
    said,
    sync,
)
from tests.unit.josefine_broker.api.replicas import Replicas

OFFSET_COMMIT, OFFSET_FETCH = 8, 9


@pytest.fixture
def group_replicas() -> Replicas:
    """Group `g` has committed offset 5 of orders-0; broker 1 coordinates it."""
    cluster = Replicas(3)
    cluster.create()
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.run()
    e = offset_commit
    part = e.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=None
    )
    topic = e.OffsetCommitRequestTopic(name="orders", partitions=(part,))
    request = e.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
    )
    cluster.ask(1, OFFSET_COMMIT, request, 9)
    cluster.run()
    return cluster


def fetch(cluster: Replicas, broker_id: int) -> tuple[ErrorCode, list[int]]:
    e = offset_fetch
    wanted = e.OffsetFetchRequestTopics(name="orders", partition_indexes=(0,))
    group = e.OffsetFetchRequestGroup(group_id="g", topics=(wanted,))
    answer: Any = cluster.ask(broker_id, OFFSET_FETCH, e.OffsetFetchRequest(groups=(group,)), 8)
    (found,) = answer.groups
    return found.error_code, [p.committed_offset for t in found.topics for p in t.partitions]


def test_a_replica_that_does_not_lead_knows_of_no_offset_and_says_so(
    group_replicas: Replicas,
) -> None:
    """-1 without an error would send the group's consumers back to the beginning."""
    assert fetch(group_replicas, 1) == (ErrorCode.none, [5])

    for follower in (2, 3):
        assert fetch(group_replicas, follower)[0] is ErrorCode.not_coordinator


def test_offsets_stay_where_they_are_until_what_replaces_them_is_committed(
    group_replicas: Replicas,
) -> None:
    """A shortened log whose new records nobody copied would leave the group with nothing."""
    tp, hosted = coordinator_of(group_replicas.ctx[1], "g")

    shorten_offsets_log(group_replicas.ctx[1], tp, hosted, 0)
    group_replicas.advance(60_000)  # no follower asks in time: the write is given up

    assert hosted.log.log_start_offset == 0
    assert hosted.partition.high_watermark == 1


@pytest.fixture
def stable_cluster() -> tuple[Replicas, Any]:
    """Broker 1 coordinates a group of one static member; the answer to its join."""
    cluster = Replicas(3)
    cluster.create()
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.run()
    waiting = join(At(cluster, 1), instance_id="i")
    cluster.advance(3_000)
    joined = said(waiting)
    answer = sync(At(cluster, 1), joined, {joined.member_id: b"all"}, group_instance_id="i")
    assert not answer.done  # no follower has it yet
    cluster.run()
    assert said(answer).assignment == b"all"
    return cluster, joined


def test_member_goes_on_with_the_next_coordinator(stable_cluster: tuple[Replicas, Any]) -> None:
    """Its generation, its assignment and what it committed were acknowledged, so they are there."""
    cluster, joined = stable_cluster
    waiting = send_commit(At(cluster, 1), 7, joined, group_instance_id="i")
    cluster.run()
    assert code_of(waiting) is ErrorCode.none

    cluster.kill(1)
    cluster.run()
    new = At(cluster, 2)

    assert beat(new, joined, group_instance_id="i") is ErrorCode.none
    assert said(sync(new, joined, group_instance_id="i")).assignment == b"all"
    assert committed(new) == {"orders": 7}
    (member,) = described(new).members
    assert (member.member_id, member.group_instance_id) == (joined.member_id, "i")


def test_former_coordinator_sends_members_away_also_those_that_wait(
    stable_cluster: tuple[Replicas, Any],
) -> None:
    cluster, joined = stable_cluster
    before = At(cluster, 1)
    waiting = join(before, instance_id="other")

    cluster.fence(1)

    assert said(waiting).error_code is ErrorCode.not_coordinator
    assert beat(before, joined, group_instance_id="i") is ErrorCode.not_coordinator
    answer = send_commit(before, 7, joined, group_instance_id="i")
    assert code_of(answer) is ErrorCode.not_coordinator


def test_assignment_that_no_replica_has_is_not_told(stable_cluster: tuple[Replicas, Any]) -> None:
    """A partitioned coordinator hands out nothing that its successor would not know."""
    cluster, joined = stable_cluster
    broker = At(cluster, 1)
    before = joined.generation_id
    rejoining = join(broker, joined.member_id, instance_id="i")
    again = said(rejoining)
    assert again.generation_id == before + 1
    answer = sync(broker, again, {again.member_id: b"new"}, group_instance_id="i")

    cluster.advance(5_000)

    assert said(answer).error_code is ErrorCode.coordinator_not_available
    cluster.kill(1)
    cluster.run()
    assert beat(At(cluster, 2), again, group_instance_id="i") is ErrorCode.illegal_generation


def test_deletion_counts_when_it_is_on_every_replica(group_replicas: Replicas) -> None:
    request = delete_groups.DeleteGroupsRequest(groups_names=("g",))
    waiting = group_replicas.ask(1, apis.DELETE_GROUPS, request)
    assert not waiting.done
    assert fetch(group_replicas, 1) == (ErrorCode.none, [5])

    group_replicas.run()

    assert [each.error_code for each in said(waiting).results] == [ErrorCode.none]
    assert fetch(group_replicas, 1) == (ErrorCode.none, [-1])
    group_replicas.kill(1)
    group_replicas.run()
    assert fetch(group_replicas, 2) == (ErrorCode.none, [-1])


def test_new_coordinator_serves_what_it_read_once_every_replica_has_it(
    group_replicas: Replicas,
) -> None:
    """Else an offset that was told could be gone with the next one."""
    group_replicas.kill(1)

    assert fetch(group_replicas, 2)[0] is ErrorCode.coordinator_load_in_progress
    group_replicas.run()

    assert fetch(group_replicas, 2) == (ErrorCode.none, [5])


def test_deletion_that_is_not_committed_in_time_is_no_success(group_replicas: Replicas) -> None:
    request = delete_groups.DeleteGroupsRequest(groups_names=("g",))
    waiting = group_replicas.ask(1, apis.DELETE_GROUPS, request)

    group_replicas.advance(5_000)

    (result,) = said(waiting).results
    assert result.error_code is ErrorCode.coordinator_not_available
    assert fetch(group_replicas, 1) == (ErrorCode.none, [5])

    group_replicas.run()  # it is written all the same: the next coordinator would know of no offset
    assert fetch(group_replicas, 1) == (ErrorCode.none, [-1])


def test_commit_that_is_late_is_known_when_it_is_committed(
    stable_cluster: tuple[Replicas, Any],
) -> None:
    """Its client may try again or not: the topic says it, and so would the next coordinator."""
    cluster, joined = stable_cluster
    waiting = send_commit(At(cluster, 1), 7, joined, group_instance_id="i")
    cluster.advance(5_000)
    assert code_of(waiting) is ErrorCode.coordinator_not_available
    assert fetch(cluster, 1) == (ErrorCode.none, [-1])

    cluster.run()

    assert fetch(cluster, 1) == (ErrorCode.none, [7])


def test_late_commit_does_not_replace_a_newer_one(stable_cluster: tuple[Replicas, Any]) -> None:
    """Cluster simulation, seed 400324: the first one had timed out before both were committed, and
    was applied behind the second."""
    cluster, joined = stable_cluster
    send_commit(At(cluster, 1), 6, joined, group_instance_id="i")  # in a fetch of its own
    late = send_commit(At(cluster, 1), 7, joined, group_instance_id="i")
    cluster.advance(3_000)
    newer = send_commit(At(cluster, 1), 8, joined, group_instance_id="i")
    cluster.advance(2_000)
    assert code_of(late) is ErrorCode.coordinator_not_available
    assert not newer.done

    cluster.run()

    assert code_of(newer) is ErrorCode.none
    assert fetch(cluster, 1) == (ErrorCode.none, [8])


def test_commit_whose_client_is_gone_is_known_when_it_is_committed(
    stable_cluster: tuple[Replicas, Any],
) -> None:
    cluster, joined = stable_cluster
    waiting = send_commit(At(cluster, 1), 7, joined, group_instance_id="i")
    cluster.ctx[1].parked.cancel(waiting)

    cluster.run()

    assert fetch(cluster, 1) == (ErrorCode.none, [7])


def test_late_commit_of_a_former_coordinator_is_known_to_nobody(
    stable_cluster: tuple[Replicas, Any],
) -> None:
    """The next one never had it; what that one says counts."""
    cluster, joined = stable_cluster
    send_commit(At(cluster, 1), 7, joined, group_instance_id="i")

    cluster.fence(1)
    cluster.run()

    assert fetch(cluster, 2) == (ErrorCode.none, [-1])
    assert not cluster.ctx[1].clients.groups.coordinator.offsets.group_ids


def send_commit(broker: At, offset: int, joined: Any, **fields: Any) -> Any:
    e = offset_commit
    part = e.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = e.OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        topics=(e.OffsetCommitRequestTopic(name="orders", partitions=(part,)),),
        **fields,
    )
    return broker.ask(apis.OFFSET_COMMIT, request, version=9)


def code_of(answer: Any) -> ErrorCode:
    code: ErrorCode = said(answer).topics[0].partitions[0].error_code
    return code

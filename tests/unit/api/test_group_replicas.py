"""Groups whose partition of the offsets topic has replicas: who answers, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.offsets_topic import coordinator_of, shorten_offsets_log
from josefine_broker.wire.entities import offset_commit, offset_fetch
from tests.unit.api.replicas import Replicas

OFFSET_COMMIT, OFFSET_FETCH = 8, 9


@pytest.fixture
def cluster() -> Replicas:
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


def test_a_replica_that_does_not_lead_knows_of_no_offset_and_says_so(cluster: Replicas) -> None:
    """-1 without an error would send the group's consumers back to the beginning."""
    assert fetch(cluster, 1) == (ErrorCode.none, [5])

    for follower in (2, 3):
        assert fetch(cluster, follower)[0] is ErrorCode.not_coordinator


def test_offsets_stay_where_they_are_until_what_replaces_them_is_committed(
    cluster: Replicas,
) -> None:
    """A shortened log whose new records nobody copied would leave the group with nothing."""
    tp, hosted = coordinator_of(cluster.ctx[1], "g")

    shorten_offsets_log(cluster.ctx[1], tp, hosted, 0)
    cluster.advance(60_000)  # no follower asks in time: the write is given up

    assert hosted.log.log_start_offset == 0
    assert hosted.partition.high_watermark == 1

"""What a follower's fetch is told by its leader, and where consumers read, wait and are sent."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.changes import BrokerState, Decision
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.fetch import FetchPartitionResponse
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.josefine_broker.api.replicas import FETCH, FETCH_VERSION, PRODUCE, Replicas, fetched
from tests.unit.josefine_broker.api.world import TERM, batch_of, fetch_request


@pytest.fixture
def settled_replicas() -> Replicas:
    """Brokers 1 (leads), 2 and 3 at rest, every follower's session known to the leader."""
    cluster = Replicas(3, racks=True)
    cluster.create()
    cluster.produce(1, b"a")
    cluster.produce(1, b"b")
    cluster.run()
    cluster.advance(500)
    cluster.run()
    return cluster


def told_at_rest(cluster: Replicas, follower: int = 2) -> list[FetchPartitionResponse]:
    """What a follower's waiting request, which names no partition, is told in the end."""
    cluster.advance(500)
    (waiting,) = [each for each in cluster.waiting if each.follower.broker_id == follower]
    assert isinstance(waiting.answer, Parked)
    assert waiting.answer.done
    response: Any = waiting.answer.response
    return [part for topic in response.topics for part in topic.partitions]


def test_a_follower_at_rest_is_told_nothing(settled_replicas: Replicas) -> None:
    assert told_at_rest(settled_replicas) == []


def test_a_follower_at_rest_in_an_older_epoch_is_told_so(settled_replicas: Replicas) -> None:
    """KIP-320: at the epoch before it may hold what no leader has; silence would leave it there."""
    settled_replicas.held.add(2)
    settled_replicas.lead(1)

    (told,) = told_at_rest(settled_replicas)

    assert told.error_code == ErrorCode.fenced_leader_epoch


def test_a_follower_at_rest_is_told_that_the_broker_leads_no_more(
    settled_replicas: Replicas,
) -> None:
    settled_replicas.held.add(2)
    settled_replicas.lead(3)

    (told,) = told_at_rest(settled_replicas)

    assert told.error_code == ErrorCode.not_leader_or_follower


def test_a_follower_at_rest_out_of_sync_joins_again_by_asking_for_nothing_new(
    settled_replicas: Replicas,
) -> None:
    """Fenced, it may not join; it copies on. Its next fetch after that must not be passed over."""
    settled_replicas.fence(3)
    settled_replicas.advance(500)
    settled_replicas.run()
    assert settled_replicas.entry().isr == (1, 2)

    settled_replicas.fence(3, fenced=False)
    settled_replicas.advance(500)
    settled_replicas.run()

    assert settled_replicas.entry().isr == (1, 2, 3)


def test_a_request_that_waited_says_nothing_new_of_its_follower(settled_replicas: Replicas) -> None:
    """It was sent before the append that answers it: a follower that hangs would look alive."""
    follower = settled_replicas.hosted(1).partition.followers.get(2)  # type: ignore[union-attr]
    assert follower is not None
    (waiting,) = [each for each in settled_replicas.waiting if each.follower.broker_id == 2]
    before = (follower.fetched_ms, follower.leader_end_then, follower.end_offset)
    settled_replicas.held.add(2)
    settled_replicas.advance(100)

    settled_replicas.produce(1, b"c", acks=1)

    assert waiting.answer.done  # type: ignore[union-attr]
    assert (follower.fetched_ms, follower.leader_end_then, follower.end_offset) == before


def test_a_follower_is_not_woken_by_a_topic_that_is_called_follower(
    settled_replicas: Replicas,
) -> None:
    """What wakes broker 2's fetch was once known by a name that a partition may have, too."""
    settled_replicas.create("follower", ((1,),) * 3)
    batch = memoryview(bytearray(batch_of(b"v")))
    topics = (ProduceTopic("follower", None, (ProducePartition(2, batch),)),)

    settled_replicas.ask(1, PRODUCE, ProduceRequest(None, -1, 500, topics), 12)

    assert [each.answer.done for each in settled_replicas.waiting] == [False, False]


def as_follower(
    cluster: Replicas, broker_id: int, offset: int, log_start_offset: int
) -> FetchPartitionResponse:
    """A follower's own request, with a log start of its own."""
    ctx = cluster.ctx[1]
    request = fetch_request(offset, replica_id=broker_id, leader_epoch=0)
    (topic,) = request.topics
    (part,) = topic.partitions
    part = part._replace(log_start_offset=log_start_offset, last_fetched_epoch=0)
    topic = topic._replace(
        name="", topic_id=cluster.image.topics["orders"].topic_id, partitions=(part,)
    )
    request = request._replace(topics=(topic,), replica_epoch=ctx.image.brokers[broker_id].epoch)
    answer: Any = cluster.ask(1, FETCH, request, FETCH_VERSION)
    found: FetchPartitionResponse = answer.topics[0].partitions[0]
    assert found.error_code == ErrorCode.none
    return found


def preferred(cluster: Replicas, offset: int) -> int:
    found: int = cluster.fetch(1, offset, rack="rack3").preferred_read_replica
    return found


def test_a_consumer_is_not_sent_to_a_follower_whose_log_begins_behind_its_offset(
    settled_replicas: Replicas,
) -> None:
    """KIP-392: it would be told OFFSET_OUT_OF_RANGE there, and start over, though we have it."""
    assert [preferred(settled_replicas, offset) for offset in (0, 1, 2)] == [3, 3, 3]

    as_follower(settled_replicas, 3, 2, log_start_offset=1)

    assert [preferred(settled_replicas, offset) for offset in (0, 1, 2)] == [-1, 3, 3]


def test_a_consumer_is_sent_to_the_follower_of_its_rack_that_is_furthest() -> None:
    """KIP-392: where several are near, the one with the least lag; never one that is not live."""
    cluster = Replicas(3, racks={1: "here", 2: "there", 3: "there"})
    cluster.create()
    cluster.run()
    for _ in range(2):
        cluster.produce(1, b"v", acks=1)

    preferred_then = []
    for first, second in ((2, 3), (3, 2)):
        as_follower(cluster, first, 2, log_start_offset=0)
        as_follower(cluster, second, 1, log_start_offset=0)
        preferred_then.append(cluster.fetch(1, 1, rack="there").preferred_read_replica)
    assert preferred_then == [2, 3]

    epoch = cluster.image.brokers[3].epoch  # fenced, and not yet out of the in-sync set
    fenced = BrokerState(3, epoch, True, False, False)
    cluster.propose(Decision(controller_term=TERM, reason="test", brokers=(fenced,)))
    assert cluster.entry().isr == (1, 2, 3)
    assert cluster.fetch(1, 1, rack="there").preferred_read_replica == 2


@pytest.mark.parametrize(("version", "is_told"), [(10, True), (12, False)])
def test_consumer_that_waits_is_told_when_the_leader_goes_unless_it_may_read_from_followers(
    settled_replicas: Replicas, version: int, is_told: bool
) -> None:
    """KIP-392, since version 11; an older one would wait for records that others get."""
    waiting = settled_replicas.fetch(1, 2, max_wait_ms=60_000, version=version)
    assert not waiting.done

    settled_replicas.lead(2)

    assert waiting.done is is_told
    if is_told:
        assert fetched(waiting).error_code == ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("ahead", [-1, 1])
def test_a_follower_of_another_incarnation_than_the_known_one_is_refused(
    settled_replicas: Replicas, ahead: int
) -> None:
    """KIP-903: an older process, or one of whose registration this leader has not heard yet."""
    request = fetch_request(2, replica_id=3, leader_epoch=0)
    known = settled_replicas.ctx[1].image.brokers[3].epoch

    answer: Any = settled_replicas.ask(
        1, FETCH, request._replace(replica_epoch=known + ahead), FETCH_VERSION
    )

    assert answer.error_code == ErrorCode.stale_broker_epoch

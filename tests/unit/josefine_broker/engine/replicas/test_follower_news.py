"""A follower's session of many partitions: each look finds what has news, without a look at all of
them. The clock stands still here, so no look at all is due after the first one."""

from __future__ import annotations

from random import Random

import pytest

from josefine_broker.api.table import SERVED
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import RequestHeader
from josefine_broker.wire.entities import delete_records as e
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.unit.josefine_broker.api.replicas import Replicas, result_of
from tests.unit.josefine_broker.api.world import LISTENER

PARTITIONS, DELETE_RECORDS = 4, 21


def at_rest(limits: FetchLimits | None = None, **config: str) -> Replicas:
    """Partitions led by broker 1, with a record each, and the high watermarks of all brokers."""
    cluster = Replicas(limits=limits)
    cluster.create(replicas=((1, 2, 3),) * PARTITIONS, **config)
    cluster.run()
    for index in range(PARTITIONS):
        cluster.produce(1, b"first", index=index)
    cluster.run()
    cluster.produce(1, b"news of all", index=0)
    cluster.run()
    return cluster


def ends(cluster: Replicas, broker_id: int) -> list[int]:
    return [cluster.log_end(broker_id, index) for index in range(PARTITIONS)]


def watermarks(cluster: Replicas, broker_id: int) -> list[int]:
    return [cluster.high_watermark(broker_id, index) for index in range(PARTITIONS)]


def test_a_record_of_any_partition_reaches_the_followers() -> None:
    cluster = at_rest()
    for index in (2, 0, 3, 2):
        waiting = cluster.produce(1, b"v", index=index)
        cluster.run()

        assert result_of(waiting).error_code == 0
        assert ends(cluster, 2) == ends(cluster, 3) == ends(cluster, 1)


def test_a_follower_learns_a_high_watermark_with_the_next_answer_of_any_partition() -> None:
    cluster = at_rest()
    cluster.produce(1, b"v", index=1)
    cluster.run()

    cluster.produce(1, b"v", index=2)
    cluster.run()

    for follower in (2, 3):
        assert watermarks(cluster, follower)[1] == watermarks(cluster, 1)[1] == 2


def test_partitions_without_room_in_an_answer_come_with_later_ones() -> None:
    cluster = at_rest(FetchLimits(bytes_max=300, partition_bytes_max=300))
    for _ in range(3):
        for index in range(PARTITIONS):
            cluster.produce(1, b"v" * 200, acks=1, index=index)

    cluster.run()

    assert ends(cluster, 2) == ends(cluster, 3) == ends(cluster, 1)


def test_a_deletion_is_answered_when_the_followers_have_deleted() -> None:
    cluster = at_rest()
    part = e.DeleteRecordsPartition(partition_index=3, offset=1)
    topic = e.DeleteRecordsTopic(name="orders", partitions=(part,))
    request = e.DeleteRecordsRequest(topics=(topic,), timeout_ms=500)

    waiting = cluster.ask(1, DELETE_RECORDS, request)
    assert isinstance(waiting, Parked)
    cluster.run()

    assert waiting.done
    assert [cluster.hosted(each, 3).log.log_start_offset for each in (1, 2, 3)] == [1, 1, 1]


def test_partitions_without_news_are_not_looked_at() -> None:
    cluster = at_rest()
    cluster.produce(1, b"v", index=1)
    cluster.run()
    cluster.produce(1, b"v", index=1)
    cluster.run()

    assert set(cluster.ctx[1].parked.followers.of(2)) <= {("orders", 1)}


def test_all_partitions_are_looked_at_from_time_to_time() -> None:
    """What no event has noted is late by half a second at most."""
    cluster = at_rest()
    cluster.hosted(1, 3).log.delete_before(1)
    cluster.produce(1, b"v", index=1)
    cluster.run()
    assert cluster.hosted(2, 3).log.log_start_offset == 0

    cluster.advance(500)
    cluster.produce(1, b"v", index=1)
    cluster.run()

    assert cluster.hosted(2, 3).log.log_start_offset == 1


@pytest.mark.parametrize("seed", range(6))
def test_replicas_agree_after_any_order_of_records_elections_and_restarts(seed: int) -> None:
    rng = Random(seed)
    cluster = at_rest(FetchLimits(bytes_max=500, partition_bytes_max=300))
    for _ in range(40):
        draw = rng.random()
        if draw < 0.7:
            leader = cluster.entry().leader
            cluster.produce(leader, b"v" * rng.choice([1, 250]), acks=1, index=0)
            index = rng.randrange(1, PARTITIONS)
            leader = cluster.entry(index).leader
            cluster.produce(leader, b"v", index=index)
        elif draw < 0.8:
            cluster.lead(rng.choice([1, 2, 3]))
        if rng.random() < 0.5:
            cluster.run()
    cluster.run()
    for broker_id in (2, 3):
        assert ends(cluster, broker_id) == ends(cluster, 1)


def run_only(cluster: Replicas, follower: int) -> None:
    """As `Replicas.run`, of one follower of broker 1."""
    moved = True
    while moved:
        cluster.ctx[1].parked.run_completed()
        moved = cluster.send(follower, 1)
        for waiting in list(cluster.waiting):
            if waiting.follower is cluster.ctx[follower]:
                moved |= cluster.receive(waiting)


def test_a_follower_learns_a_high_watermark_that_a_slower_one_has_moved() -> None:
    cluster = at_rest()
    cluster.produce(1, b"v", index=1, acks=1)
    run_only(cluster, 2)
    for _ in range(2):  # broker 2 has seen all that is new
        cluster.produce(1, b"v", index=2, acks=1)
        run_only(cluster, 2)
    assert ("orders", 1) not in cluster.ctx[1].parked.followers.of(2)
    assert cluster.high_watermark(2, 1) == 1

    run_only(cluster, 3)
    cluster.produce(1, b"v", index=0, acks=1)
    run_only(cluster, 2)

    assert cluster.high_watermark(2, 1) == 2


def test_a_partition_that_was_left_out_is_looked_at_when_it_is_named_again() -> None:
    cluster = at_rest()
    key = (cluster.hosted(2, 3).topic_id, 3)
    fetcher = cluster.ctx[2].hosted.fetchers.of(key)
    assert fetcher is not None
    fetcher.pause(key, 100)
    cluster.run()
    cluster.produce(1, b"v", index=3, acks=1)
    cluster.run()
    cluster.produce(1, b"v", index=1, acks=1)
    cluster.run()
    assert cluster.log_end(2, 3) == 1

    cluster.advance(100)
    cluster.run()

    assert cluster.log_end(2, 3) == 2


def test_partitions_take_turns_where_an_answer_has_room_for_one() -> None:
    cluster = at_rest(FetchLimits(bytes_max=300, partition_bytes_max=300))
    for _ in range(6):
        for index in (1, 2):
            cluster.produce(1, b"v" * 200, acks=1, index=index)
    apart = []
    while cluster.step():
        apart.append(abs(cluster.log_end(2, 1) - cluster.log_end(2, 2)))

    assert max(apart) <= 2  # one is a request ahead
    assert ends(cluster, 2) == ends(cluster, 1)


def test_nothing_is_noted_for_a_reader_that_names_itself_a_broker() -> None:
    cluster = at_rest()
    ctx, topic_id = cluster.ctx[1], cluster.hosted(1, 0).topic_id
    header = RequestHeader(FETCH, 17, 1, "stranger", 0)
    info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", LISTENER)
    parts = tuple(FetchPartition(index, -1, 0, -1, 0, 1 << 20) for index in (0, 1))  # type: ignore[arg-type]
    for stranger in (70, 71):
        asked = FetchRequest(stranger, 0, 1, 1 << 20, 0, 0, 0, (FetchTopic("", topic_id, parts),))
        opened = SERVED[FETCH].handle(ctx, info, asked)
        assert isinstance(opened, FetchResponse)
        assert opened.session_id

        again = asked._replace(session_id=opened.session_id, session_epoch=1, topics=())
        SERVED[FETCH].handle(ctx, info, again)

    assert ctx.parked.followers.noted == {2, 3}

"""Replication from a leader to its followers: copying, fetch sessions, follower reads, topics."""

from dataclasses import replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.metadata.changes import DeleteTopic
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.replicas import Replicas, fetched
from tests.unit.josefine_broker.api.world import values_in
from tests.unit.josefine_broker.engine.partition.replicated import error_of

OFFSET_COMMIT = 8


# Copying.


def test_followers_copy_the_leader_batch_by_batch_with_its_offsets_and_epochs(
    cluster: Replicas,
) -> None:
    """Checklist row 35."""
    cluster.produce(1, b"a", b"b")
    cluster.produce(1, b"c")

    cluster.run()

    assert cluster.records(1) == [(0, 0, b"a"), (1, 0, b"b"), (2, 0, b"c")]
    assert cluster.records(2) == cluster.records(3) == cluster.records(1)


def test_a_flipped_bit_on_the_way_is_not_written_and_fetched_again(cluster: Replicas) -> None:
    """Checklist row 29."""
    cluster.produce(1, b"whole")
    cluster.send(2, 1)
    (waiting,) = [w for w in cluster.waiting if w.follower.broker_id == 2 and not is_open(w.answer)]
    response = waiting.answer if not isinstance(waiting.answer, Parked) else waiting.answer.response
    part = response.topics[0].partitions[0]
    broken = bytearray(b"".join(bytes(each) for each in part.records))
    broken[-1] ^= 1
    topic = response.topics[0]._replace(partitions=[part._replace(records=(broken,))])
    cluster.waiting.remove(waiting)
    cluster.waiting.append(waiting._replace(answer=response._replace(topics=[topic])))

    cluster.run()
    assert cluster.records(2) == []
    assert cluster.ctx[2].hosted.counters.replication_errors == 1
    cluster.advance(FetchLimits().backoff_ms)
    cluster.run()

    assert cluster.records(2) == cluster.records(1)


def test_fetch_that_is_refused_as_a_whole_counts_as_an_error(cluster: Replicas) -> None:
    cluster.produce(1, b"whole")
    cluster.send(2, 1)
    (waiting,) = [w for w in cluster.waiting if w.follower.broker_id == 2]
    response = waiting.answer if not isinstance(waiting.answer, Parked) else waiting.answer.response
    refused = response._replace(error_code=int(ErrorCode.broker_not_available), topics=[])
    cluster.waiting.remove(waiting)
    cluster.waiting.append(waiting._replace(answer=refused))

    cluster.run()

    assert cluster.ctx[2].hosted.counters.replication_errors == 1


def is_open(answer: object) -> bool:
    return isinstance(answer, Parked) and not answer.done


def test_follower_refuses_producers_and_names_the_leader(cluster: Replicas) -> None:
    """KIP-951."""
    answer = cluster.produce(2)

    assert answer.error_code == ErrorCode.not_leader_or_follower
    assert (answer.leader_id, answer.leader_epoch) == (1, 0)
    refused = cluster.fetch(2, version=10)
    assert (refused.error_code, refused.leader) == (ErrorCode.not_leader_or_follower, (1, 0))


def test_broker_that_is_no_replica_any_more_deletes_its_log(cluster: Replicas) -> None:
    cluster.produce(1)
    cluster.run()
    assert "orders-0/partition.json" in cluster.files[3].names
    topic = cluster.image.topics["orders"]
    entry = replace(topic.partitions[0], replicas=(1, 2), isr=(1, 2))
    ctx = cluster.ctx[3]
    ctx.image = replace(ctx.image, topics={"orders": replace(topic, partitions=(entry,))})
    from josefine_broker.engine.metadata_quorum.apply_committed import reconcile

    reconcile(ctx)

    assert ("orders", 0) not in ctx.hosted.partitions
    assert not any(name.startswith("orders-0/") for name in cluster.files[3].names)
    assert all(not len(fetcher) for fetcher in ctx.hosted.fetchers.by_leader.values())


def test_follower_deletes_what_its_leader_deleted(cluster: Replicas) -> None:
    for value in (b"a", b"b", b"c"):
        cluster.produce(1, value)
    cluster.run()
    cluster.hosted(1).log.delete_before(2)
    cluster.produce(1, b"d")

    cluster.run()

    assert cluster.hosted(2).log.log_start_offset == 2


def test_new_replica_begins_at_the_leaders_log_start(cluster: Replicas) -> None:
    """Also where that start lies within a batch."""
    cluster.produce(1, b"a", b"b", b"c")
    cluster.run()
    cluster.stop(3)
    cluster.produce(1, b"d")
    cluster.run()
    cluster.hosted(1).log.delete_before(1)
    cluster.files[3].names.clear()
    cluster.files[3].durable_names.clear()

    cluster.start(3)
    cluster.run()

    assert cluster.hosted(3).log.log_start_offset == 1
    assert cluster.records(3) == cluster.records(1)
    assert cluster.entry().isr == (1, 2, 3)


def test_follower_far_behind_the_leaders_start_begins_anew(cluster: Replicas) -> None:
    cluster.produce(1, b"a")
    cluster.run()
    cluster.stop(3)
    for value in (b"b", b"c", b"d"):
        cluster.produce(1, value)
    cluster.run()
    log = cluster.hosted(1).log
    log.roll()  # type: ignore[attr-defined]
    log.delete_before(4)
    cluster.produce(1, b"e")

    cluster.start(3)
    cluster.run()

    assert cluster.hosted(3).log.log_start_offset == 4
    assert cluster.records(3) == cluster.records(1) == [(4, cluster.entry().leader_epoch, b"e")]


# Reading from followers.


def test_consumer_is_sent_to_the_replica_in_its_rack_and_served_there() -> None:
    """KIP-392."""
    cluster = Replicas(3, racks=True)
    cluster.create()
    cluster.run()
    cluster.produce(1, b"a")
    cluster.run()

    sent = cluster.fetch(1, rack="rack3")
    assert (sent.preferred_read_replica, values_in(sent)) == (3, [])
    assert cluster.fetch(1, rack="rack1").preferred_read_replica == -1
    assert cluster.fetch(1, rack="nowhere").preferred_read_replica == -1
    assert cluster.fetch(1, rack="rack3", version=10).preferred_read_replica == -1
    cluster.advance(600)
    cluster.run()

    assert values_in(cluster.fetch(3)) == [b"a"]


def test_follower_shows_consumers_only_what_it_knows_to_be_committed(cluster: Replicas) -> None:
    """KIP-392."""
    cluster.produce(1, b"a")
    cluster.receive(next(w for w in cluster.waiting if w.follower.broker_id == 2))
    assert cluster.log_end(2) == 1
    assert values_in(cluster.fetch(2)) == []
    waiting = cluster.fetch(2, max_wait_ms=5_000)

    cluster.run()
    cluster.advance(600)
    cluster.run()

    assert values_in(fetched(waiting)) == [b"a"]


def test_replica_out_of_sync_or_behind_is_not_preferred() -> None:
    """KIP-392: a consumer sent to a lagging replica would go round in circles."""
    cluster = Replicas(3, racks=True)
    cluster.create()
    cluster.run()
    cluster.produce(1, b"a", acks=1)

    assert cluster.fetch(1, 1, rack="rack3").preferred_read_replica == -1
    cluster.run()
    assert cluster.fetch(1, 1, rack="rack3").preferred_read_replica == 3
    cluster.fence(3)
    assert cluster.fetch(1, 1, rack="rack3").preferred_read_replica == -1


# Sessions.


def test_request_with_news_ends_the_wait_of_the_one_before(cluster: Replicas) -> None:
    """A new partition must not wait for the long poll of the others."""
    assert all(is_open(waiting.answer) for waiting in cluster.waiting)

    fetcher = cluster.ctx[2].hosted.fetchers.by_leader[1]
    (copy,) = fetcher
    fetcher.fail(copy.key, 0)
    cluster.advance(FetchLimits().backoff_ms)
    cluster.send(2, 1)

    first, second = (w.answer for w in cluster.waiting if w.follower.broker_id == 2)
    assert first.done
    assert is_open(second)
    cluster.run()
    assert len(cluster.waiting) == 2


def test_high_watermark_of_an_answer_that_no_longer_counts_is_told_with_the_next() -> None:
    """The wait that ends told it, of the position before; the next request names a new one."""
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    cluster.produce(1, b"quiet from here on")
    cluster.run()
    fetcher = cluster.ctx[2].hosted.fetchers.by_leader[1]
    (copy,) = fetcher
    assert copy.leaders_high_watermark == 0, "not worth an answer of its own"

    fetcher.fail(copy.key, 0)
    cluster.advance(FetchLimits().backoff_ms)
    cluster.run()
    cluster.advance(FetchLimits().wait_ms)
    cluster.run()

    assert copy.leaders_high_watermark == 1


def test_idle_session_names_no_partition_and_gets_none() -> None:
    """Checklist row 39: idle traffic does not grow with partitions."""
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),) * 50)
    cluster.run()

    cluster.advance(500)
    (waiting,) = cluster.waiting
    assert waiting.answer.response.topics == []
    cluster.receive(waiting)
    fetcher = cluster.ctx[2].hosted.fetchers.by_leader[1]
    _, request = fetcher.request(0, cluster.ctx[2].broker_epoch)

    assert (request.topics, request.forgotten) == ((), ())


def test_leader_that_lost_the_session_is_asked_for_a_new_one(cluster: Replicas) -> None:
    session_ids = list(cluster.ctx[1].clients.sessions._sessions)
    for session_id in session_ids:
        del cluster.ctx[1].clients.sessions._sessions[session_id]
    cluster.advance(500)

    cluster.produce(1, b"a")
    cluster.run()

    assert cluster.high_watermark(1) == 1


def test_replica_out_of_sync_is_throttled_and_those_in_sync_are_not() -> None:
    """The catch-up of one must not take the room of all."""
    limits = FetchLimits(throttle_bytes_per_second=1_000, partition_bytes_max=500)
    cluster = Replicas(2, limits=limits)
    cluster.create(replicas=((1, 2), (1, 2)))
    cluster.run()
    cluster.kill(2)
    for _ in range(10):
        cluster.produce(1, b"x" * 300)
    topic_id = cluster.image.topics["orders"].topic_id
    cluster.start(2)
    cluster.run()
    copied = cluster.log_end(2)
    assert 0 < copied < 10

    cluster.advance(100)
    cluster.run()
    assert cluster.log_end(2) == copied
    for _ in range(20):
        cluster.advance(500)
        cluster.run()

    assert cluster.log_end(2) == 10
    assert cluster.entry().isr == (1, 2)
    assert topic_id is not None


# Topics and groups.


def test_deleted_topic_is_copied_no_more_and_its_waiters_are_told(cluster: Replicas) -> None:
    waiting = cluster.produce(1, b"a")
    topic_id = cluster.image.topics["orders"].topic_id

    cluster.propose(DeleteTopic(topic_id=topic_id))

    assert error_of(waiting) == ErrorCode.not_leader_or_follower
    for broker_id in (1, 2, 3):
        assert cluster.ctx[broker_id].hosted.partitions == {}
    cluster.run()


def test_topic_made_anew_under_its_name_is_copied_from_its_beginning(cluster: Replicas) -> None:
    cluster.produce(1, b"old")
    cluster.run()
    cluster.propose(DeleteTopic(topic_id=cluster.image.topics["orders"].topic_id))
    cluster.create()

    cluster.produce(1, b"new")
    cluster.run()

    assert cluster.records(3) == [(0, 0, b"new")]


def commit(cluster: Replicas, broker_id: int, offset: int) -> object:
    part = e.offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topic = e.offset_commit.OffsetCommitRequestTopic(name="orders", partitions=(part,))
    request = e.offset_commit.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
    )
    return cluster.ask(broker_id, OFFSET_COMMIT, request, 9)


def code_of_commit(answer: object) -> ErrorCode:
    if isinstance(answer, Parked):
        answer = answer.response
    return answer.topics[0].partitions[0].error_code  # type: ignore[union-attr,no-any-return,attr-defined]


def test_group_is_served_by_the_leader_of_its_partition_only_and_follows_it(
    cluster: Replicas,
) -> None:
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.run()
    waiting = commit(cluster, 1, 5)
    assert isinstance(waiting, Parked)
    groups = cluster.ctx[1].clients.groups
    assert not groups.coordinator.group_ids  # not before it is on every replica in sync
    assert code_of_commit(commit(cluster, 2, 5)) is ErrorCode.not_coordinator

    cluster.run()
    assert code_of_commit(waiting) is ErrorCode.none
    cluster.kill(1)
    cluster.run()

    assert cluster.ctx[2].clients.groups.coordinator.group_ids == ["g"]
    (found,) = cluster.ctx[2].clients.groups.coordinator.offsets.committed("g").values()
    assert isinstance(found, CommittedOffset)
    assert found.offset == 5
    cluster.start(1)
    cluster.run()
    assert cluster.ctx[1].clients.groups.coordinator.group_ids == []
    assert UUID(int=0) not in cluster.image.topic_names


def test_commit_that_never_reaches_the_replicas_is_no_success(cluster: Replicas) -> None:
    cluster.create(OFFSETS_TOPIC, replicas=((1, 2, 3),))
    cluster.run()
    waiting = commit(cluster, 1, 5)

    cluster.advance(5_000)

    assert code_of_commit(waiting) is ErrorCode.coordinator_not_available
    assert cluster.ctx[1].clients.groups.coordinator.group_ids == []

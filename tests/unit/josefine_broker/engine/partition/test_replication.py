"""Leaders and followers: copying, the high watermark, acks, in-sync sets, elections, truncation."""

from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.metadata.changes import DeleteTopic
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.replicas.leading import submit_isr_changes
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import entities as e
from josefine_broker.wire.produce import ProducePartitionResponse
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.replicas import Replicas, fetched, result_of
from tests.unit.josefine_broker.api.world import batch_of, values_in

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH = 2, 8, 9


@pytest.fixture
def cluster() -> Replicas:
    cluster = Replicas(3)
    cluster.create()
    cluster.run()
    return cluster


def error_of(answer: object) -> int:
    return result_of(answer).error_code if isinstance(answer, Parked) else answer.error_code  # type: ignore[attr-defined]


def latest(cluster: Replicas, broker_id: int, version: int = 9) -> tuple[ErrorCode, int]:
    part = e.list_offsets.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=-1
    )
    topic = e.list_offsets.ListOffsetsTopic(name="orders", partitions=(part,))
    request = e.list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))
    answer = cluster.ask(broker_id, LIST_OFFSETS, request, version).topics[0].partitions[0]
    return answer.error_code, answer.offset


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


# The high watermark and acks.


def test_high_watermark_waits_for_the_slowest_replica_in_sync(cluster: Replicas) -> None:
    """Checklist row 35."""
    cluster.produce(1, b"a")
    assert cluster.high_watermark(1) == 0
    assert values_in(cluster.fetch(1)) == []

    cluster.receive(next(w for w in cluster.waiting if w.follower.broker_id == 2))
    cluster.send(2, 1)
    assert cluster.high_watermark(1) == 0
    cluster.run()

    assert cluster.high_watermark(1) == 1
    assert values_in(cluster.fetch(1)) == [b"a"]


def test_acks_all_is_answered_when_every_replica_in_sync_has_the_records(
    cluster: Replicas,
) -> None:
    """Checklist row 34."""
    waiting = cluster.produce(1, b"a", acks=-1)
    one = cluster.produce(1, b"b", acks=1)
    none = cluster.produce(1, b"c", acks=0)
    assert one.error_code == 0
    assert none is None
    assert isinstance(waiting, Parked)
    assert not waiting.done

    cluster.run()

    answer = result_of(waiting)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert cluster.records(3) == [(0, 0, b"a"), (1, 0, b"b"), (2, 0, b"c")]


def test_producer_is_answered_when_who_was_about_to_join_fell_behind(cluster: Replicas) -> None:
    """Its proposal was held up by another partition's."""
    cluster.lead(1, isr=(1, 2))
    cluster.ctx[1].hosted.isr.is_open = True
    cluster.run()
    waiting = cluster.produce(1, b"a", timeout_ms=60_000)
    cluster.receive(next(each for each in cluster.waiting if each.follower is cluster.ctx[2]))
    cluster.send(2, 1)
    cluster.advance(1_001)
    assert not waiting.done

    cluster.ctx[1].hosted.isr.is_open = False
    submit_isr_changes(cluster.ctx[1])

    assert error_of(waiting) == 0


def test_leader_out_of_reach_hangs_up_on_producers_so_that_they_look_for_another(
    cluster: Replicas,
) -> None:
    """librdkafka asks who leads where it is connected: there it would be told the same for ever."""
    cluster.run()
    waiting = cluster.produce(1, b"a", timeout_ms=60_000)
    cluster.ctx[1].cluster.is_heard = False
    cluster.at_once = False  # nor is what it proposes
    cluster.check_isrs()
    assert not waiting.done

    cluster.advance(3 * FetchLimits().wait_ms + 1)
    cluster.check_isrs()

    assert isinstance(waiting.response, Hangup)
    assert waiting.response.answer is None  # whether it is stored is not known
    refused = cluster.produce(1, b"b")
    assert isinstance(refused, Hangup)
    assert result_of(refused.answer).error_code == ErrorCode.not_leader_or_follower
    assert result_of(refused.answer).leader_id == -1
    assert cluster.produce(1, b"c", acks=1).error_code == 0


def test_leader_without_a_controller_serves_as_long_as_its_followers_reach_it(
    cluster: Replicas,
) -> None:
    cluster.ctx[1].cluster.is_heard = False
    for _ in range(5):
        cluster.advance(FetchLimits().wait_ms)
        waiting = cluster.produce(1, b"a")
        cluster.run()
        cluster.check_isrs()

        assert error_of(waiting) == 0


def test_leader_is_trusted_again_once_the_controller_hears_it(cluster: Replicas) -> None:
    cluster.ctx[1].cluster.is_heard = False
    cluster.advance(3 * FetchLimits().wait_ms + 1)
    cluster.check_isrs()
    assert isinstance(cluster.produce(1, b"a"), Hangup)

    cluster.ctx[1].cluster.is_heard = True
    cluster.check_isrs()
    waiting = cluster.produce(1, b"a")
    cluster.run()

    assert error_of(waiting) == 0


def test_acks_all_in_doubt_without_a_controller_is_hung_up_on(cluster: Replicas) -> None:
    waiting = cluster.produce(1, b"a", timeout_ms=200)
    cluster.ctx[1].cluster.is_heard = False

    cluster.advance(200)

    assert isinstance(waiting.response, Hangup)


def test_acks_0_that_is_refused_ends_the_connection(cluster: Replicas) -> None:
    """Nothing else would tell the producer that it writes to the wrong broker."""
    assert isinstance(cluster.produce(2, b"a", acks=0), Hangup)
    assert cluster.produce(1, b"a", acks=0) is None


def test_refused_producer_is_not_sent_back_to_where_it_was_refused(cluster: Replicas) -> None:
    assert result_of_refusal(cluster, 2).leader_id == 1
    cluster.held.add(2)
    cluster.lead(2)

    assert result_of_refusal(cluster, 1).leader_id == 2
    assert result_of_refusal(cluster, 2).leader_id == 1  # it has not heard of it


def test_batch_behind_one_that_came_too_early_is_sent_back_to_the_same_leader(
    cluster: Replicas,
) -> None:
    """librdkafka tries again at once where it is told who leads, else after a second."""
    first, second = (
        bytes(build_batch([Record(value=b"v")], producer_id=7, producer_epoch=0, base_sequence=n))
        for n in (0, 1)
    )
    cluster.produce(2, batch=first)
    cluster.lead(2)

    refused = cluster.produce(2, batch=second)

    assert refused.error_code == ErrorCode.not_leader_or_follower
    assert (refused.leader_id, refused.leader_epoch) == (2, 1)
    assert isinstance(cluster.produce(2, batch=first), Parked)
    assert isinstance(cluster.produce(2, batch=second), Parked)


def result_of_refusal(cluster: Replicas, broker_id: int) -> ProducePartitionResponse:
    answer = cluster.produce(broker_id, b"a")
    assert answer.error_code == ErrorCode.not_leader_or_follower
    return answer  # type: ignore[no-any-return]


def test_acks_all_times_out_and_the_records_may_come_later(cluster: Replicas) -> None:
    waiting = cluster.produce(1, b"a", timeout_ms=200)

    cluster.advance(200)

    assert error_of(waiting) == ErrorCode.request_timed_out
    cluster.run()
    assert cluster.high_watermark(1) == 1


def test_acks_all_fails_when_the_leadership_goes_while_it_waits(cluster: Replicas) -> None:
    waiting = cluster.produce(1, b"a")

    cluster.lead(2)

    assert error_of(waiting) == ErrorCode.not_leader_or_follower
    assert (result_of(waiting).leader_id, result_of(waiting).leader_epoch) == (2, 1)


def test_acks_all_is_refused_below_min_insync_replicas_and_afterwards_when_it_falls_below(
    cluster: Replicas,
) -> None:
    """Checklist row 34."""
    cluster = Replicas(3)
    cluster.create(min_insync_replicas="2")
    cluster.run()
    waiting = cluster.produce(1, b"a")

    cluster.kill(2)
    cluster.kill(3)

    assert error_of(waiting) == ErrorCode.not_enough_replicas_after_append
    assert cluster.produce(1, b"b").error_code == ErrorCode.not_enough_replicas
    assert cluster.produce(1, b"c", acks=1).error_code == 0
    assert cluster.high_watermark(1) == 0  # KIP-966: nothing is committed below the minimum


def test_acks_all_waits_for_every_replica_where_there_are_fewer_than_the_minimum() -> None:
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),), min_insync_replicas="3")
    waiting = cluster.produce(1, b"a")
    assert isinstance(waiting, Parked)

    cluster.run()

    assert error_of(waiting) == 0
    cluster.kill(2)
    assert cluster.produce(1, b"b").error_code == ErrorCode.not_enough_replicas


def test_repeated_batch_waits_for_the_first_one_to_be_committed(cluster: Replicas) -> None:
    """A duplicate must not be confirmed before what it repeats is safe."""
    batch = batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    cluster.produce(1, batch=batch, timeout_ms=100)
    cluster.advance(100)

    again = cluster.produce(1, batch=batch)
    assert isinstance(again, Parked)
    assert not again.done
    cluster.run()

    assert (result_of(again).error_code, result_of(again).base_offset) == (0, 0)
    assert len(cluster.records(1)) == 1


def test_waiting_consumer_is_woken_by_the_high_watermark_not_by_the_append(
    cluster: Replicas,
) -> None:
    waiting = cluster.fetch(1, max_wait_ms=500)
    cluster.produce(1, b"a")
    assert not waiting.done

    cluster.run()

    assert values_in(fetched(waiting)) == [b"a"]


def test_long_poll_of_a_consumer_counts_committed_bytes(cluster: Replicas) -> None:
    size = len(batch_of(b"x" * 100))
    waiting = cluster.fetch(1, max_wait_ms=500, min_bytes=2 * size)
    cluster.produce(1, b"x" * 100)
    cluster.run()
    assert not waiting.done
    cluster.produce(1, b"x" * 100)
    assert not waiting.done

    cluster.run()

    assert values_in(fetched(waiting)) == [b"x" * 100] * 2


# Who is in sync.


def test_follower_that_lags_leaves_the_isr_and_joins_again_when_it_has_caught_up(
    cluster: Replicas,
) -> None:
    """Checklist row 35."""
    cluster.waiting = [w for w in cluster.waiting if w.follower.broker_id != 3]
    waiting = cluster.produce(1, b"a", timeout_ms=60_000)
    send_and_receive(cluster, 2)
    assert not waiting.done

    cluster.advance(1_001)
    send_and_receive(cluster, 2)
    cluster.check_isrs()

    assert cluster.entry().isr == (1, 2)
    assert result_of(waiting).error_code == 0
    cluster.ctx[3].hosted.fetchers.by_leader[1].disconnected()
    cluster.run()
    assert cluster.entry().isr == (1, 2, 3)


def send_and_receive(cluster: Replicas, follower: int) -> None:
    """Only this follower fetches, until it rests."""
    for _ in range(10):
        cluster.send(follower, 1)
        for waiting in [w for w in cluster.waiting if w.follower.broker_id == follower]:
            cluster.receive(waiting)


def test_idle_partition_keeps_its_followers_in_sync_without_fetches(cluster: Replicas) -> None:
    cluster.produce(1, b"a")
    cluster.run()

    cluster.advance(60_000)
    cluster.check_isrs()
    cluster.produce(1, b"b")
    cluster.check_isrs()

    assert cluster.entry().isr == (1, 2, 3)


def test_follower_joins_under_steady_load(cluster: Replicas) -> None:
    """The high watermark waits for one that keeps pace, or it would run away for ever."""
    cluster.kill(3)
    assert cluster.entry().isr == (1, 2)
    cluster.start(3)

    for _ in range(12):
        cluster.produce(1, b"more")
        cluster.step()

    assert cluster.entry().isr == (1, 2, 3)


def test_isr_change_of_all_partitions_is_one_block() -> None:
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),) * 20)
    cluster.run()
    for index in range(20):
        cluster.produce(1, b"a", index=index)
    blocks = len(cluster.chain)

    cluster.advance(1_001)
    cluster.check_isrs()

    assert [cluster.entry(index).isr for index in range(20)] == [(1,)] * 20
    assert len(cluster.chain) == blocks + 1


def test_refused_isr_change_is_made_again_later(cluster: Replicas) -> None:
    cluster.produce(1, b"a")
    cluster.at_once = False
    cluster.advance(1_001)
    cluster.check_isrs()
    cluster.chain.pop()  # the proposal is lost; its proposer gives up at its deadline
    cluster.at_once = True

    cluster.advance(10_000)
    cluster.check_isrs()
    cluster.advance(1_000)
    cluster.check_isrs()

    assert cluster.entry().isr == (1,)


def test_isr_change_that_cannot_be_submitted_is_made_once_it_can(cluster: Replicas) -> None:
    """It is not taken for one on its way, after which no other would be made."""
    cluster.kill(3, fenced=False)
    me = cluster.ctx[1].cluster
    incarnation, me.incarnation = me.incarnation, "unknown to the image"
    cluster.produce(1, b"a", acks=1)
    cluster.advance(1_100)
    cluster.check_isrs()
    assert cluster.entry().isr == (1, 2, 3)

    me.incarnation = incarnation
    cluster.check_isrs()

    assert 3 not in cluster.entry().isr


def test_member_that_a_proposal_in_flight_adds_holds_the_high_watermark(
    cluster: Replicas,
) -> None:
    cluster.kill(3)
    cluster.start(3)
    cluster.at_once = False
    cluster.run()
    assert cluster.entry().isr == (1, 2)

    cluster.produce(1, b"a")
    send_and_receive(cluster, 2)

    assert cluster.high_watermark(1) == 0
    cluster.at_once = True
    cluster.deliver()
    cluster.run()
    assert (cluster.entry().isr, cluster.high_watermark(1)) == ((1, 2, 3), 1)


def test_fetch_of_an_older_incarnation_is_refused(cluster: Replicas) -> None:
    """KIP-903."""
    ctx = cluster.ctx[2]
    fetcher = ctx.hosted.fetchers.by_leader[1]
    fetcher.disconnected()
    _, request = fetcher.request(0, ctx.broker_epoch - 1)

    answer = cluster.ask(1, 1, request, 17)

    assert answer.error_code == ErrorCode.stale_broker_epoch


def test_replica_that_came_back_without_its_records_does_not_join_by_what_it_had_before(
    cluster: Replicas,
) -> None:
    """KIP-903: the proposal was made for the process before."""
    cluster.kill(3)
    cluster.produce(1, b"a")
    cluster.start(3)
    cluster.at_once = False
    cluster.run()
    late = cluster.chain.pop()  # the leader's proposal: 3 has caught up
    cluster.kill(3)
    cluster.files[3] = MemoryFiles()
    cluster.start(3)

    cluster.chain.append(late)
    cluster.deliver()

    assert cluster.entry().isr == (1, 2)


# Elections and truncation.


def test_new_leader_has_all_that_was_confirmed_and_followers_cut_what_was_not(
    cluster: Replicas,
) -> None:
    """Checklist row 36."""
    cluster.produce(1, b"kept")
    cluster.run()
    cluster.produce(1, b"lost", acks=1)
    assert cluster.log_end(1) == 2

    cluster.kill(1)
    assert cluster.entry().leader == 2
    cluster.produce(2, b"new")
    cluster.run()
    cluster.start(1)
    cluster.run()

    assert [value for _, _, value in cluster.records(2)] == [b"kept", b"new"]
    assert cluster.records(1) == cluster.records(2) == cluster.records(3)
    assert cluster.ctx[1].hosted.counters.truncations == 1


def test_logs_that_crossed_several_epochs_meet_by_epochs_not_by_length(
    cluster: Replicas,
) -> None:
    """KIP-279: two leaders in turn wrote at the same offsets what the other has not."""
    cluster.produce(1, b"common")
    cluster.run()
    cluster.waiting.clear()
    cluster.produce(1, b"by 1", b"of epoch 0", acks=1)
    cluster.kill(1)
    cluster.kill(3)
    cluster.produce(2, b"by 2", acks=1)
    cluster.kill(2)
    cluster.start(2)
    cluster.start(3)
    cluster.start(1)
    cluster.run()

    assert cluster.records(1) == cluster.records(2) == cluster.records(3)
    assert cluster.records(2)[0][2] == b"common"


def test_truncation_takes_the_producers_state_back(cluster: Replicas) -> None:
    def batch(sequence: int, value: bytes) -> bytes:
        return batch_of(value, producer_id=7, producer_epoch=0, base_sequence=sequence)

    cluster.produce(1, batch=batch(0, b"a"))
    cluster.run()
    cluster.produce(1, batch=batch(1, b"b"), acks=1)
    cluster.lead(2)
    cluster.run()
    assert cluster.log_end(1) == 1
    cluster.lead(1)

    retried = cluster.produce(1, batch=batch(1, b"b"))
    cluster.run()

    assert (result_of(retried).error_code, result_of(retried).base_offset) == (0, 1)


def test_new_leader_does_not_tell_its_end_before_it_knows_it(cluster: Replicas) -> None:
    """KIP-207."""
    cluster.produce(1, b"a")
    cluster.run()
    cluster.produce(1, b"b")
    cluster.step()
    cluster.step()
    high_watermark = cluster.high_watermark(1)
    assert (high_watermark, cluster.high_watermark(2), cluster.log_end(2)) == (2, 1, 2)

    cluster.kill(1)

    assert latest(cluster, 2) == (ErrorCode.offset_not_available, -1)
    assert latest(cluster, 2, version=4) == (ErrorCode.leader_not_available, -1)
    cluster.run()
    assert latest(cluster, 2) == (ErrorCode.none, high_watermark)


def test_epoch_end_for_clients_is_the_log_end_though_the_high_watermark_lags(
    cluster: Replicas,
) -> None:
    """KIP-320: a consumer that read up to the old leader's watermark was not truncated."""
    cluster.produce(1, b"a")
    cluster.step()
    cluster.kill(1)
    part = e.offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=-1, leader_epoch=0
    )
    topic = e.offset_for_leader_epoch.OffsetForLeaderTopic(topic="orders", partitions=(part,))
    request = e.offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,))

    answer = cluster.ask(2, 23, request).topics[0].partitions[0]

    assert (answer.leader_epoch, answer.end_offset) == (0, 1)


def test_partition_without_a_live_member_in_sync_waits_for_one(cluster: Replicas) -> None:
    cluster.kill(3)
    cluster.kill(2)
    cluster.produce(1, b"only here")
    cluster.kill(1)
    cluster.start(2)
    assert cluster.entry().leader == -1
    assert cluster.produce(2).error_code == ErrorCode.not_leader_or_follower

    cluster.start(1)
    cluster.run()

    assert cluster.entry().leader == 1
    assert cluster.records(2) == cluster.records(1)


def test_waiting_fetches_are_answered_when_the_leadership_goes(cluster: Replicas) -> None:
    old = cluster.fetch(1, max_wait_ms=500, leader_epoch=0)

    cluster.lead(2)

    assert fetched(old).error_code == ErrorCode.fenced_leader_epoch
    assert fetched(old).leader == (2, 1)


def test_image_that_is_behind_makes_no_second_leader(cluster: Replicas) -> None:
    """A leader that has not heard of its end confirms nothing: its followers went."""
    cluster.held.add(1)
    cluster.lead(2)

    waiting = cluster.produce(1, b"nobody copies it")
    cluster.run()

    assert not waiting.done
    assert cluster.high_watermark(1) == 0
    cluster.held.clear()
    cluster.deliver()
    cluster.run()
    assert error_of(waiting) == ErrorCode.not_leader_or_follower
    assert cluster.records(1) == []


def test_restarted_broker_takes_no_role_from_an_image_before_its_registration(
    cluster: Replicas,
) -> None:
    cluster.produce(1, b"a")
    cluster.run()
    cluster.lead(2)
    cluster.produce(2, b"b")
    cluster.run()
    cluster.kill(1)
    cluster.produce(2, b"c")

    cluster.start(1)  # applies the chain from its first block: it led once
    cluster.run()

    assert cluster.records(1) == cluster.records(2)


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

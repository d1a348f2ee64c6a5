"""The election of a partition's leader and the truncation of its followers' logs."""

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.replicas import Replicas, fetched, result_of
from tests.unit.josefine_broker.api.world import batch_of
from tests.unit.josefine_broker.engine.partition.replicated import error_of

LIST_OFFSETS = 2


def latest(cluster: Replicas, broker_id: int, version: int = 9) -> tuple[ErrorCode, int]:
    part = e.list_offsets.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=-1
    )
    topic = e.list_offsets.ListOffsetsTopic(name="orders", partitions=(part,))
    request = e.list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))
    answer = cluster.ask(broker_id, LIST_OFFSETS, request, version).topics[0].partitions[0]
    return answer.error_code, answer.offset


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

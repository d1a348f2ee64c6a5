"""The high watermark and the acks of a produce request that wait for it."""

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.replicas.leading import submit_isr_changes
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.produce import ProducePartitionResponse
from tests.unit.josefine_broker.api.replicas import Replicas, fetched, result_of
from tests.unit.josefine_broker.api.world import batch_of, values_in
from tests.unit.josefine_broker.engine.partition.replicated import error_of


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

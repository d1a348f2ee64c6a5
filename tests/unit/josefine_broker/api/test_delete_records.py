"""DeleteRecords waits until every live replica has deleted (KIP-107)."""

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import delete_records as e
from tests.unit.josefine_broker.api.replicas import Replicas

DELETE_RECORDS = 21
TIMEOUT_MS = 3_000
RECORDS = 6


def delete(cluster: Replicas, offset: int, *, indexes: tuple[int, ...] = (0,)) -> Any:
    """The answer of broker 1, perhaps a Parked."""
    parts = tuple(e.DeleteRecordsPartition(partition_index=i, offset=offset) for i in indexes)
    topic = e.DeleteRecordsTopic(name="orders", partitions=parts)
    request = e.DeleteRecordsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
    return cluster.ask(1, DELETE_RECORDS, request)


def outcome(answer: Any, at: int = 0) -> tuple[ErrorCode, int]:
    """(error, low watermark)"""
    if isinstance(answer, Parked):
        assert answer.done
        answer = answer.response
    part = answer.topics[0].partitions[at]
    return part.error_code, part.low_watermark


def starts(cluster: Replicas, index: int = 0) -> list[int]:
    return [cluster.hosted(each, index).log.log_start_offset for each in sorted(cluster.ctx)]


@pytest.fixture
def filled_replicas() -> Replicas:
    """Six records in each of two partitions of brokers 1, 2 and 3; broker 1 leads."""
    cluster = Replicas()
    cluster.create(replicas=((1, 2, 3), (1, 2, 3)))
    for index in (0, 1):
        for _ in range(RECORDS):
            cluster.produce(1, b"v", index=index)
    cluster.run()
    return cluster


def test_deletion_is_answered_when_every_replica_has_deleted(filled_replicas: Replicas) -> None:
    answer = delete(filled_replicas, 4)

    assert not answer.done
    assert starts(filled_replicas) == [4, 0, 0]
    filled_replicas.run()
    assert outcome(answer) == (ErrorCode.none, 4)
    assert starts(filled_replicas) == [4, 4, 4]


def test_deletion_waits_for_the_slowest_replica(filled_replicas: Replicas) -> None:
    answer = delete(filled_replicas, 4)
    for waiting in [each for each in filled_replicas.waiting if each.follower.broker_id == 2]:
        filled_replicas.receive(waiting)
    filled_replicas.send(2, 1)

    assert starts(filled_replicas) == [4, 4, 0]
    assert not answer.done


def test_waiting_fetches_of_followers_are_answered_with_the_new_start(
    filled_replicas: Replicas,
) -> None:
    filled_replicas.run()
    assert filled_replicas.waiting
    assert not any(each.answer.done for each in filled_replicas.waiting)

    delete(filled_replicas, 4)

    assert all(each.answer.done for each in filled_replicas.waiting)


def test_deletion_up_to_the_high_watermark_answers_where_that_was(
    filled_replicas: Replicas,
) -> None:
    answer = delete(filled_replicas, -1)
    filled_replicas.run()

    assert outcome(answer) == (ErrorCode.none, RECORDS)


def test_deletion_below_the_low_watermark_is_answered_at_once(filled_replicas: Replicas) -> None:
    delete(filled_replicas, 4)
    filled_replicas.run()

    assert outcome(delete(filled_replicas, 2)) == (ErrorCode.none, 4)


def test_replica_that_is_not_live_is_not_waited_for(filled_replicas: Replicas) -> None:
    filled_replicas.kill(3)

    answer = delete(filled_replicas, 4)
    filled_replicas.run()

    assert outcome(answer) == (ErrorCode.none, 4)


def test_replica_that_is_fenced_meanwhile_is_waited_for_no_longer(
    filled_replicas: Replicas,
) -> None:
    filled_replicas.kill(3, fenced=False)
    answer = delete(filled_replicas, 4)
    filled_replicas.run()
    assert not answer.done

    filled_replicas.fence(3)

    assert outcome(answer) == (ErrorCode.none, 4)


def test_replica_out_of_sync_is_waited_for_until_it_is_fenced(filled_replicas: Replicas) -> None:
    """Its fencing changes no partition, only who is live."""
    filled_replicas.kill(3, fenced=False)
    filled_replicas.produce(1, b"more")
    for _ in range(5):
        filled_replicas.advance(400)
        filled_replicas.run()
        filled_replicas.check_isrs()
    assert filled_replicas.entry().isr == (1, 2)
    answer = delete(filled_replicas, 4)
    filled_replicas.run()
    assert not answer.done

    filled_replicas.fence(3)

    assert outcome(answer) == (ErrorCode.none, 4)


def test_replica_that_does_not_delete_in_time_is_a_timeout(filled_replicas: Replicas) -> None:
    filled_replicas.kill(3, fenced=False)
    answer = delete(filled_replicas, 4, indexes=(0, 1))
    filled_replicas.advance(TIMEOUT_MS - 1)
    assert not answer.done

    filled_replicas.advance(1)

    assert outcome(answer, 0) == (ErrorCode.request_timed_out, -1)
    assert outcome(answer, 1) == (ErrorCode.request_timed_out, -1)
    assert starts(filled_replicas)[0] == 4


def test_leadership_that_goes_while_waiting_is_told(filled_replicas: Replicas) -> None:
    answer = delete(filled_replicas, 4, indexes=(0, 1))

    filled_replicas.lead(2)

    assert not answer.done
    filled_replicas.run()
    assert outcome(answer, 0) == (ErrorCode.not_leader_or_follower, -1)
    assert outcome(answer, 1) == (ErrorCode.none, 4)


def test_wrong_partition_does_not_hold_up_the_others_nor_is_it_lost(
    filled_replicas: Replicas,
) -> None:
    answer = delete(filled_replicas, 4, indexes=(7, 0))
    filled_replicas.run()

    assert outcome(answer, 0) == (ErrorCode.unknown_topic_or_partition, -1)
    assert outcome(answer, 1) == (ErrorCode.none, 4)


def test_follower_that_asks_after_the_deletion_is_told_at_once(filled_replicas: Replicas) -> None:
    filled_replicas.kill(
        3
    )  # ends the wait of broker 2's fetch, which comes again after the deletion
    (waiting,) = filled_replicas.waiting
    answer = delete(filled_replicas, 4)
    filled_replicas.receive(waiting)
    filled_replicas.send(2, 1)

    (waiting,) = filled_replicas.waiting
    filled_replicas.receive(waiting)
    filled_replicas.send(2, 1)

    assert starts(filled_replicas) == [4, 4]
    assert outcome(answer) == (ErrorCode.none, 4)


def test_replica_that_lacks_what_is_deleted_begins_anew_and_counts(
    filled_replicas: Replicas,
) -> None:
    filled_replicas.kill(3)
    for _ in range(2):
        filled_replicas.produce(1, b"later")
    filled_replicas.run()
    filled_replicas.start(3)

    answer = delete(filled_replicas, -1)
    assert not answer.done
    filled_replicas.run()

    assert outcome(answer) == (ErrorCode.none, RECORDS + 2)
    assert starts(filled_replicas) == [RECORDS + 2] * 3


def test_records_of_the_brokers_own_topic_are_not_deleted() -> None:
    """What groups committed; as Kafka, whatever the topic's policy is."""
    cluster = Replicas()
    cluster.create("__consumer_offsets", replicas=((1,),), cleanup_policy="delete")
    topic = e.DeleteRecordsTopic(
        name="__consumer_offsets",
        partitions=(e.DeleteRecordsPartition(partition_index=0, offset=0),),
    )

    answer = cluster.ask(1, DELETE_RECORDS, e.DeleteRecordsRequest(topics=(topic,), timeout_ms=0))

    assert outcome(answer) == (ErrorCode.invalid_topic_exception, -1)

"""Damaged records of a leader that the other replicas have deleted are deleted, and not lost."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.partition.repair.repair import RETRY_MS_MAX
from josefine_broker.engine.replicas.replica_reads import start_after
from josefine_broker.host.log.log import PartitionLog
from tests.unit.josefine_broker.engine.replicas.repair.test_repairs import VALUES, Damaged

WHAT = "damaged records were deleted on the other replicas: the log starts after them"


def delete(cluster: Damaged, broker_id: int, offset: int) -> None:
    """As an earlier leader ordered it, which this cluster's leader has not learned."""
    hosted = cluster.hosted(broker_id)
    hosted.log.delete_before(offset)
    hosted.partition.started_at(offset)


@pytest.mark.parametrize("starts", [(2, 2), (2, 4)], ids=["the same start", "two starts"])
def test_log_starts_where_the_replicas_start_that_have_deleted_the_damaged_records(
    starts: tuple[int, int],
) -> None:
    """Nobody could send them, and the partition waited for a person (seed 45722)."""
    cluster = Damaged()
    cluster.spoil(1, 1, 2)
    for broker_id, start in zip((2, 3), starts, strict=True):
        delete(cluster, broker_id, start)

    cluster.repair(1)

    assert WHAT in cluster.messages()
    assert not cluster.damaged(1)
    assert cluster.hosted(1).log.log_start_offset == 2
    assert cluster.values(1) == VALUES[2:]
    cluster.produce(1, b"f")
    cluster.run()
    assert [cluster.values(each)[-1] for each in (1, 2, 3)] == [b"f"] * 3


def test_deleted_records_were_committed_whatever_the_new_leader_knows() -> None:
    """It may have lost its high watermark, and waits for its repair to learn it."""
    cluster = Damaged()
    cluster.spoil(1, 1)
    partition = cluster.hosted(1).partition
    partition.high_watermark = 0
    for broker_id in (2, 3):
        delete(cluster, broker_id, 3)

    cluster.repair(1)

    assert partition.high_watermark == 3
    assert cluster.values(1) == VALUES[3:]


@pytest.mark.parametrize("case", ["damaged there", "silent", "not in sync", "past the end"])
def test_records_are_not_taken_for_deleted_unless_every_replica_in_sync_has_deleted_them(
    case: str,
) -> None:
    cluster = Damaged()
    cluster.spoil(1, 1)
    partition = cluster.hosted(1).partition
    delete(cluster, 2, 2)
    if case == "damaged there":
        cluster.spoil(3, 1)
    elif case == "silent":
        cluster.silent = {3}
    elif case == "not in sync":
        cluster.silent, partition.isr = {3}, (1,)
    else:
        for broker_id in (2, 3):
            cluster.hosted(broker_id).log.restart_at(9)

    cluster.repair(1)

    assert WHAT not in cluster.messages()
    assert cluster.hosted(1).log.log_start_offset == 0
    assert cluster.damaged(1)


def test_follower_does_not_start_later_because_others_do() -> None:
    cluster = Damaged()
    cluster.spoil(2, 1)
    cluster.spoil(1, 1)
    delete(cluster, 3, 2)
    cluster.hosted(2).partition.isr = (2, 3)

    cluster.repair(2)

    assert WHAT not in cluster.messages()
    assert cluster.hosted(2).log.log_start_offset == 0


def test_replica_that_does_not_answer_starts_nowhere() -> None:
    assert start_after(None, 3) == 0


def test_deletion_that_the_disk_refuses_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(log: PartitionLog, offset: int) -> None:
        raise KafkaError(ErrorCode.kafka_storage_error, f"no room for {offset}")

    cluster = Damaged(2)
    cluster.spoil(1, 1)
    delete(cluster, 2, 2)
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "delete_before", refuses)
        cluster.repair(1)

    assert "deletion not followed" in cluster.messages()
    assert cluster.damaged(1)

    cluster.repair(1, after_ms=RETRY_MS_MAX)

    assert WHAT in cluster.messages()
    assert cluster.values(1) == VALUES[2:]
    assert cluster.repairs[1].lost == []

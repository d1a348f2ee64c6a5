"""Replicas in the directories of all brokers."""

from __future__ import annotations

from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.effects import Call
from josefine_broker.client.log_dirs import StoredReplica, describe_log_dirs
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.client.driver import Driver, is_metadata, metadata

D = e.describe_log_dirs


def directory(code: ErrorCode = ErrorCode.none, **sizes: int) -> Any:
    def part(size: int) -> Any:
        return D.DescribeLogDirsPartition(partition_index=0, partition_size=size, offset_lag=0)

    topics = tuple(
        D.DescribeLogDirsTopic(name=name, partitions=(part(size),)) for name, size in sizes.items()
    )
    return D.DescribeLogDirsResult(error_code=code, log_dir="/d", topics=topics)


def test_every_broker_is_asked_and_its_replicas_are_sorted() -> None:
    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({}, brokers=(1, 2))
        sizes = {1: {"b": 3, "a": 5}, 2: {"a": 7}}[call.node]
        return D.DescribeLogDirsResponse(results=(directory(**sizes),))

    driver = Driver(answer)

    found = driver.run(lambda t, end: describe_log_dirs(driver.session, t, end))

    assert found == [
        StoredReplica(broker_id=node, directory="/d", tp=TopicPartition(name, 0), size_bytes=size)
        for node, name, size in [(1, "a", 5), (1, "b", 3), (2, "a", 7)]
    ]


def test_a_broker_whose_directory_fails_is_asked_again_with_all_others() -> None:
    failing = [True]

    def answer(call: Call) -> Any:
        if is_metadata(call):
            return metadata({}, brokers=(1, 2))
        if call.node == 2 and failing:
            failing.clear()
            return D.DescribeLogDirsResponse(
                results=(directory(ErrorCode.coordinator_load_in_progress),)
            )
        return D.DescribeLogDirsResponse(results=(directory(a=1),))

    driver = Driver(answer)

    found = driver.run(lambda t, end: describe_log_dirs(driver.session, t, end))

    assert [each.broker_id for each in found] == [1, 2]
    assert [node for key, node in driver.asked if key == 35] == [1, 2, 1, 2]
    assert driver.paused_ms > 0

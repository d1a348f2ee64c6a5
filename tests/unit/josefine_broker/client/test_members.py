"""The members of a cluster: brokers with their fences, voters, sizes of one broker's logs."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import members
from josefine_broker.client.effects import Call
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.client.driver import Driver
from tests.unit.josefine_broker.client.test_replicas import metadata


def quorum(code: ErrorCode = ErrorCode.none) -> e.describe_quorum.DescribeQuorumResponse:
    entities = e.describe_quorum
    voters = tuple(entities.ReplicaState(replica_id=each, log_end_offset=1) for each in (1, 3))
    partition = entities.PartitionData(partition_index=0, error_code=code, current_voters=voters)
    topic = entities.TopicData(topic_name=members.METADATA_TOPIC, partitions=(partition,))
    return entities.DescribeQuorumResponse(topics=(topic,))


def test_fenced_brokers_are_listed_with_the_others() -> None:
    entities = e.describe_cluster
    brokers = tuple(
        entities.DescribeClusterBroker(broker_id=each, host="h", port=1, is_fenced=each == 2)
        for each in (1, 2)
    )
    answer = entities.DescribeClusterResponse(cluster_id="c", brokers=brokers)
    requests: list[Any] = []

    def reply(call: Call) -> object:
        requests.append(call.request)
        return answer

    driver = Driver(reply)

    found = driver.run(lambda t, d: members.fenced_brokers(driver.session, t, d))

    assert found == {1: False, 2: True}
    assert [each.include_fenced_brokers for each in requests] == [True]


def test_voters_are_asked_again_while_the_leader_is_unknown() -> None:
    moved = ErrorCode.not_leader_or_follower
    answers = iter((metadata(1), quorum(moved), quorum()))
    driver = Driver(lambda call: next(answers))

    assert driver.run(lambda t, d: members.voters(driver.session, t, d)) == {1, 3}


def test_log_sizes_of_one_broker_are_by_partition_and_its_error_is_raised() -> None:
    entities = e.describe_log_dirs
    partition = entities.DescribeLogDirsPartition(
        partition_index=1, partition_size=70, offset_lag=0
    )
    topic = entities.DescribeLogDirsTopic(name="t", partitions=(partition,))
    result = entities.DescribeLogDirsResult(log_dir="/d", topics=(topic,))
    good = entities.DescribeLogDirsResponse(results=(result,))
    refused = entities.DescribeLogDirsResponse(
        error_code=ErrorCode.cluster_authorization_failed, results=()
    )
    answers = iter((metadata(1), good, metadata(1), refused))
    driver = Driver(lambda call: next(answers))

    found = driver.run(lambda t, d: members.log_sizes(driver.session, 2, t, d))

    assert found == {TopicPartition("t", 1): 70}
    with pytest.raises(KafkaError):
        driver.run(lambda t, d: members.log_sizes(driver.session, 2, t, d))

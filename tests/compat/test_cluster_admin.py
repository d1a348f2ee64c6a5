"""What other people's admin clients do to a cluster: moves, elections, the quorum, features."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as LibrdkafkaTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidUpdateVersionError

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.features import SUPPORTED
from tests.support.cluster import Cluster
from tests.support.fixtures import cluster_fixture
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
_NUMBERS = itertools.count(1)


# Leaders go home when a test says so, and not by themselves between two lines of it.
cluster = cluster_fixture(cluster__imbalance_check_interval_ms=3_600_000)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.fixture
def librdkafka(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def made(librdkafka: AdminClient, *replicas: list[int]) -> str:
    """A topic with these replicas per partition, by librdkafka."""
    name = f"moved-{next(_NUMBERS)}"
    topic = LibrdkafkaTopic(name, num_partitions=len(replicas), replica_assignment=list(replicas))
    librdkafka.create_topics([topic])[name].result(TIMEOUT_S)
    return name


def described(admin: KafkaAdminClient, topic: str) -> dict[int, Any]:
    (found,) = admin.describe_topics([topic])
    return {each["partition_index"]: each for each in found["partitions"] or ()}


def wait_moved(admin: KafkaAdminClient, topic: str, *replicas: list[int]) -> None:
    def is_there() -> bool:
        found = described(admin, topic)
        return not admin.list_partition_reassignments() and all(
            index in found  # any broker is asked, and may not have heard of it yet
            and sorted(found[index]["isr_nodes"]) == sorted(wanted)
            and list(found[index]["replica_nodes"]) == wanted
            for index, wanted in enumerate(replicas)
        )

    wait_until(is_there, TIMEOUT_S, f"{topic} on {replicas}")


def wait_led(admin: KafkaAdminClient, topic: str, *leaders: int) -> None:
    """Any broker is asked, and each learns of an election by itself."""

    def are_led() -> bool:
        found = described(admin, topic)
        return [found[index]["leader_id"] for index in sorted(found)] == list(leaders)

    wait_until(are_led, TIMEOUT_S, f"{topic} led by {leaders}")


def test_partitions_move_by_kafka_python_and_are_led_by_their_first_replicas(
    admin: KafkaAdminClient, librdkafka: AdminClient
) -> None:
    """Checklist row 37: the preferred ones lead again."""
    topic = made(librdkafka, [1, 2], [2, 1])
    first, second = (TopicPartition(topic, index) for index in (0, 1))

    answer = admin.alter_partition_reassignments({first: [3, 1], second: [2, 1, 3]})
    assert answer == {first: None, second: None}
    wait_moved(admin, topic, [3, 1], [2, 1, 3])

    admin.elect_leaders(0, {topic: [0, 1]}, raise_errors=False)
    wait_led(admin, topic, 3, 2)


def test_wrong_moves_have_their_errors(admin: KafkaAdminClient, librdkafka: AdminClient) -> None:
    tp = TopicPartition(made(librdkafka, [1, 2]), 0)

    errors = [
        admin.alter_partition_reassignments({tp: target})[tp].errno
        for target in (None, [1, 9], [1, 1])
    ]

    invalid = ErrorCode.invalid_replica_assignment
    assert errors == [ErrorCode.no_reassignment_in_progress, invalid, invalid]


def test_preferred_leaders_are_elected_by_librdkafka(
    admin: KafkaAdminClient, librdkafka: AdminClient
) -> None:
    """It finds the controller by itself."""
    from confluent_kafka import ElectionType

    topic = made(librdkafka, [1, 2], [2, 1])
    tp = TopicPartition(topic, 0)
    assert admin.alter_partition_reassignments({tp: [2, 1]}) == {tp: None}
    wait_moved(admin, topic, [2, 1], [2, 1])
    partitions = [LibrdkafkaPartition(topic, 0), LibrdkafkaPartition(topic, 1)]

    results = librdkafka.elect_leaders(ElectionType.PREFERRED, partitions).result(TIMEOUT_S)

    told = {each.partition: error for each, error in results.items()}
    assert told[0] is None
    assert told[1].code() == LibrdkafkaError.ELECTION_NOT_NEEDED
    wait_led(admin, topic, 2, 2)


def test_quorum_is_described(admin: KafkaAdminClient, cluster: Cluster) -> None:
    quorum = admin.describe_metadata_quorum()  # any broker is asked

    (topic,) = quorum["topics"]
    (partition,) = topic["partitions"]
    assert topic["topic_name"] == "__cluster_metadata"
    assert partition["leader_id"] == cluster.controller()
    members = [*partition["current_voters"], *partition["observers"]]
    assert sorted(each["replica_id"] for each in members) == [1, 2, 3]
    assert partition["high_watermark"] > 0
    assert all(each["log_end_offset"] > 0 for each in members)
    assert sorted(each["node_id"] for each in quorum["nodes"]) == [1, 2, 3]
    assert all(each["listeners"][0]["port"] for each in quorum["nodes"])


def test_features_are_described_and_not_raised_beyond_the_code(admin: KafkaAdminClient) -> None:
    told = admin.describe_features()["josefine.version"]
    known = next(each for each in SUPPORTED if each.name == "josefine.version")
    newest = known.max_level
    assert (told["supported"], told["finalized"]) == ((known.min_level, newest), (newest, newest))
    assert told["finalized_epoch"] > 0

    assert admin.update_features({"josefine.version": newest}) == {"josefine.version": "OK"}
    with pytest.raises(InvalidUpdateVersionError):
        admin.update_features({"josefine.version": newest + 1})


def test_brokers_and_controller_are_described(
    admin: KafkaAdminClient, librdkafka: AdminClient, cluster: Cluster
) -> None:
    told = librdkafka.describe_cluster().result(TIMEOUT_S)

    assert sorted(node.id for node in told.nodes) == [1, 2, 3]
    assert told.controller.id == cluster.controller() == admin.describe_cluster()["controller_id"]

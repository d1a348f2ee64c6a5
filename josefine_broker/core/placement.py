"""Which brokers hold which partitions of a new topic. Pure: chance is the `start` and `shift`.

Leaders go round the brokers; followers follow at a distance that grows by one after each round, so
that the brokers which share one leader's partitions differ (Kafka's assignReplicasToBrokers).
"""

from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.limits import PARTITIONS_PER_TOPIC_MAX


def place(
    broker_ids: Iterable[int],
    partition_count: int,
    replication_factor: int,
    *,
    start: int = 0,
    first_partition: int = 0,
) -> tuple[tuple[int, ...], ...]:
    """Replicas per partition from `first_partition` on; the first of each is its leader.

    `start` is the place of partition 0's leader among the brokers. Raises
    KafkaError(invalid_partitions | invalid_replication_factor).
    """
    brokers = sorted(broker_ids)
    if not 1 <= partition_count <= PARTITIONS_PER_TOPIC_MAX - first_partition:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"a topic has 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, "
            f"not {first_partition + partition_count}",
        )
    if not 1 <= replication_factor <= len(brokers):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {replication_factor} with {len(brokers)} brokers",
        )
    return tuple(
        _replicas(brokers, start + partition, partition // len(brokers), replication_factor)
        for partition in range(first_partition, first_partition + partition_count)
    )


def _replicas(brokers: list[int], leader_at: int, rounds: int, count: int) -> tuple[int, ...]:
    size = len(brokers)
    others = range(count - 1)
    distances = (1 + (rounds + follower) % (size - 1) for follower in others)
    return (
        brokers[leader_at % size],
        *(brokers[(leader_at + distance) % size] for distance in distances),
    )


def check_assignment(
    broker_ids: Iterable[int],
    assignment: dict[int, tuple[int, ...]],
    *,
    first_partition: int = 0,
) -> tuple[tuple[int, ...], ...]:
    """A manual assignment {partition: brokers} as replicas, or KafkaError saying what is wrong."""
    known = set(broker_ids)
    wanted = range(first_partition, first_partition + len(assignment))
    if sorted(assignment) != list(wanted) or len(assignment) > PARTITIONS_PER_TOPIC_MAX:
        raise _bad(f"partitions must be numbered {wanted.start} to {wanted.stop - 1} without gaps")
    replicas = tuple(assignment[partition] for partition in wanted)
    for partition, ids in zip(wanted, replicas, strict=True):
        if not ids or len(set(ids)) != len(ids):
            raise _bad(f"partition {partition}: empty or repeated brokers {list(ids)}")
        if not known.issuperset(ids):
            raise _bad(f"partition {partition}: unknown brokers {sorted(set(ids) - known)}")
        if len(ids) != len(replicas[0]):
            raise _bad("all partitions must have the same number of replicas")
    return replicas


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_replica_assignment, message)

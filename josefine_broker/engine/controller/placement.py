"""Placement of a new topic's partitions on brokers. Pure: randomness enters as `start`.

Leaders are assigned round robin. Followers are at a distance from their leader that grows by one
after each round, so that the followers of one leader's partitions differ (Kafka's
assignReplicasToBrokers). If every broker has a rack, neighbours in the round are in different racks
and each replica goes to the rack that has the fewest of its partition (KIP-36); otherwise racks are
ignored.

Replicas are placed on live brokers while there are enough. After these come registered brokers that
are not live, as in Kafka's controller: a broker that restarts is no reason to refuse a topic, and
it is in sync once it is back.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import zip_longest
from types import MappingProxyType

from josefine_broker.base.errors import ErrorCode, KafkaError

Racks = Mapping[int, str | None]
"""The rack of each broker that may hold replicas."""

NOBODY: Racks = MappingProxyType({})

PARTITIONS_PER_TOPIC_MAX = 10_000
"""Keeps the metadata that a client of one topic needs within a megabyte or two."""


def place(
    brokers: Racks,
    partition_count: int,
    replication_factor: int,
    *,
    start: int = 0,
    first_partition: int = 0,
    away: Racks = NOBODY,
) -> tuple[tuple[int, ...], ...]:
    """Replicas per partition from `first_partition` on; the first of each is its leader.

    `brokers` are live; those of `away` are used as little as possible. `start` is the position of
    partition 0's leader in the round. Raises
    KafkaError(invalid_partitions | invalid_replication_factor).
    """
    if not 1 <= partition_count <= PARTITIONS_PER_TOPIC_MAX - first_partition:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"a topic has 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, "
            f"not {first_partition + partition_count}",
        )
    if not brokers:
        raise KafkaError(ErrorCode.invalid_replication_factor, "no broker is live")
    registered = len(brokers) + len(away)
    if not 1 <= replication_factor <= registered:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {replication_factor} is not possible: "
            f"{registered} {'broker is' if registered == 1 else 'brokers are'} registered",
        )
    around, racks = _round(brokers)
    behind, all_racks = _round({**brokers, **away})
    behind = [each for each in behind if each in away]
    of_live = min(replication_factor, len(brokers))
    size = len(around)
    # Replicas on live brokers first, leader included; only then those that are not live, starting
    # at another one for each partition, so that they get equally many.
    placed = []
    for partition in range(first_partition, first_partition + partition_count):
        at = start + partition
        distances = (1 + (partition // size + each) % (size - 1) for each in range(size - 1))
        others = [around[(at + distance) % size] for distance in distances]
        replicas = _joined((around[at % size],), others, racks, of_live)
        first = at % len(behind) if behind else 0
        missing = behind[first:] + behind[:first]
        placed.append(_joined(replicas, missing, all_racks, replication_factor))
    return tuple(placed)


def place_of(brokers: Racks, leader: int) -> int:
    """The `start` at which this leader is first; if it is gone, the one with the next id."""
    around, _ = _round(brokers)
    ids = sorted(brokers)
    return around.index(ids[bisect_left(ids, leader) % len(ids)]) if ids else 0


def _round(brokers: Racks) -> tuple[list[int], Mapping[int, str | int]]:
    """The brokers in round-robin order, and the rack of each."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(brokers):
        rack = brokers[broker_id]
        if rack is None:
            return sorted(brokers), {each: each for each in brokers}
        by_rack.setdefault(rack, []).append(broker_id)
    rows = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    around = [each for row in rows for each in row if each is not None]
    return around, {each: rack for rack, ids in by_rack.items() for each in ids}


def _joined(
    chosen: tuple[int, ...], others: list[int], racks: Mapping[int, str | int], count: int
) -> tuple[int, ...]:
    """The chosen brokers, extended to `count` by the first of the others in the least used rack."""
    used = Counter(racks[each] for each in chosen)
    for _ in range(count - len(chosen)):
        best = min(others, key=lambda each: used[racks[each]])
        others.remove(best)
        chosen += (best,)
        used[racks[best]] += 1
    return chosen


def check_assignment(
    known: Collection[int],
    live: Collection[int],
    assignment: dict[int, tuple[int, ...]],
    *,
    first_partition: int = 0,
) -> tuple[tuple[int, ...], ...]:
    """The replicas of a manual assignment {partition: brokers}. Raises KafkaError naming the error.

    Replicas may be on known brokers that are not live; each partition needs a live one.
    """
    wanted = range(first_partition, first_partition + len(assignment))
    if sorted(assignment) != list(wanted) or len(assignment) > PARTITIONS_PER_TOPIC_MAX:
        raise _bad(f"partitions must be numbered {wanted.start} to {wanted.stop - 1} without gaps")
    replicas = tuple(assignment[partition] for partition in wanted)
    for partition, ids in zip(wanted, replicas, strict=True):
        if not ids or len(set(ids)) != len(ids):
            raise _bad(f"partition {partition}: empty or repeated brokers {list(ids)}")
        unknown = sorted(each for each in ids if each not in known)
        if unknown:
            raise _bad(f"partition {partition}: unknown brokers {unknown}")
        if not any(each in live for each in ids):
            raise _bad(f"partition {partition}: none of brokers {list(ids)} is live")
        if len(ids) != len(replicas[0]):
            raise _bad("all partitions must have the same number of replicas")
    return replicas


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_replica_assignment, message)

"""The choice of the replica to fetch from when the leader names a closer one (KIP-392). No I/O.

Rules: only a leader names a replica, and only to a reader that sends its rack. Requests that the
closer replica cannot answer go to the leader, at once. A replica without new records is left too,
because it may lag, which only its leader knows. A choice expires, as metadata do. So a stale
replica delays a reader by one fetch and never stops it.
"""

from collections.abc import Set

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.session import Session

NEARER_MS = 300_000
"""Kafka's clients ask the leader again with their metadata: metadata.max.age.ms."""

LEADERS = ""
"""The rack of a reader that reads from leaders only."""


def send_near(
    session: Session, routes: dict[int, list[TopicPartition]], now_ms: int
) -> Set[TopicPartition]:
    """Move partitions from their leaders to the replicas these named; returns the moved ones."""
    near = set()
    for leader, partitions in list(routes.items()):
        for tp in list(partitions):
            broker, until_ms = session.nearer.get(tp, (leader, 0))
            if broker == leader or now_ms >= until_ms or broker not in session.cluster.brokers:
                continue
            partitions.remove(tp)
            routes.setdefault(broker, []).append(tp)
            near.add(tp)
        if not partitions:
            del routes[leader]
    return near


def follow(
    session: Session,
    rack_id: str,
    near: Set[TopicPartition],
    found: dict[TopicPartition, FetchedPartition],
    errors: dict[TopicPartition, KafkaError],
    now_ms: int,
) -> str:
    """Remove from `found` and `errors` the partitions to be fetched from another replica; returns
    the rack to send when that is done at once."""
    for tp in near:
        answer = found.get(tp)
        if answer is not None and answer.error_code is ErrorCode.none and answer.records:
            continue
        # No new records, or an error: the replica may lag, so the leader is asked next.
        session.nearer.pop(tp, None)
        if answer is None or answer.error_code is not ErrorCode.none:
            found.pop(tp, None)
            errors.pop(tp, None)
            rack_id = LEADERS
    for tp, answer in list(found.items()):
        broker = answer.preferred_read_replica
        if broker < 0 or tp in near:
            continue
        del found[tp]
        partition = session.cluster.partition(tp)
        if broker in session.cluster.brokers and partition and partition.leader != broker:
            session.nearer[tp] = (broker, now_ms + NEARER_MS)
        else:
            rack_id = LEADERS
    return rack_id

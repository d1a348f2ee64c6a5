"""Reassignment of a partition to other brokers (KIP-455): pure functions from entry to entry.

Rules:
- during a reassignment the replicas are those of the target, then those to be removed. New replicas
  copy; when all of them are in the ISR, and the target has enough in-sync replicas for
  `min.insync.replicas`, the old ones are removed;
- the last request counts: a new target replaces the previous one, and None cancels it;
- a replica with every committed record is removed only then. That includes one which an earlier
  target had added; it is in both `adding` and `removing` for that time. (Kafka drops it at once,
  and with it in some cases the only other copy of acknowledged records);
- the leader epoch ends whenever a replica is removed. If that broker is added again, it starts with
  an empty log, and a fetch of the earlier replica that is still in flight is fenced.
"""

from collections.abc import Collection
from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.engine.metadata.leader_election import Liveness, first, led_by, trusted


def original(entry: PartitionEntry) -> tuple[int, ...]:
    """The replicas before the reassignment in progress."""
    return tuple(each for each in entry.replicas if each not in entry.adding)


def check_target(target: tuple[int, ...], known: Collection[int]) -> None:
    """Raises KafkaError(invalid_replica_assignment) for a target that no partition can have."""
    if not target or len(set(target)) != len(target):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment, f"empty or repeated brokers {list(target)}"
        )
    unknown = sorted(each for each in target if each not in known)
    if unknown:
        raise KafkaError(ErrorCode.invalid_replica_assignment, f"unknown brokers {unknown}")


def retarget(entry: PartitionEntry, target: tuple[int, ...] | None) -> PartitionEntry:
    """The entry with a reassignment to `target`; None cancels the one in progress.

    Raises KafkaError(no_reassignment_in_progress).
    """
    before = original(entry)
    if target is None:
        if not entry.is_reassigning:
            raise KafkaError(ErrorCode.no_reassignment_in_progress, "nothing to cancel")
        target = before
    needed = {*before, *entry.isr, *entry.elr}
    removing = tuple(each for each in entry.replicas if each in needed and each not in target)
    replicas = (*target, *removing)
    adding = tuple(each for each in replicas if each not in before)
    return replace(entry, replicas=replicas, adding=adding, removing=removing)


def complete(
    entry: PartitionEntry, brokers: Liveness, min_insync_replicas: int = 1
) -> PartitionEntry:
    """The entry with the reassignment completed, once the new replicas are in sync; else itself."""
    target = entry.target
    isr = tuple(each for each in entry.isr if each not in entry.removing)
    came = set(entry.adding) - set(entry.removing)
    if not entry.is_reassigning or not came <= set(isr):
        return entry
    if len(isr) < min(min_insync_replicas, len(target)):
        return entry
    leader = entry.leader
    if leader in entry.removing or leader == NO_LEADER:
        leader = first(target, brokers.live & trusted(entry, brokers.unclean).intersection(isr))
    if not isr or leader == NO_LEADER:
        return entry
    elr = tuple(each for each in entry.elr if each not in entry.removing)
    moved = replace(led_by(entry, leader, isr, elr), replicas=target, adding=(), removing=())
    if moved.leader_epoch == entry.leader_epoch and drops_replicas(entry, moved):
        return replace(moved, leader_epoch=LeaderEpoch(entry.leader_epoch + 1))
    return moved


def drops_replicas(before: PartitionEntry, after: PartitionEntry) -> bool:
    """Whether a broker with a replica has none afterwards."""
    return not set(before.replicas) <= set(after.replicas)

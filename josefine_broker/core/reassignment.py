"""Moving a partition to other brokers (KIP-455). Pure: from one entry to the next.

Rules: the replicas of a reassignment under way are the target's, then those that go; new ones copy,
and when all of them are in the ISR the old ones go. What is asked last holds: a new target replaces
the one before, none cancels it. The ISR never loses its last member to it.
"""

from collections.abc import Collection
from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.elections import Liveness, first, led_by
from josefine_broker.core.image import NO_LEADER, PartitionEntry


def original(entry: PartitionEntry) -> tuple[int, ...]:
    """The replicas as they were before the reassignment under way."""
    return tuple(each for each in entry.replicas if each not in entry.adding)


def check_target(target: tuple[int, ...], known: Collection[int]) -> None:
    """Raises KafkaError(invalid_replica_assignment) for a target no partition can have."""
    if not target or len(set(target)) != len(target):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment, f"empty or repeated brokers {list(target)}"
        )
    unknown = sorted(each for each in target if each not in known)
    if unknown:
        raise KafkaError(ErrorCode.invalid_replica_assignment, f"unknown brokers {unknown}")


def retarget(entry: PartitionEntry, target: tuple[int, ...] | None) -> PartitionEntry:
    """The entry on its way to `target`, or back to what it was (None).

    A leader that is no replica any more leads no more; whom else is the controller's to say.
    Raises KafkaError(no_reassignment_in_progress | invalid_replica_assignment).
    """
    before = original(entry)
    if target is None:
        if not entry.is_reassigning:
            raise KafkaError(ErrorCode.no_reassignment_in_progress, "nothing to cancel")
        target = before
    removing = tuple(each for each in before if each not in target)
    replicas = (*target, *removing)
    isr = tuple(each for each in entry.isr if each in replicas)
    if entry.isr and not isr:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"only brokers {list(entry.isr)} have every record: they cannot all be left out",
        )
    leader = entry.leader if entry.leader in replicas else NO_LEADER
    return replace(
        led_by(entry, leader, isr, tuple(each for each in entry.elr if each in replicas)),
        replicas=replicas,
        adding=tuple(each for each in target if each not in before),
        removing=removing,
    )


def complete(entry: PartitionEntry, brokers: Liveness) -> PartitionEntry:
    """The entry without the replicas that go, once the new ones are in sync; else itself."""
    if not entry.is_reassigning or not set(entry.adding) <= set(entry.isr):
        return entry
    isr = tuple(each for each in entry.isr if each not in entry.removing)
    leader = entry.leader
    if leader in entry.removing:
        leader = first(entry.target, brokers.live.intersection(isr))
    if not isr or leader == NO_LEADER:
        return entry
    elr = tuple(each for each in entry.elr if each not in entry.removing)
    moved = led_by(entry, leader, isr, elr)
    return replace(moved, replicas=entry.target, adding=(), removing=())

"""What becomes of one partition when brokers come and go. Pure functions of entry and liveness.

Rules: a leader comes from the in-sync replicas, first in replica order; from outside only where the
topic allows unclean elections, and then the ISR is that replica alone. A replica that may have lost
records (KIP-966) leaves the ISR before anybody is elected; the last member of an ISR never leaves
it, dead or alive, because nobody else is known to have every committed record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from josefine_broker.core.image import NO_LEADER, BrokerEntry, PartitionEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """The brokers as an election sees them."""

    live: frozenset[int]
    """Neither fenced nor about to stop: may be elected, may join an ISR."""
    heard: frozenset[int]
    """Not fenced: may go on leading."""
    unclean: frozenset[int]
    """Came back from an unclean shutdown and are not cleared yet."""

    @classmethod
    def of(cls, brokers: Mapping[int, BrokerEntry]) -> "Liveness":
        each = brokers.values()
        return cls(
            live=frozenset(b.broker_id for b in each if b.is_live),
            heard=frozenset(b.broker_id for b in each if not b.fenced),
            unclean=frozenset(b.broker_id for b in each if b.unclean),
        )


def settle(entry: PartitionEntry, brokers: Liveness, *, unclean_allowed: bool) -> PartitionEntry:
    """The entry with the ISR and leader that these brokers leave it; itself when nothing changes.

    Epochs: the leader epoch grows when the leader changes; the partition epoch is the applier's.
    """
    clean = _kept(entry.isr, frozenset(entry.isr) - brokers.unclean)
    isr = _kept(clean, brokers.live, brokers.heard)
    if entry.leader in isr and entry.leader in brokers.heard:
        leader = entry.leader
    else:
        leader = first(entry.replicas, brokers.live.intersection(isr))
        if leader == NO_LEADER and unclean_allowed:
            leader = first(entry.replicas, brokers.live)
            isr = isr if leader == NO_LEADER else (leader,)
    return led_by(entry, leader, isr)


def led_by(entry: PartitionEntry, leader: int, isr: tuple[int, ...]) -> PartitionEntry:
    """The entry under that leader; the same object when that changes nothing."""
    if leader == entry.leader and isr == entry.isr:
        return entry
    return replace(
        entry,
        leader=leader,
        isr=isr,
        leader_epoch=entry.leader_epoch + (leader != entry.leader),
    )


def prefer(entry: PartitionEntry, brokers: Liveness) -> PartitionEntry:
    """Led by its first replica, if that is in sync and live."""
    preferred = entry.replicas[0]
    if preferred not in entry.isr or preferred not in brokers.live:
        return entry
    return led_by(entry, preferred, entry.isr)


def first(replicas: tuple[int, ...], among: frozenset[int]) -> int:
    """The first of the replicas that is among them, or NO_LEADER."""
    return next((each for each in replicas if each in among), NO_LEADER)


def _kept(members: tuple[int, ...], *wanted: frozenset[int]) -> tuple[int, ...]:
    """The members in the first of `wanted` that has any; all of them when none has."""
    for each in wanted:
        kept = tuple(member for member in members if member in each)
        if kept:
            return kept
    return members

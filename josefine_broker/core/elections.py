"""What becomes of one partition when brokers come and go. Pure functions of entry and liveness.

Rules:
- a leader comes from the in-sync replicas (ISR), first in replica order; else from the eligible
  leader replicas (ELR, KIP-966); from others only where the topic allows unclean elections;
- a replica that left an ISR below `min.insync.replicas` joins the ELR: from then on the high
  watermark stands still, so the replica has every committed record. An ISR that is large enough
  empties the ELR;
- a replica that may have lost records leaves ISR and ELR before anybody is elected;
- while nobody else is known to have every committed record, the last members stay in the ISR, dead
  or alive.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from josefine_broker.base.errors import ErrorCode, KafkaError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """What a topic's configuration says."""

    min_insync_replicas: int = 1
    unclean_allowed: bool = False


def settle(entry: PartitionEntry, brokers: Liveness, rules: ElectionRules) -> PartitionEntry:
    """The entry with the ISR, ELR and leader that these brokers leave it; itself when nothing
    changes. The leader epoch grows when the leader changes; the partition epoch is the applier's.
    """
    if entry.leader in entry.isr and brokers.live.issuperset(entry.isr) and not brokers.unclean:
        return entry
    members = _Members(entry, brokers, rules)
    isr = members.isr
    if entry.leader in isr and entry.leader in brokers.heard:
        return members.led_by(entry.leader, isr)
    leader = first(entry.replicas, brokers.live.intersection(isr))
    if leader != NO_LEADER:
        return members.led_by(leader, isr)
    leader = first(entry.replicas, brokers.live.intersection(members.elr))
    if leader != NO_LEADER:
        return members.led_by(leader, (leader,))
    if rules.unclean_allowed:
        leader = first(entry.replicas, brokers.live)
        if leader != NO_LEADER:
            return led_by(entry, leader, (leader,), ())
    return members.led_by(NO_LEADER, isr)


class _Members:
    """Who of a partition's ISR and ELR is left."""

    __slots__ = ("_entry", "_rules", "complete", "elr", "isr")

    def __init__(self, entry: PartitionEntry, brokers: Liveness, rules: ElectionRules) -> None:
        self._entry = entry
        self._rules = rules
        complete = [*entry.isr, *entry.elr]
        self.complete = frozenset(complete) - brokers.unclean or frozenset(complete)
        """Those known to have every committed record; all, when all came back unclean."""
        isr = tuple(each for each in entry.isr if each in self.complete)
        self.isr = _kept(isr, brokers.live, brokers.heard)
        self.elr = tuple(each for each in entry.elr if each in self.complete)

    def led_by(self, leader: int, isr: tuple[int, ...]) -> PartitionEntry:
        elr = eligible(self._entry, isr, self._rules.min_insync_replicas, self.complete)
        return led_by(self._entry, leader, isr, elr)


def eligible(
    entry: PartitionEntry,
    isr: tuple[int, ...],
    min_insync_replicas: int,
    complete: Collection[int] | None = None,
) -> tuple[int, ...]:
    """The ELR once `isr` is the ISR: who leaves an ISR too small to confirm anything, and who had.

    `complete`: those of ISR and ELR that did not lose records; None: all.
    """
    if len(isr) >= min(min_insync_replicas, len(entry.replicas)):
        return ()
    return tuple(
        each
        for each in sorted({*entry.isr, *entry.elr})
        if each not in isr and (complete is None or each in complete)
    )


def prefer(entry: PartitionEntry, brokers: Liveness) -> PartitionEntry:
    """Led by its first replica, if that is in sync and live."""
    preferred = entry.replicas[0]
    if preferred not in entry.isr or preferred not in brokers.live:
        return entry
    return led_by(entry, preferred, entry.isr, entry.elr)


class ElectionType(Enum):
    """What ElectLeaders may ask for, by its numbers (KIP-460)."""

    PREFERRED = 0  # the first replica, from the ISR
    UNCLEAN = 1  # anybody, where nobody leads: records may be lost


def elect(
    entry: PartitionEntry, brokers: Liveness, rules: ElectionRules, election: ElectionType
) -> PartitionEntry:
    """The entry under a leader that was asked for by a person.

    Raises KafkaError(election_not_needed | preferred_leader_not_available |
    eligible_leaders_not_available).
    """
    if election is ElectionType.PREFERRED:
        preferred = entry.replicas[0]
        if entry.leader == preferred:
            raise KafkaError(ErrorCode.election_not_needed, "the preferred replica leads")
        after = prefer(entry, brokers)
        if after.leader != preferred:
            raise KafkaError(
                ErrorCode.preferred_leader_not_available,
                f"the preferred replica, broker {preferred}, is not live or not in sync",
            )
        return after
    if entry.leader != NO_LEADER:
        raise KafkaError(ErrorCode.election_not_needed, f"broker {entry.leader} leads")
    after = settle(entry, brokers, replace(rules, unclean_allowed=True))
    if after.leader == NO_LEADER:
        raise KafkaError(ErrorCode.eligible_leaders_not_available, "none of the replicas is live")
    return after


def led_by(
    entry: PartitionEntry, leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> PartitionEntry:
    """The entry under that leader; the same object when that changes nothing."""
    if (leader, isr, elr) == (entry.leader, entry.isr, entry.elr):
        return entry
    leader_epoch = entry.leader_epoch + (leader != entry.leader)
    return replace(entry, leader=leader, isr=isr, elr=elr, leader_epoch=leader_epoch)


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

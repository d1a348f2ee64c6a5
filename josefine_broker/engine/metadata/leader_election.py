"""Leader election and ISR of one partition: pure functions of its entry and the live brokers.

Rules:
- a leader comes from the in-sync replicas (ISR), first in replica order; else from the eligible
  leader replicas (ELR, KIP-966); else from any replica if the topic allows unclean elections;
- a replica that leaves an ISR below `min.insync.replicas` joins the ELR: from then on the high
  watermark does not move, so the replica has every committed record. An ISR that is large enough
  empties the ELR;
- a replica that may have lost records leaves ISR and ELR before an election if another member has
  the records. If none has, replicas that lost only what a power failure takes may lead as usual; a
  log that is known to lack records, or is missing, leads only after an unclean election;
- while no replica with every committed record is available, there is no leader, and the last
  members stay in the ISR, whether they are live or in doubt.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.image import NO_LEADER, BrokerEntry, Doubt, PartitionEntry
from josefine_broker.engine.metadata.log_completeness import Completeness, LogKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """The brokers by liveness, as an election needs them."""

    live: frozenset[int]
    """Neither fenced nor about to stop: may be elected, and may join an ISR."""
    heard: frozenset[int]
    """Not fenced: may stay leader."""
    unclean: frozenset[int]
    """Registered after an unclean shutdown, and not cleared yet."""

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
    """The topic settings that elections depend on."""

    min_insync_replicas: int = 1
    unclean_allowed: bool = False


def with_better_claims(
    entry: PartitionEntry, claims: Mapping[int, Mapping[LogKey, Completeness]], key: LogKey
) -> PartitionEntry:
    """The entry with the doubts that are left once these brokers' running processes have opened
    logs that were unreadable when they registered; itself if that changes nothing."""
    if not claims or not entry.doubts:
        return entry
    doubts = []
    for broker_id, known in entry.doubts:
        claim = claims.get(broker_id, {}).get(key)
        found = known if claim is None else claim.after(known)
        if found is not Completeness.COMPLETE:
            doubts.append(Doubt(broker_id, found))
    return entry if tuple(doubts) == entry.doubts else replace(entry, doubts=tuple(doubts))


def settle(entry: PartitionEntry, brokers: Liveness, rules: ElectionRules) -> PartitionEntry:
    """The entry with ISR, ELR and leader adjusted to these brokers; itself when nothing changes.
    The leader epoch grows when the leader changes; `apply` raises the partition epoch.
    """
    in_doubt = brokers.unclean or entry.doubts
    if entry.leader in entry.isr and brokers.live.issuperset(entry.isr) and not in_doubt:
        return entry
    members = _Members(entry, brokers, rules)
    # The order is the safety rule: a clean leader from the ISR, then from the ELR, and only then a
    # replica that may lack committed records. Each step is tried only if the one before has none.
    isr, trusted = members.isr, members.trusted
    if entry.leader in isr and entry.leader in brokers.heard and entry.leader in trusted:
        return members.led_by(entry.leader, isr)
    leader = first(entry.replicas, brokers.live & trusted.intersection(isr))
    if leader != NO_LEADER:
        return members.led_by(leader, isr)
    leader = first(entry.replicas, brokers.live & trusted.intersection(members.elr))
    if leader != NO_LEADER:
        return members.led_by(leader, (leader,))
    if rules.unclean_allowed:
        leader = _least_doubted(entry, brokers)
        if leader != NO_LEADER:
            return led_by(entry, leader, (leader,), ())
    return members.led_by_nobody()


class _Members:
    """The ISR and ELR of a partition without the replicas that are dead or in doubt."""

    __slots__ = ("_entry", "_rules", "elr", "isr", "trusted")

    def __init__(self, entry: PartitionEntry, brokers: Liveness, rules: ElectionRules) -> None:
        self._entry = entry
        self._rules = rules
        self.trusted = trusted(entry, brokers.unclean)
        counted = self.trusted or frozenset((*entry.isr, *entry.elr))
        """If no member is trusted there is no leader, and all members stay on record."""
        isr = tuple(each for each in entry.isr if each in counted)
        self.isr = _kept(isr, brokers.live, brokers.heard) if self.trusted else isr
        self.elr = tuple(each for each in entry.elr if each in counted)

    def led_by(self, leader: int, isr: tuple[int, ...]) -> PartitionEntry:
        elr = eligible(self._entry, isr, self._rules.min_insync_replicas, self.trusted or None)
        return led_by(self._entry, leader, isr, elr)

    def led_by_nobody(self) -> PartitionEntry:
        """The entry without a leader. Replicas in doubt stay on record with the others, which may
        turn out to be no better when they return."""
        entry = self._entry
        in_doubt = {each.broker_id for each in entry.doubts}
        isr = tuple(each for each in entry.isr if each in self.isr or each in in_doubt)
        known = (self.trusted or {*entry.isr, *entry.elr}) | in_doubt
        elr = eligible(entry, isr, self._rules.min_insync_replicas, known)
        return led_by(entry, NO_LEADER, isr, elr)


def trusted(entry: PartitionEntry, unclean: frozenset[int] = frozenset()) -> frozenset[int]:
    """The members of ISR and ELR that have every committed record. If there are none, those that
    lost only what a power failure takes; else nobody. `unclean`: brokers in doubt as a whole.
    """
    members = {*entry.isr, *entry.elr}
    if not entry.doubts:
        return frozenset(members - unclean or members)
    known = {each: entry.completeness_of(each) for each in members}
    complete = (key for key, each in known.items() if each is Completeness.COMPLETE)
    may_lead = (key for key, each in known.items() if each.may_lead)
    return frozenset(complete) - unclean or frozenset(may_lead)


def is_clean(entry: PartitionEntry, leader: int, unclean: frozenset[int]) -> bool:
    """Whether this leader has every record that was committed in `entry`, as far as known."""
    is_member = leader in entry.isr or leader in entry.elr
    is_complete = entry.completeness_of(leader) is Completeness.COMPLETE
    return is_member and is_complete and leader not in unclean


def _least_doubted(entry: PartitionEntry, brokers: Liveness) -> int:
    """The leader of an unclean election: a log that is known to lack records comes last."""
    live = [each for each in entry.replicas if each in brokers.live]
    return min(live, key=lambda each: entry.completeness_of(each).rank, default=NO_LEADER)


def eligible(
    entry: PartitionEntry,
    isr: tuple[int, ...],
    min_insync_replicas: int,
    complete: Collection[int] | None = None,
) -> tuple[int, ...]:
    """The ELR once `isr` is the ISR: replicas that leave an ISR too small to commit, and earlier
    ones.

    `complete`: the members of ISR and ELR that did not lose records; None: all.
    """
    if len(isr) >= min(min_insync_replicas, len(entry.replicas)):
        return ()
    return tuple(
        each
        for each in sorted({*entry.isr, *entry.elr})
        if each not in isr and (complete is None or each in complete)
    )


def prefer(entry: PartitionEntry, brokers: Liveness) -> PartitionEntry:
    """The entry led by its preferred (first) replica, if that is in sync and live."""
    preferred = entry.replicas[0]
    is_sound = preferred in trusted(entry, brokers.unclean)
    if preferred not in entry.isr or preferred not in brokers.live or not is_sound:
        return entry
    return led_by(entry, preferred, entry.isr, entry.elr)


class ElectionType(Enum):
    """The elections that ElectLeaders can request, with their numbers (KIP-460)."""

    PREFERRED = 0  # the first replica, from the ISR
    UNCLEAN = 1  # any replica, if there is no leader: records may be lost


def elect(
    entry: PartitionEntry, brokers: Liveness, rules: ElectionRules, election: ElectionType
) -> PartitionEntry:
    """The entry after an election that an operator requested.

    Raises KafkaError(election_not_needed | preferred_leader_not_available |
    eligible_leaders_not_available).
    """
    if election is ElectionType.PREFERRED:
        preferred = entry.replicas[0]
        if entry.leader == preferred:
            raise KafkaError(ErrorCode.election_not_needed, "the preferred replica is the leader")
        after = prefer(entry, brokers)
        if after.leader != preferred:
            raise KafkaError(
                ErrorCode.preferred_leader_not_available,
                f"the preferred replica, broker {preferred}, is not live or not in sync",
            )
        return after
    if entry.leader != NO_LEADER:
        raise KafkaError(ErrorCode.election_not_needed, f"broker {entry.leader} is the leader")
    after = settle(entry, brokers, replace(rules, unclean_allowed=True))
    if after.leader == NO_LEADER:
        raise KafkaError(ErrorCode.eligible_leaders_not_available, "no replica is live")
    return after


def led_by(
    entry: PartitionEntry, leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> PartitionEntry:
    """The entry with that leader; the same object when nothing changes."""
    if (leader, isr, elr) == (entry.leader, entry.isr, entry.elr):
        return entry
    leader_epoch = LeaderEpoch(entry.leader_epoch + (leader != entry.leader))
    return replace(entry, leader=leader, isr=isr, elr=elr, leader_epoch=leader_epoch)


def first(replicas: tuple[int, ...], among: frozenset[int]) -> int:
    """The first replica that is in `among`, or NO_LEADER."""
    return next((each for each in replicas if each in among), NO_LEADER)


def _kept(members: tuple[int, ...], *wanted: frozenset[int]) -> tuple[int, ...]:
    """The members in the first set of `wanted` that has any; all of them when none has."""
    for each in wanted:
        kept = tuple(member for member in members if member in each)
        if kept:
            return kept
    return members

"""The controller: it decides which brokers are live and which replica leads. It runs on the leader
of the metadata Raft.

Rules: it is a function of the image, the heartbeats and the time; it changes nothing itself but
returns what to propose. The host keeps one decision in flight: it calls `decide` when the last one
was applied or refused, after each other applied block, and when `wake_at_ms` has come (which may
change with each heartbeat). A new controller gives every broker one full session before it fences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from josefine_broker.engine.controller.membership import MemberChange, next_member_change
from josefine_broker.engine.metadata.changes import BrokerState, Decision, PartitionState
from josefine_broker.engine.metadata.config_texts import flag
from josefine_broker.engine.metadata.image import (
    BrokerEntry,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.engine.metadata.leader_election import (
    ElectionRules,
    Liveness,
    prefer,
    settle,
    with_better_claims,
)
from josefine_broker.engine.metadata.log_completeness import Completeness, LogKey
from josefine_broker.engine.metadata.reassignment import complete

DECISION_PARTITIONS_MAX = 5_000
"""Partitions in one decision: half a megabyte of block; the rest follows in the next one."""

UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_INSYNC = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Cluster-wide settings; the defaults are Kafka's."""

    session_timeout_ms: int = 9_000
    """A broker without a heartbeat for this long is fenced."""
    imbalance_check_interval_ms: int = 300_000
    """How often leaderships move back to preferred replicas."""
    unclean_leader_election: bool = False
    min_insync_replicas: int = 1
    """These two apply to topics that do not set them."""
    voters_max: int = 3
    """Number of brokers that vote in Raft; the others are observers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A broker's heartbeat, sent every few hundred milliseconds."""

    broker_id: int
    broker_epoch: int
    applied_height: int
    """How far it has applied the chain: it is unfenced once it has its own registration."""
    wants_shutdown: bool = False
    better_claims: Mapping[LogKey, Completeness] = field(default_factory=dict)
    """The logs that are more complete than its registration claimed: it could not read them then,
    and could open them later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """The controller's view of that broker."""

    known_epoch: bool
    """False: the controller's image has another incarnation, or none (yet)."""
    fenced: bool
    may_stop: bool
    """It asked to stop, and nothing is left that another broker could take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contact:
    """The last heartbeat of one broker."""

    epoch: int
    heard_at_ms: int
    applied_height: int
    wants_shutdown: bool
    better_claims: Mapping[LogKey, Completeness] = field(default_factory=dict)


class _View(NamedTuple):
    """What the states of partitions depend on, apart from the image."""

    brokers: Liveness
    better_claims: Mapping[int, Mapping[LogKey, Completeness]]
    """By broker: what its heartbeats claim in place of its registration."""


class Controller:
    """The controller's state. `lead` starts it when Raft leads and has applied the first block of
    its own term, `resign` ends it; in between come `heartbeat` and `decide`."""

    def __init__(self, broker_id: int, config: ControllerConfig) -> None:
        self.broker_id = broker_id
        self.config = config
        self._term: int | None = None
        self._contacts: dict[int, _Contact] = {}
        """The last heartbeat of each broker, since this controller leads."""
        self._watched: frozenset[int] = frozenset()
        """Brokers that were not fenced at the last decision: they are fenced after a silence."""
        self._look_at_ms: int | None = None
        """When a heartbeat or a loss requires a decision; None: neither does."""
        self._balance_at_ms = 0
        """When leaderships next move back to preferred replicas."""
        self._steady: dict[str, TopicEntry] = {}
        """Topics that needed no change under `_view`: not checked again while both are the same."""
        self._view: _View | None = None

    @property
    def term(self) -> int | None:
        """The term that it decides in; None: it is inactive."""
        return self._term

    def lead(self, term: int, image: MetadataImage, now_ms: int) -> None:
        """Start in Raft's `term`; `image` includes that term's first block.

        Before the first block of its own term is committed, a Raft leader does not know which
        blocks of earlier terms are (Raft paper, sections 5.4.2 and 8): a decision could be about an
        image that is out of date.
        """
        self._term = term
        self._contacts = {
            broker.broker_id: _Contact(
                epoch=broker.epoch,
                heard_at_ms=now_ms,
                # Unknown yet: a fenced broker needs a heartbeat of its own before it is unfenced.
                applied_height=-1,
                wants_shutdown=broker.shutting_down,
            )
            for broker in image.brokers.values()
            # Fenced ones have no session: their next heartbeat starts one.
            if not broker.fenced
        }
        self._watched = frozenset(self._contacts)
        self._look_at_ms = now_ms
        self._balance_at_ms = now_ms + self.config.imbalance_check_interval_ms

    def resign(self) -> None:
        """Stop: Raft does not lead any more. The next controller collects its own heartbeats."""
        self._term = None
        self._contacts = {}
        self._watched = frozenset()
        self._look_at_ms = None
        self._steady = {}

    def heartbeat(self, beat: Heartbeat, image: MetadataImage, now_ms: int) -> HeartbeatAnswer:
        """Take a broker's heartbeat and return the answer.

        `now_ms` is monotonic. A broker epoch is of one process (KIP-631): a late heartbeat of an
        earlier process must not count for its successor.
        """
        broker = image.brokers.get(beat.broker_id)
        # The broker must not act on this answer: its registration may not be applied here yet.
        if self._term is None or broker is None or broker.epoch != beat.broker_epoch:
            return HeartbeatAnswer(known_epoch=False, fenced=True, may_stop=False)
        before = self._contacts.get(beat.broker_id)
        self._contacts[beat.broker_id] = _Contact(
            epoch=beat.broker_epoch,
            heard_at_ms=now_ms,
            applied_height=beat.applied_height,
            wants_shutdown=beat.wants_shutdown,
            better_claims=beat.better_claims,
        )
        # Such a heartbeat may change the image; the many others cost no decision.
        has_news = beat.better_claims != (before.better_claims if before is not None else {})
        if broker.fenced or broker.shutting_down != beat.wants_shutdown or has_news:
            self._look_at_ms = now_ms
        return HeartbeatAnswer(
            known_epoch=True,
            fenced=broker.fenced,
            may_stop=beat.wants_shutdown and _may_stop(image, broker),
        )

    def lost(self, broker_id: int, now_ms: int) -> None:
        """Drop a broker whose process is known to be gone, before its session times out."""
        contact = self._contacts.pop(broker_id, None)
        if contact is not None:
            self._watched -= {broker_id}
            self._look_at_ms = now_ms

    def wake_at_ms(self) -> int | None:
        """When `decide` is due if nothing else happens; None: inactive."""
        if self._term is None:
            return None
        timeout_ms = self.config.session_timeout_ms
        # Sessions of brokers that are fenced already need no timer.
        wakes = [self._contacts[each].heard_at_ms + timeout_ms for each in self._watched]
        wakes.append(self._balance_at_ms)
        if self._look_at_ms is not None:
            wakes.append(self._look_at_ms)
        return min(wakes)

    def decide(self, image: MetadataImage, now_ms: int) -> Decision | None:
        """The decision to propose now; None: no change is needed. The same one again until
        something changes."""
        if self._term is None:
            return None
        self._look_at_ms = None
        brokers = {key: self._judge(image, each, now_ms) for key, each in image.brokers.items()}
        # By identity: `_judge` returns the same object when nothing changes.
        changed = [each for key, each in brokers.items() if each is not image.brokers[key]]
        self._watched = frozenset(
            key for key, each in image.brokers.items() if not each.fenced and key in self._contacts
        )
        view = _View(Liveness.of(brokers), self._better_claims(image))
        partitions = self._partitions(image, view, now_ms)
        if not changed and not partitions:
            return None
        return Decision(
            controller_term=self._term,
            reason=_reason(image, changed, len(partitions)),
            brokers=tuple(
                BrokerState(b.broker_id, b.epoch, b.fenced, b.shutting_down, b.unclean)
                for b in changed
            ),
            partitions=partitions,
        )

    # -- brokers

    def _judge(self, image: MetadataImage, broker: BrokerEntry, now_ms: int) -> BrokerEntry:
        """The broker's entry after its heartbeats; the same object when nothing changes."""
        contact = self._contacts.get(broker.broker_id)
        heard = (
            contact is not None
            and contact.epoch == broker.epoch
            and now_ms < contact.heard_at_ms + self.config.session_timeout_ms
        )
        # KIP-966: cleared once no ISR and no ELR counts on it; a replica that joins again has
        # copied.
        unclean = broker.unclean and _is_trusted(image, broker.broker_id)
        # A broker that may have lost records stays fenced while an ISR counts on it, although
        # another member has the records: unfenced, it could be elected and lose them for all.
        if not heard or contact is None:
            fenced, shutting_down = True, broker.shutting_down
        else:
            shutting_down = contact.wants_shutdown
            # A broker's epoch is the height of its registration: it has then seen that it is
            # registered.
            is_up_to_date = contact.applied_height >= broker.epoch
            fenced = broker.fenced and (unclean or shutting_down or not is_up_to_date)
        known = broker.fenced, broker.shutting_down, broker.unclean
        if known == (fenced, shutting_down, unclean):
            return broker
        return replace(broker, fenced=fenced, shutting_down=shutting_down, unclean=unclean)

    def members(
        self,
        image: MetadataImage,
        voters: Collection[int],
        learners: Collection[int],
        caught_up: Collection[int],
    ) -> MemberChange | None:
        """The next change of Raft's members; None: none is due, or this controller is inactive."""
        if self._term is None:
            return None
        return next_member_change(
            image, voters, learners, caught_up, voters_max=self.config.voters_max
        )

    # -- partitions

    def _better_claims(self, image: MetadataImage) -> Mapping[int, Mapping[LogKey, Completeness]]:
        """By broker, of the processes that the image has: a later one may have lost the log."""
        return {
            broker_id: contact.better_claims
            for broker_id, contact in self._contacts.items()
            if contact.better_claims and broker_id in image.brokers
            if image.brokers[broker_id].epoch == contact.epoch
        }

    def _partitions(
        self, image: MetadataImage, view: _View, now_ms: int
    ) -> tuple[PartitionState, ...]:
        """States of the partitions that have to change, at most DECISION_PARTITIONS_MAX of them."""
        balances = now_ms >= self._balance_at_ms
        if balances or view != self._view:
            self._steady, self._view = {}, view
        states: list[PartitionState] = []
        for name, topic in image.topics.items():
            # By identity: a topic that changed is another object in the image.
            if self._steady.get(name) is topic:
                continue
            found = self._topic_states(topic, view, balances=balances)
            states += found
            if not found:
                self._steady[name] = topic
            # One block has a limit. The image after it makes the controller decide about the rest.
            if len(states) >= DECISION_PARTITIONS_MAX:
                return tuple(states[:DECISION_PARTITIONS_MAX])
        # Only when nothing is left to balance: a bounded decision continues in the next one.
        if balances and not states:
            self._balance_at_ms = now_ms + self.config.imbalance_check_interval_ms
        return tuple(states)

    def _topic_states(
        self, topic: TopicEntry, view: _View, *, balances: bool
    ) -> list[PartitionState]:
        """The new state of each partition of a topic that has to change; at most one step each."""
        rules, brokers = self.rules(topic), view.brokers
        states = []
        for partition, in_image in enumerate(topic.partitions):
            # The image keeps a doubt until that replica leads or has copied; one that leads in
            # spite of it asks the others for more before it serves (`replicas/catching_up.py`).
            entry = with_better_claims(in_image, view.better_claims, (topic.topic_id, partition))
            # In this order: a leader first, then the end of a reassignment, then the preferred
            # leader.
            after = settle(entry, brokers, rules)
            if after is entry and (entry.adding or entry.removing):
                after = complete(entry, brokers, rules.min_insync_replicas)
            if after is entry and balances:
                after = prefer(entry, brokers)
            if after is not entry:
                states.append(PartitionState.of(topic.topic_id, partition, entry, after))
        return states

    def rules(self, topic: TopicEntry) -> ElectionRules:
        """The election settings of a topic, over the cluster's defaults."""
        config = dict(topic.config)
        unclean, in_sync = config.get(UNCLEAN_ELECTION), config.get(MIN_INSYNC)
        return ElectionRules(
            min_insync_replicas=int(in_sync or self.config.min_insync_replicas),
            unclean_allowed=self.config.unclean_leader_election
            if unclean is None
            else flag(unclean),
        )


def _all_partitions(image: MetadataImage) -> Iterator[PartitionEntry]:
    """Of all topics, in no particular order."""
    for topic in image.topics.values():
        yield from topic.partitions


def _is_trusted(image: MetadataImage, broker_id: int) -> bool:
    """Whether an ISR or ELR still counts on a broker that may have lost records, although another
    of its members did not."""
    unclean = frozenset(key for key, broker in image.brokers.items() if broker.unclean)
    return any(
        (broker_id in entry.isr or broker_id in entry.elr)
        and not unclean.issuperset((*entry.isr, *entry.elr))
        for entry in _all_partitions(image)
    )


def _may_stop(image: MetadataImage, broker: BrokerEntry) -> bool:
    """Whether no partition is left whose ISR has it and a live broker that could lead instead."""
    live = image.live_brokers()
    # In the image, not only asked for: from then on it gets no new leadership.
    return broker.shutting_down and not any(
        broker.broker_id in entry.isr and not live.isdisjoint(entry.isr)
        for entry in _all_partitions(image)
    )


def _reason(image: MetadataImage, brokers: list[BrokerEntry], partitions: int) -> str:
    """For people who read the chain; `apply` ignores it."""
    said = []
    for broker in brokers:
        before = image.brokers[broker.broker_id]
        if broker.fenced != before.fenced:
            said.append(f"broker {broker.broker_id} {'fenced' if broker.fenced else 'unfenced'}")
        if broker.shutting_down != before.shutting_down:
            verb = "stops" if broker.shutting_down else "stays"
            said.append(f"broker {broker.broker_id} {verb}")
        if broker.unclean != before.unclean:
            said.append(f"broker {broker.broker_id} cleared")
    if partitions:
        said.append(f"{partitions} partition{'' if partitions == 1 else 's'} changed")
    return ", ".join(said)

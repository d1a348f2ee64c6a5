"""A cluster without sockets for the controller: blocks, processes, their logs, and a clock.

Real are `Controller`, `apply`, elections and the codec; the world plays brokers that start, stop,
die, lose power, fall silent and lag, partition leaders that change ISRs, people who move partitions
and elect leaders, and controllers that follow one another. It drives the controller as its host
does: one decision in flight, `decide` after each block and when `wake_at_ms` has come, and now and
then lets another block slip in before a decision. `controller_rules.py` says what must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.controller.controller import Controller, ControllerConfig, Heartbeat
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import (
    AlterIsr,
    At,
    Change,
    CreateTopic,
    Decision,
    IsrItem,
    Origin,
    RegisterBroker,
)
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.engine.metadata.leader_election import eligible
from tests.unit.josefine_broker.engine.controller import controller_rules as rules
from tests.unit.josefine_broker.engine.controller.controller_rules import Heard

SESSION_MS = 1_000
BALANCE_MS = 20_000
BEAT_MS = 250
BROKERS = (1, 2, 3, 4, 5)
CONFIG = ControllerConfig(session_timeout_ms=SESSION_MS, imbalance_check_interval_ms=BALANCE_MS)

Replica = tuple[int, UUID, int]
"""(broker, topic, partition)."""


@dataclass(slots=True)
class Process:
    """One incarnation of a broker while it lives."""

    incarnation: str
    epoch: int
    is_silent: bool = False
    """It runs, and the controller does not hear it."""
    lag: int = 0
    """Blocks that it has not applied yet."""
    wants_shutdown: bool = False


class World:
    """See the module. What a test may do to it is in `test_controller_model.py`."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.height = 0
        self.term = 1
        self.starts = 0
        self.image = self.twin = MetadataImage(cluster_id="c")
        """As two brokers have it, of which one reads each change from its bytes."""
        self.processes: dict[int, Process] = {}
        self.kept: dict[int, int] = {}
        """Epoch of the last process of each broker that has everything it wrote: it stopped, or
        was killed, and its machine did not lose power."""
        self.lost_power: set[int] = set()
        self.logs: dict[Replica, frozenset[int]] = {}
        self.confirmed: dict[tuple[UUID, int], frozenset[int]] = {}
        self.records = 0
        self.leaders: dict[tuple[UUID, int, int], str] = {}
        self.heard: dict[int, Heard] = {}
        self.balance_at_ms = 0
        self.stale: list[Decision] = []
        self.old_changes: list[AlterIsr] = []
        self.delayed: list[AlterIsr] = []
        """On their way to the Raft leader."""
        self.zombies: list[tuple[int, Process]] = []
        """Superseded, and still running."""
        self.decisions = 0
        self.is_quiet = False
        """No block of anybody else's slips in before a decision."""
        self.controller = Controller(0, CONFIG)
        self.lead()
        for broker_id in BROKERS:
            self.start(broker_id)
            self.after_block()
        self.pass_ms(BEAT_MS)

    # -- the chain

    def commit(self, change: Change) -> bool:
        """The next block; whether it was not refused."""
        self.height += 1
        at = At(self.term, self.height)
        before = self.image
        again, _ = decode_change(encode_change(change, Origin(1, 1)))
        refused = 0
        try:
            self.image = apply(self.image, change, at)
        except KafkaError:
            refused += 1
        try:
            self.twin = apply(self.twin, again, at)
        except KafkaError:
            refused += 1
        assert self.image == self.twin, "equal images at equal blocks"
        assert refused in (0, 2)
        rules.check_step(before, self.image, change, self.leaders)
        return refused == 0

    def lead(self) -> None:
        """Raft has another leader, or the same one again: a new term, a new controller."""
        if self.rng.random() < 0.5:
            self.controller = Controller(0, CONFIG)
        else:
            self.controller.resign()
            assert self.controller.decide(self.image, self.now_ms) is None
            assert self.controller.wake_at_ms() is None
        self.controller.lead(self.term, self.image, self.now_ms)
        self.balance_at_ms = self.now_ms + BALANCE_MS
        self.heard = {
            key: Heard(each.epoch, self.now_ms, -1, each.shutting_down)
            for key, each in self.image.brokers.items()
            if not each.fenced
        }

    def settle(self) -> None:
        """The host's loop: decide, propose, apply, until nothing is left to do."""
        for _ in range(60):
            decision = self.controller.decide(self.image, self.now_ms)
            assert decision == self.controller.decide(self.image, self.now_ms), "idempotent"
            if decision is None:
                break
            self.decisions += 1
            rules.check_decision(self, decision)
            slipped = not self.is_quiet and self.rng.random() < 0.1 and self.slip_in()
            before = self.image
            assert self.commit(decision), "decided in this term"
            assert slipped or self.image != before, f"changes nothing: {decision}"
            if len(self.stale) < 50:
                self.stale.append(decision)
        else:
            raise AssertionError("the controller comes to no end")
        rules.check_decided(self)
        if self.now_ms >= self.balance_at_ms:
            self.balance_at_ms = self.now_ms + BALANCE_MS
        wake = self.controller.wake_at_ms()
        assert wake is not None
        assert wake > self.now_ms, "nothing is left to do, so nothing is due"

    def slip_in(self) -> bool:
        """A block of somebody else's between a decision and its own."""
        height = self.height
        if self.rng.random() < 0.5:
            self.shrink()
        else:
            self.start(self.rng.choice(BROKERS))
        return self.height != height

    def after_block(self) -> None:
        """As after each applied block, and after each heartbeat when it is due."""
        self.settle()

    # -- time

    def pass_ms(self, ms: int) -> None:
        """Time passes; who runs and is not silent beats and is woken, as `wake_at_ms` says."""
        target = self.now_ms + ms
        while True:
            next_beat = (self.now_ms // BEAT_MS + 1) * BEAT_MS
            wake = self.controller.wake_at_ms()
            assert wake is not None
            if wake <= min(target, next_beat):
                self.now_ms = max(self.now_ms, wake)
                self.settle()
            elif next_beat <= target:
                self.now_ms = next_beat
                self.beat_all()
            else:
                self.now_ms = target
                break
            rules.check_due(self)
        rules.check_due(self)

    def beat_all(self) -> None:
        for broker_id in self.rng.sample(sorted(self.processes), len(self.processes)):
            if broker_id in self.processes and not self.processes[broker_id].is_silent:
                self.beat(broker_id)

        while self.zombies:
            self.beat_of_the_dead(*self.zombies.pop())

    def beat_of_the_dead(self, broker_id: int, process: Process) -> None:
        """A superseded process is told so, and changes nothing."""
        wake = self.controller.wake_at_ms()
        beat = Heartbeat(
            broker_id=broker_id, broker_epoch=process.epoch, applied_height=self.height
        )
        answer = self.controller.heartbeat(beat, self.image, self.now_ms)
        rules.check_answer(self, beat, answer)
        assert not answer.known_epoch
        assert self.controller.wake_at_ms() == wake

    def beat(self, broker_id: int) -> None:
        """One heartbeat and what follows from its answer."""
        process = self.processes[broker_id]
        beat = Heartbeat(
            broker_id=broker_id,
            broker_epoch=process.epoch,
            applied_height=self.height - process.lag,
            wants_shutdown=process.wants_shutdown,
        )
        answer = self.controller.heartbeat(beat, self.image, self.now_ms)
        rules.check_answer(self, beat, answer)
        if answer.known_epoch:
            self.heard[broker_id] = Heard(
                beat.broker_epoch, self.now_ms, beat.applied_height, beat.wants_shutdown
            )
        process.lag = self.rng.choice((0, 0, process.lag // 2))
        if answer.may_stop:
            self.kill(broker_id)
        wake = self.controller.wake_at_ms()
        if wake is not None and wake <= self.now_ms:
            self.settle()

    # -- processes

    def start(self, broker_id: int) -> None:
        if broker_id in self.processes:
            self.zombies.append((broker_id, self.processes[broker_id]))
        self.kill(broker_id)
        self.starts += 1
        name = f"p{self.starts}"
        previous = self.kept.pop(broker_id, -1)
        register = RegisterBroker(
            broker_id=broker_id,
            incarnation=name,
            endpoints=(),
            clean=previous >= 0,
            previous_epoch=previous,
        )
        self.commit(register)
        lag = self.rng.choice((0, 0, 3, 20))
        self.processes[broker_id] = Process(name, self.height, lag=lag)

    def kill(self, broker_id: int) -> None:
        """Its page cache survives."""
        process = self.processes.pop(broker_id, None)
        if process is not None:
            self.kept[broker_id] = process.epoch

    def lose_power(self, broker_id: int) -> None:
        """Everything it had is gone. One broker at a time: fewer than min.insync.replicas."""
        if self.lost_power - {broker_id}:
            return
        self.processes.pop(broker_id, None)
        self.kept.pop(broker_id, None)
        self.lost_power.add(broker_id)
        for key in [key for key in self.logs if key[0] == broker_id]:
            self.logs[key] = frozenset()

    # -- partitions

    def partitions(self) -> list[tuple[TopicEntry, int, PartitionEntry]]:
        return [
            (topic, index, entry)
            for topic in self.image.topics.values()
            for index, entry in enumerate(topic.partitions)
        ]

    def led(self) -> list[tuple[TopicEntry, int, PartitionEntry]]:
        """Those whose leader runs."""
        return [each for each in self.partitions() if each[2].leader in self.processes]

    def log_of(self, broker_id: int, topic_id: UUID, index: int) -> frozenset[int]:
        return self.logs.get((broker_id, topic_id, index), frozenset())

    def produce(self) -> None:
        """acks=all: the leader has it; confirmed once the whole ISR does."""
        led = self.led()
        if led:
            topic, index, entry = self.rng.choice(led)
            self.records += 1
            key = (entry.leader, topic.topic_id, index)
            self.logs[key] = self.log_of(*key) | {self.records}
            self.confirm(topic, index)

    def follow(self, broker_id: int) -> None:
        """Copy and truncate to each leader's log, and join the ISR."""
        process = self.processes.get(broker_id)
        known = self.image.brokers.get(broker_id)
        if process is None or known is None or known.epoch != process.epoch:
            return
        for topic, index, entry in self.led():
            if broker_id in entry.replicas and broker_id != entry.leader:
                copied = self.log_of(entry.leader, topic.topic_id, index)
                self.logs[broker_id, topic.topic_id, index] = copied
                self.confirm(topic, index)
                if broker_id not in entry.isr:
                    self.alter(topic, index, (*entry.isr, broker_id))
        self.after_block()
        held = [each for _, _, each in self.partitions() if broker_id in each.replicas]
        if all(broker_id in each.isr for each in held):
            self.lost_power.discard(broker_id)

    def shrink(self) -> None:
        """A follower lags: its leader takes it out."""
        found = [each for each in self.led() if len(each[2].isr) > 1]
        if found:
            topic, index, entry = self.rng.choice(found)
            gone = self.rng.choice([each for each in entry.isr if each != entry.leader])
            self.alter(topic, index, tuple(each for each in entry.isr if each != gone))

    def alter(self, topic: TopicEntry, index: int, isr: tuple[int, ...]) -> None:
        entry = self.image.topics[topic.name].partitions[index]
        brokers = self.image.brokers
        item = IsrItem(
            topic.topic_id,
            index,
            entry.leader_epoch,
            entry.partition_epoch,
            isr,
            eligible(entry, isr, rules.min_insync(topic)),
            tuple((each, brokers[each].epoch) for each in isr),
        )
        change = AlterIsr(
            broker_id=entry.leader, broker_epoch=brokers[entry.leader].epoch, items=(item,)
        )
        self.old_changes.append(change)
        if not self.is_quiet and self.rng.random() < 0.15:
            self.delayed.append(change)
            return
        self.commit(change)
        self.confirm(topic, index)

    def deliver_delayed(self) -> None:
        """Changes arrive late, after who knows what."""
        self.rng.shuffle(self.delayed)
        while self.delayed:
            self.commit(self.delayed.pop())
        for topic, index, _ in self.partitions():
            self.confirm(topic, index)

    def confirm(self, topic: TopicEntry, index: int) -> None:
        """The high watermark moves while `min.insync.replicas` are in sync (KIP-966)."""
        entry = self.image.topics[topic.name].partitions[index]
        enough = min(rules.min_insync(topic), len(entry.replicas))
        if entry.leader != NO_LEADER and len(entry.isr) >= enough and rules.is_safe(topic):
            everywhere = frozenset.intersection(
                *(self.log_of(each, topic.topic_id, index) for each in entry.isr)
            )
            key = (topic.topic_id, index)
            self.confirmed[key] = self.confirmed.get(key, frozenset()) | everywhere

    def create(self, **config: str) -> None:
        """A topic on brokers that are live as its proposer sees it."""
        live = sorted(self.image.live_brokers())
        if len(live) < 2 or len(self.image.topics) >= 6:
            return
        number = self.rng.getrandbits(64)
        replicas = tuple(
            tuple(self.rng.sample(live, self.rng.randint(2, min(3, len(live)))))
            for _ in range(self.rng.randint(1, 3))
        )
        pairs = tuple((key.replace("_", "."), value) for key, value in sorted(config.items()))
        self.commit(
            CreateTopic(
                name=f"t{number}", topic_id=UUID(int=number), replicas=replicas, config=pairs
            )
        )
        self.after_block()

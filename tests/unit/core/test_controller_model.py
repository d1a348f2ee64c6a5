"""The controller against a model of brokers that die, return, stop and fall behind at random.

Real controller, `apply` and elections; the model keeps each replica's log as the set of records it
has, confirms records when the whole ISR has them and `min.insync.replicas` are in it, and plays
time, crashes, lost page caches, ISR changes, reassignments and changes of controller.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from josefine_broker.base.errors import KafkaError
from josefine_broker.core.apply import apply
from josefine_broker.core.change_codec import decode_change, encode_change
from josefine_broker.core.changes import (
    AlterIsr,
    At,
    Change,
    CreateTopic,
    Decision,
    IsrItem,
    Origin,
    ReassignItem,
    ReassignPartitions,
    RegisterBroker,
)
from josefine_broker.core.controller import Controller, ControllerConfig, Heartbeat
from josefine_broker.core.elections import Liveness, eligible
from josefine_broker.core.image import NO_LEADER, MetadataImage, PartitionEntry
from tests.unit.core.images import TOPIC, TOPIC_ID

SESSION_MS = 1000
BROKERS = (1, 2, 3, 4)
MIN_INSYNC = 2
ids = st.sampled_from(BROKERS)
Replica = tuple[int, int]
"""(broker, partition)."""


class Process:
    """One incarnation of a broker, alive until it is killed."""

    def __init__(self, incarnation: str, clean: bool, previous_epoch: int) -> None:
        self.incarnation = incarnation
        self.clean = clean
        self.previous_epoch = previous_epoch
        self.wants_shutdown = False


class Cluster(RuleBasedStateMachine):
    """Blocks, brokers and their logs."""

    @initialize(
        replicas=st.lists(
            st.lists(ids, min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=3
        ).map(tuple)
    )
    def birth(self, replicas: tuple[tuple[int, ...], ...]) -> None:
        self.now_ms = 0
        self.height = 0
        self.term = 1
        self.starts = 0
        self.images = [MetadataImage(cluster_id="c"), MetadataImage(cluster_id="c")]
        self.processes: dict[int, Process] = {}
        self.logs: dict[Replica, set[int]] = {
            (b, p): set() for b in BROKERS for p in range(len(replicas))
        }
        self.confirmed: dict[int, set[int]] = {p: set() for p in range(len(replicas))}
        self.next_record = 0
        self.leaders: dict[tuple[int, int], tuple[int, str]] = {}
        self.old_decisions: list[Decision] = []
        self.lost_power: set[int] = set()
        self.controller = Controller(0, ControllerConfig(session_timeout_ms=SESSION_MS))
        self.controller.lead(self.term, self.image, 0)
        for broker_id in BROKERS:
            self.start(broker_id)
        self.live_through(0)
        config = (("min.insync.replicas", str(MIN_INSYNC)),)
        self.commit(CreateTopic(name=TOPIC, topic_id=TOPIC_ID, replicas=replicas, config=config))

    # -- the chain

    @property
    def image(self) -> MetadataImage:
        return self.images[0]

    def commit(self, change: Change) -> bool:
        """The next block, applied by two brokers, of which one reads it from its bytes."""
        self.height += 1
        at = At(self.term, self.height)
        before = self.image
        again = decode_change(encode_change(change, Origin(1, 1)))[0]
        fits = True
        for broker, read in enumerate((change, again)):
            try:
                self.images[broker] = apply(self.images[broker], read, at)
            except KafkaError:
                fits = False
        assert self.images[0] == self.images[1], "equal images at equal blocks"
        self.check_step(before, self.image)
        return fits

    def check_step(self, before: MetadataImage, after: MetadataImage) -> None:
        for index, old in enumerate(before.topics[TOPIC].partitions if before.topics else ()):
            new = after.topics[TOPIC].partitions[index]
            if new == old:
                continue
            assert new.partition_epoch == old.partition_epoch + 1
            assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1)
            assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
            assert new.leader == NO_LEADER or new.leader in new.isr
            assert {*new.isr, *new.elr} <= set(new.replicas)
            assert new.isr or new.elr
            if new.leader_epoch > old.leader_epoch and new.leader != NO_LEADER:
                assert new.leader in {*old.isr, *old.elr}, "elected from ISR or ELR only"
        for index, entry in enumerate(after.topics[TOPIC].partitions if after.topics else ()):
            if entry.leader != NO_LEADER:
                who = (entry.leader, after.brokers[entry.leader].incarnation)
                known = self.leaders.setdefault((index, entry.leader_epoch), who)
                assert known == who, "one leader per leader epoch, one process"

    def entries(self) -> tuple[PartitionEntry, ...]:
        return self.image.topics[TOPIC].partitions

    def decide(self) -> None:
        """Until the controller has nothing more to say."""
        for _ in range(20):
            decision = self.controller.decide(self.image, self.now_ms)
            assert decision == self.controller.decide(self.image, self.now_ms), "idempotent"
            if decision is None:
                return
            self.old_decisions.append(decision)
            before = self.image
            assert self.commit(decision)
            assert self.image != before, f"a decision that changes nothing: {decision}"
        raise AssertionError("the controller reaches no fixed point")

    # -- brokers

    def start(self, broker_id: int, clean: bool = True) -> None:
        known = self.image.brokers.get(broker_id)
        self.starts += 1
        process = Process(f"p{self.starts}", clean, -1 if known is None else known.epoch)
        self.processes[broker_id] = process
        self.commit(
            RegisterBroker(
                broker_id=broker_id,
                incarnation=process.incarnation,
                endpoints=(),
                clean=clean,
                previous_epoch=process.previous_epoch,
            )
        )

    def live_through(self, ms: int) -> None:
        """Time passes in steps; every process beats and follows its leaders."""
        for _ in range(max(1, ms // 250)):
            self.now_ms += min(ms, 250)
            for broker_id, process in list(self.processes.items()):
                epoch = self.image.brokers[broker_id].epoch
                beat = Heartbeat(
                    broker_id=broker_id,
                    broker_epoch=epoch,
                    applied_height=self.height,
                    wants_shutdown=process.wants_shutdown,
                )
                answer = self.controller.heartbeat(beat, self.image, self.now_ms)
                if process.wants_shutdown and answer.may_stop:
                    self.check_nothing_left(broker_id)
                    del self.processes[broker_id]
            self.decide()

    def check_nothing_left(self, broker_id: int) -> None:
        live = self.image.live_brokers()
        for entry in self.entries():
            assert entry.leader != broker_id or live.isdisjoint(entry.isr)

    @rule(ms=st.sampled_from([250, 500, SESSION_MS, 3 * SESSION_MS]))
    def time_passes(self, ms: int) -> None:
        self.live_through(ms)

    @rule(broker_id=ids)
    def kill(self, broker_id: int) -> None:
        """kill -9: the page cache survives."""
        self.processes.pop(broker_id, None)

    @rule(broker_id=ids)
    def lose_power(self, broker_id: int) -> None:
        """Records since the start of the log may be gone; one broker at a time (fewer than min)."""
        if self.lost_power - {broker_id}:
            return
        self.processes.pop(broker_id, None)
        self.lost_power.add(broker_id)
        for (broker, _), log in self.logs.items():
            if broker == broker_id:
                log.clear()

    @rule(broker_id=ids)
    def restart(self, broker_id: int) -> None:
        if broker_id in self.processes:
            return
        self.start(broker_id, clean=broker_id not in self.lost_power)
        if not self.image.brokers[broker_id].unclean:
            self.lost_power.discard(broker_id)
        self.live_through(250)
        self.recover_copies(broker_id)

    @rule(broker_id=ids)
    def ask_to_stop(self, broker_id: int) -> None:
        if broker_id in self.processes:
            self.processes[broker_id].wants_shutdown = True

    @rule()
    def controller_changes(self) -> None:
        """Another controller, which heard nobody yet; the old one's decision comes too late."""
        stale = self.controller.decide(self.image, self.now_ms + 5 * SESSION_MS)
        self.term += 1
        self.controller.resign()
        self.controller.lead(self.term, self.image, self.now_ms)
        if stale is not None:
            assert not self.commit(stale), "an older controller is refused"

    @precondition(lambda self: self.old_decisions)
    @rule(data=st.data())
    def decision_is_delivered_again(self, data: st.DataObject) -> None:
        self.commit(data.draw(st.sampled_from(self.old_decisions)))
        self.decide()

    # -- partitions

    def leading(self, index: int) -> PartitionEntry | None:
        """The entry, if its leader runs and the image is that process's own."""
        entry = self.entries()[index]
        process = self.processes.get(entry.leader)
        if process is None:
            return None
        return entry

    @rule(data=st.data())
    def produce(self, data: st.DataObject) -> None:
        """acks=all: the leader has it; confirmed when the whole ISR copied it."""
        index = data.draw(st.sampled_from(range(len(self.entries()))))
        entry = self.leading(index)
        if entry is None:
            return
        self.next_record += 1
        self.logs[entry.leader, index].add(self.next_record)
        self.confirm(index)

    @rule(broker_id=ids)
    def follow(self, broker_id: int) -> None:
        """Copy, truncate to the leader's log, and join the ISR when caught up."""
        self.recover_copies(broker_id)

    def recover_copies(self, broker_id: int) -> None:
        if broker_id not in self.processes:
            return
        for index in range(len(self.entries())):
            entry = self.leading(index)
            if entry is None or broker_id not in entry.replicas or broker_id == entry.leader:
                continue
            self.logs[broker_id, index] = set(self.logs[entry.leader, index])
            self.confirm(index)
            if broker_id not in entry.isr:
                self.alter(index, (*entry.isr, broker_id))
        self.decide()
        if all(broker_id in e.isr for e in self.entries() if broker_id in e.replicas):
            self.lost_power.discard(broker_id)

    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        """A follower lags: its leader takes it out."""
        index = data.draw(st.sampled_from(range(len(self.entries()))))
        entry = self.leading(index)
        if entry is None or len(entry.isr) < 2:
            return
        gone = data.draw(st.sampled_from([b for b in entry.isr if b != entry.leader]))
        self.alter(index, tuple(b for b in entry.isr if b != gone))

    def alter(self, index: int, isr: tuple[int, ...]) -> None:
        entry = self.entries()[index]
        item = IsrItem(
            TOPIC_ID,
            index,
            entry.leader_epoch,
            entry.partition_epoch,
            isr,
            eligible(entry, isr, MIN_INSYNC),
            tuple((each, self.image.brokers[each].epoch) for each in isr),
        )
        epoch = self.image.brokers[entry.leader].epoch
        self.commit(AlterIsr(broker_id=entry.leader, broker_epoch=epoch, items=(item,)))
        self.confirm(index)
        self.decide()

    def confirm(self, index: int) -> None:
        """The high watermark moves: KIP-966 asks for min.insync.replicas."""
        entry = self.entries()[index]
        if len(entry.isr) >= min(MIN_INSYNC, len(entry.replicas)) and entry.leader != NO_LEADER:
            everywhere = set.intersection(*(self.logs[b, index] for b in entry.isr))
            if len(entry.replicas) >= MIN_INSYNC:
                self.confirmed[index] |= everywhere

    @rule(data=st.data(), replicas=st.lists(ids, min_size=2, max_size=3, unique=True).map(tuple))
    def reassign(self, data: st.DataObject, replicas: tuple[int, ...]) -> None:
        index = data.draw(st.sampled_from(range(len(self.entries()))))
        wanted = data.draw(st.sampled_from([replicas, None]))
        self.commit(ReassignPartitions(items=(ReassignItem(TOPIC_ID, index, wanted),)))
        self.decide()

    # -- what always holds

    @invariant()
    def leaders_have_every_confirmed_record(self) -> None:
        if not hasattr(self, "images") or not self.image.topics:
            return
        for index, entry in enumerate(self.entries()):
            if len(entry.replicas) >= MIN_INSYNC and entry.leader in self.processes:
                missing = self.confirmed[index] - self.logs[entry.leader, index]
                assert not missing, f"{missing} lost by leader {entry.leader} of {entry}"

    @invariant()
    def image_survives_its_bytes(self) -> None:
        if hasattr(self, "images"):
            assert MetadataImage.from_bytes(self.image.to_bytes()) == self.image

    @invariant()
    def no_fenced_broker_leads_after_a_decision(self) -> None:
        if not hasattr(self, "images") or not self.image.topics:
            return
        self.decide()
        heard = Liveness.of(self.image.brokers).heard
        for entry in self.entries():
            assert entry.leader == NO_LEADER or entry.leader in heard


TestController = Cluster.TestCase
TestController.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

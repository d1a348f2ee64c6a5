"""The simulated world: virtual time, a network, brokers, clients, and the checkers.

All chance comes from one seed, so a run repeats exactly. What may break, and how often, is in
`chaos.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine.cluster.enrolment import DismissedError
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import At
from josefine_broker.engine.metadata.image import NO_LEADER, MetadataImage
from josefine_broker.engine.partition.replica_role import ReplicaState
from raft import CorruptStore
from tests.simulation.cluster.consumers import Consumer
from tests.simulation.cluster.damage import note_unwritten
from tests.simulation.cluster.describe import describe
from tests.simulation.cluster.faults import CALM, NO_DAMAGE, Faults
from tests.simulation.cluster.given_up import AFTER_MS, accept_losses
from tests.simulation.cluster.group_names import LETTERS, MIRRORED
from tests.simulation.cluster.group_watch import GroupWatch
from tests.simulation.cluster.invariants import ALL_INVARIANTS
from tests.simulation.cluster.invariants.base import Invariant, Sight
from tests.simulation.cluster.limits import end_limits, without_limits
from tests.simulation.cluster.machine import Clock, Machine
from tests.simulation.cluster.members import NEWEST, OLDEST, Members
from tests.simulation.cluster.mirrors import CONFIG, MirrorClient, add_mirror
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.operators import Operator, TopicSpec
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.producers import make_producers
from tests.simulation.cluster.producing import ProducingClient
from tests.simulation.cluster.scheduler import Scheduler
from tests.simulation.cluster.share_watch import ShareWatch
from tests.simulation.cluster.spreading_producers import add_spreading
from tests.simulation.cluster.strangers import Strangers
from tests.simulation.cluster.transfer_facts import TOPICS
from tests.simulation.cluster.transfer_watch import TransferWatch
from tests.simulation.cluster.unbounded_producers import add_unbounded
from tests.simulation.cluster.unclean import was_unclean
from tests.simulation.cluster.view import Ack, Batch, Key, View, batches_of

__all__ = ["World"]

PRODUCERS, CONSUMERS = 4, 3
CLIENT_NODES = 100
MEMBERS_NODE = 99
UPGRADED = 0.6
"""This share of restarts brings newer code, where there is any."""
WALL_OFFSET_MS = 20_000
HEALED_WITHIN_MS = 60_000
UNCLEAN = "unclean.leader.election.enable"


class World:
    """N brokers from `seed`. `run` them for a while with faults, then `settle`."""

    def __init__(self, seed: int, *, brokers: int, faults: Faults, pace_ms: int = 120) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.faults = faults
        self.pace_ms = pace_ms
        self.met: Counter[str] = Counter()
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(self.rng.random()), self.met)
        self.network.faults = faults
        self.view = View()
        self.invariants: list[Invariant] = [make(self.view) for make in ALL_INVARIANTS]
        self._applied = _overriding(self.invariants, "applied")
        self._decided = _overriding(self.invariants, "decided")
        self._moved = _overriding(self.invariants, "moved")
        self._committed = _overriding(self.invariants, "committed")
        self._sights: dict[int, dict[tuple[str, int], Sight]] = {}
        self._timing = Random(self.rng.random())
        self._birth_chance = Random(seed + 2).random()
        self._is_formed = False
        self._upgrades = Random(seed + 5)
        self._begins_old = self._upgrades.random() < faults.upgraded
        if self._begins_old:  # at level 1 a broker that doubts a log is judged as a whole
            self.faults = self.network.faults = replace(faults, **NO_DAMAGE, dead_letters=0.0)
        self.strangers = Strangers(self, Random(seed + 3))
        self.broker_ids = self.founder_ids = tuple(range(1, brokers + 1))
        """Who belongs to the cluster, or is to; and who forms it."""
        self.machines = {id_: self._make_machine(id_) for id_ in self.broker_ids}
        self.clients: Sequence[int] = range(CLIENT_NODES, CLIENT_NODES + PRODUCERS + CONSUMERS + 1)
        self.members = Members(self, MEMBERS_NODE, Random(seed + 4))
        self.producers: list[ProducingClient] = []
        self.groups: GroupWatch | None = None
        groups = Random(seed + 10)
        if groups.random() < faults.groups:
            self.view.min_isr_default = 2
            self.groups = GroupWatch(self, groups)
            self.clients = (*self.clients, *self.groups.nodes)
        self.transfers: TransferWatch | None = None
        transfers = Random(seed + 11)
        if transfers.random() < faults.transactions:
            self.view.min_isr_default = 2
            self.transfers = TransferWatch(self, transfers)
            self.clients = (*self.clients, *self.transfers.nodes)
        self.mirror: MirrorClient | None = None
        self.shares: ShareWatch | None = None
        if faults.shares:
            self.view.min_isr_default = 2
            self.shares = ShareWatch(self, Random(seed + 15))
            self.clients = (*self.clients, *self.shares.nodes)
        self.is_settling = False
        self.turn_ms = 0
        """How long a broker collects plain requests that it then serves together."""
        self.unwritten: set[int] = set()
        """Brokers that lost their high watermarks, see `damage.py`."""
        self._make_clients()
        for id_ in self.broker_ids:
            self.start(id_)

    def _make_machine(self, id_: int) -> Machine:
        skew, rng = self.faults.clock_skew, self.rng
        self.met["clock rate skewed"] += skew > 0
        clock = Clock(
            self.scheduler,
            1 + rng.uniform(-skew, skew),
            rng.randrange(WALL_OFFSET_MS) if skew else 0,
        )
        machine = Machine(id_, self.scheduler, Random(rng.random()), self.met, clock)
        machine.disk.slow = self.faults.disk_slow
        if self._begins_old:
            machine.features = OLDEST
        return machine

    def _make_clients(self) -> None:
        nodes = iter(self.clients)
        self.operator = Operator(self, next(nodes), Random(self.rng.random()))
        self.operator.wanted = self._topics()
        self.operator.start()
        chosen = [next(nodes) for _ in range(PRODUCERS)]
        self.producers = make_producers(self, Random(self.rng.random()), chosen)
        consumers = [Consumer(self, node, Random(self.rng.random())) for node in nodes]
        for client in (*self.producers, *consumers):
            self.scheduler.at(1_000 + self.rng.randrange(500), client.start)
        add_unbounded(self)
        add_spreading(self)
        add_mirror(self)

    def _topics(self) -> list[TopicSpec]:
        """Every promise that this world can keep: synced or cached, one or two in sync."""
        all_replicas = min(3, len(self.broker_ids))
        small = {"segment.bytes": self.rng.choice(("1200", "3000", "100000"))}
        synced = {**small, "flush.messages": "1"}
        two = {"min.insync.replicas": str(min(2, all_replicas))}
        one = {"min.insync.replicas": "1"}
        topics = [
            ("synced", 2, all_replicas, {**synced, **two}),
            ("synced-one", 1, min(2, all_replicas), {**synced, **one}),
        ]
        if not self.power_fails:
            topics.append(("cached-one", 1, all_replicas, {**small, **one}))
        if not self.power_fails or self.rng.random() < 0.6:
            topics.append(("cached", 2, all_replicas, {**small, **two}))
        if self.faults.dead_letters:
            takes = {"errors.deadletterqueue.group.enable": "true"}
            topics.append((LETTERS, 1, all_replicas, {**synced, **two, **takes}))
        if self.faults.mirror:
            topics.append((MIRRORED, 1, all_replicas, {**synced, **two, **CONFIG}))
        if self.transfers is not None:
            topics += [(name, 1, all_replicas, {**synced, **two}) for name in TOPICS]
        return self._with_unclean(topics)

    def _with_unclean(self, topics: list[TopicSpec]) -> list[TopicSpec]:
        """Unclean elections are allowed, or not, by the brokers' default and by topics."""
        rng = Random(self.seed + 8)
        if rng.random() >= self.faults.unclean_allowed:
            return topics
        self.view.unclean_default = rng.random() < 0.5
        said = [rng.choice(({}, {UNCLEAN: "true"}, {UNCLEAN: "false"})) for _ in topics]
        return [
            (name, partitions, replicas, {**config, **more})
            for (name, partitions, replicas, config), more in zip(topics, said, strict=True)
        ]

    @property
    def power_fails(self) -> bool:
        """Then what needs the page cache of a single broker would not be worth looking at."""
        faults = self.faults
        return faults.power_loss_per_second + faults.power_loss_of_all_per_second > 0

    # -- brokers

    def start_if_down(self, id_: int) -> None:
        """Others may have started it meanwhile."""
        if self.machines[id_].process is None:
            self.start(id_)

    def start(self, id_: int) -> None:
        """A new process on the machine's disks."""
        machine = self.machines[id_]
        assert machine.process is None
        machine.is_powered = True
        machine.life += 1
        # Not before the cluster is born, at a level that they all understand.
        self._is_formed |= self.view.image.brokers.keys() >= set(self.founder_ids)
        if self._is_formed and self._upgrades.random() < UPGRADED:
            machine.features = NEWEST
        try:
            process = Process(self, machine)
        except CorruptStore:
            machine.chain.was_refused(machine.raft_disk)
            self.met["chain refused"] += 1
            self.scheduler.at(300 + self.dice(1_000), machine.restore_chain)
            return
        except OSError:
            self.met["start failed by its disk"] += 1
            return
        machine.chain.was_taken()
        if machine.life > 1:
            self.met["restart"] += 1
            self.met[f"restart, {'clean' if process.was_clean else 'unclean'}"] += 1
            if not process.was_clean:  # a failed sync may have taken as much as a loss of power
                self.view.lose_power(id_)
        self.scheduler.note(f"start {id_}-{machine.life} clean {process.was_clean}")
        machine.process = self.view.processes[id_] = process
        self._sights[id_] = {}
        process.start()

    def kill(self, id_: int, *, power: bool) -> None:
        """kill -9, or the power goes."""
        machine = self.machines[id_]
        if machine.process is None:
            return
        self.met["power loss" if power else "kill -9"] += 1
        self.scheduler.note(f"{'power loss' if power else 'kill'} {id_}")
        if power:
            self.view.lose_power(id_)
        machine.end_process(power=power)
        self._gone(id_)
        if not power:
            self._tell_gone(id_)

    def breaks_birth(self, process: Process) -> bool:
        """Does Raft's first leader die with a birth block that nobody else has? Asked once."""
        chance, self._birth_chance = self._birth_chance, 1.0
        if chance >= self.faults.birth_broken:
            return False
        self.met["birth broken"] += 1
        id_ = process.machine.id
        self.scheduler.at(1, partial(self.kill, id_, power=False))
        # Before the others have elected one of themselves, or after.
        self.scheduler.at(2 + int(chance * 4_000), partial(self.start_if_down, id_))
        return True

    def failed(self, process: Process) -> None:
        """A process could not go on, and has ended itself."""
        if not process.is_ended:
            self.met["process ended by its disk"] += 1
            self.kill(process.machine.id, power=False)
            self._start_if_settling(process.machine.id)

    def is_tended(self, id_: int) -> bool:
        """Whether an operator restarts this broker when it is in trouble."""
        return True

    def dismissed(self, process: Process, error: DismissedError) -> None:
        """It has no place in the cluster (any more)."""
        if not self.members.expects(process):
            raise error
        self.met["process dismissed"] += 1
        self.kill(process.machine.id, power=False)
        self.members.dismissed(process)

    def add_machine(self, id_: int) -> None:
        """For a broker that joins."""
        machine = self.machines[id_] = self._make_machine(id_)
        machine.features = NEWEST
        self.broker_ids += (id_,)

    def address_of(self, id_: int) -> HostPort:
        """Of this broker's raft listener."""
        return self.machines[id_].address

    def machine_at(self, address: HostPort) -> Machine | None:
        """Who can be dialed there."""
        found = (each for each in self.machines.values() if each.address == address)
        return next(found, None)

    def seeds_of(self, machine: Machine) -> tuple[HostPort, ...]:
        """Where it looks for its cluster; empty: it forms one."""
        if machine.id in self.founder_ids:
            return ()
        return tuple(self.address_of(each) for each in self.broker_ids if each != machine.id)

    def stopped(self, process: Process) -> None:
        """A controlled shutdown has come to its end."""
        machine = process.machine
        is_clean = process.stop()
        self.met["controlled shutdown" if is_clean else "shutdown on a full disk"] += 1
        self.scheduler.note(f"stopped {machine.id} clean {is_clean}")
        machine.process = None
        machine.paused_until_ms = 0
        machine.disk.forget_jobs()
        self._gone(machine.id)
        self._start_if_settling(machine.id)

    def _start_if_settling(self, id_: int) -> None:
        """Who belongs to the cluster is to be up at the end."""
        if self.is_settling and id_ in self.broker_ids:
            self.scheduler.at(300, partial(self.start_if_down, id_))

    def _gone(self, id_: int) -> None:
        self._count_life(self.view.processes.pop(id_))
        self._sights[id_] = {}

    def _count_life(self, process: Process) -> None:
        """What a process counted itself."""
        quorum = process.engine.broker.quorum
        self.met["replica truncated"] += process.ctx.hosted.counters.truncations
        self.met["snapshot made"] += quorum.snapshots
        self.met["change proposed again"] += quorum.proposed_again

    def _tell_gone(self, id_: int) -> None:
        """The others dial its Raft listener again, and are refused."""
        for other in self.broker_ids:
            if not self.network.is_blocked(other, id_) and not self.network.is_blocked(id_, other):
                hear = partial(self.to_broker, other, partial(self._hear_gone, id_))
                self.scheduler.at(5 + self.dice(50), hear)

    def _hear_gone(self, id_: int, process: Process) -> None:
        if self.machines[id_].process is None:
            process.engine.peers.hear_gone(id_)

    def awake(self) -> list[Process]:
        now_ms = self.scheduler.now_ms
        return [
            process
            for process in self.view.processes.values()
            if process.machine.paused_until_ms <= now_ms
        ]

    def to_broker(self, id_: int, handle: Callable[[Process], None]) -> None:
        """A datagram arrives; it waits for a process that stands still."""
        machine = self.machines[id_]
        process = machine.process
        if process is None:
            return
        pause_ms = machine.paused_until_ms - self.scheduler.now_ms
        if pause_ms > 0:
            self.scheduler.at(pause_ms, lambda: self.to_broker(id_, handle))
        else:
            process.engine_event(lambda: handle(process))

    def dice(self, sides: int) -> int:
        """0 to `sides` - 1, for times."""
        return int(self._timing.random() * sides)

    # -- what the checkers hear of

    def applied(self, process: Process, at: At, payload: bytes | None) -> None:
        """A broker applied a block or a snapshot."""
        view, image = self.view, process.ctx.image
        for applied in self._applied:
            applied(process, at.height)
        if at.height > view.height:
            before = view.image
            change = None if payload is None else decode_change(payload)[0]
            view.take_image(image, at.height)
            if self.members.replaced is not None:
                self.members.note_created(before)
            if self.unwritten:
                with without_limits(self):
                    note_unwritten(self)
            self.scheduler.note(f"block {at.height} {describe(change)}")
            self._count(before, image)
            for decided in self._decided:
                decided(before, change, at)
            self._note_unclean(before)
        self.look(process)  # the next block may end what this one began

    def _count(self, before: MetadataImage, image: MetadataImage) -> None:
        """What a block brought about."""
        met = self.met
        for name, topic in image.topics.items():
            known = before.topics.get(name)
            if known is topic or known is None or known.topic_id != topic.topic_id:
                continue
            for old, new in zip(known.partitions, topic.partitions, strict=False):
                if old is new:
                    continue
                met["leader elected"] += new.leader not in (old.leader, NO_LEADER)
                met["leaderless"] += new.leader == NO_LEADER != old.leader
                met["replica left an ISR"] += bool(set(old.isr) - set(new.isr))
                met["replica joined an ISR"] += bool(set(new.isr) - set(old.isr))
                met["reassignment"] += old.is_reassigning and not new.is_reassigning

    def _note_unclean(self, before: MetadataImage) -> None:
        for facts, name, entry in self.view.entries():
            old = before.partition(name, facts.key[1])
            if old is None or old is entry:
                continue
            if was_unclean(old, entry, before, facts.opened):
                self.met["unclean election"] += 1
                facts.losses.elected(entry.leader_epoch)

    def look(self, process: Process) -> None:
        """After each event and block: did a role, an epoch or a high watermark change?"""
        if not self.faults.no_handles_per_second:
            self._look(process)
            return
        with without_limits(self):
            self._look(process)

    def _look(self, process: Process) -> None:
        sights = self._sights[process.machine.id]
        for tp, hosted in process.ctx.hosted.partitions.items():
            partition = hosted.partition
            before = sights.get(tp)
            is_leader = partition.state is ReplicaState.LEADER
            if before is not None:  # most often nothing did: this is the hottest loop of a life
                known, led, epoch, high_watermark = before
                if (
                    high_watermark == partition.high_watermark
                    and epoch == partition.leader_epoch
                    and known is hosted
                    and led is is_leader
                ):
                    continue
            if hosted.better_claim is not None:
                key, epoch = (hosted.topic_id, tp[1]), process.ctx.broker_epoch
                self.view.facts(key).opened[process.machine.id] = epoch, hosted.better_claim
            sight = Sight(hosted, is_leader, partition.leader_epoch, partition.high_watermark)
            if before is not None and before.hosted is not hosted:
                before = None
            sights[tp] = sight
            self.scheduler.note(
                f"{process.machine.id} {tp[0]}-{tp[1]} "
                f"{'leads' if sight.is_leader else 'follows'} {sight.leader_epoch} "
                f"{sight.high_watermark}"
            )
            if sight.is_leader:
                self._lead_anew(tp, sight)
            for moved in self._moved:
                moved(process, tp, sight, before)
            if sight.is_leader:
                self._commit(process, tp, sight)
        if len(sights) > len(process.ctx.hosted.partitions):
            for tp in [each for each in sights if each not in process.ctx.hosted.partitions]:
                del sights[tp]

    def _lead_anew(self, tp: tuple[str, int], sight: Sight) -> None:
        """Does it lead by an unclean election, or behind one?"""
        facts = self.view.facts((sight.hosted.topic_id, tp[1]))
        if facts.losses.takes_effect(sight.leader_epoch) and not facts.excused:
            batches = len(facts.batches)
            lost = facts.led_anew(sight.hosted, sight.leader_epoch)
            self.met["acknowledgement lost by an unclean election"] += lost
            self.met["committed batch lost by an unclean election"] += batches - len(facts.batches)
            self.scheduler.note(f"{facts.name} lost {batches - len(facts.batches)} batches")

    def _commit(self, process: Process, tp: tuple[str, int], sight: Sight) -> None:
        facts = self.view.facts((sight.hosted.topic_id, tp[1]))
        start, end = facts.end_offset, sight.high_watermark
        if facts.losses.is_deposed(sight.leader_epoch):
            found = batches_of(sight.hosted, sight.hosted.log.log_start_offset, end)
            facts.losses.batches.update(set(found) - set(facts.batches))
            return
        if end <= start or facts.excused:
            return
        hosted, found = self.view.committed_batches(facts, sight.hosted, start, end)
        assert found[0].base_offset == start, f"{facts.name}: {found[0]} after {start}"
        assert found[-1].end_offset == end, f"{facts.name}: {found[-1]}, high watermark {end}"
        facts.batches += found
        facts.committed_in += [sight.leader_epoch] * len(found)
        self.met["batch committed"] += len(found)
        if self.groups is not None:
            self.groups.committed(facts.name, hosted, found)
        if self.transfers is not None:
            self.transfers.committed(facts.name, hosted, found)
        if self.shares is not None:
            self.shares.committed(facts.name, hosted, found)
        for committed in self._committed:
            committed(process, facts, found)

    def acknowledged(self, key: Key, ack: Ack, records: int) -> None:
        """A producer with acks=all was told."""
        facts = self.view.facts(key)
        if facts.losses.has(ack):
            self.met["acknowledgement of a lost batch"] += 1
            return
        facts.acks.append(ack)
        self.met["record acknowledged"] += records
        for invariant in self.invariants:
            invariant.acknowledged(facts, ack)

    def read(self, key: Key, batches: list[Batch]) -> None:
        """A consumer was given these."""
        self.met["batch read"] += len(batches)
        facts = self.view.facts(key)
        for invariant in self.invariants:
            invariant.read(facts, batches)

    # -- the end

    def settle(self) -> None:
        """All faults stop: the cluster must be whole again, in time."""
        self.heal()
        if self.groups is not None:
            self.groups.settle()
        if self.transfers is not None:
            self.transfers.settle()
        if self.shares is not None:
            self.shares.settle()
        if self.met["log rotten"]:
            self._repair_logs()
        for invariant in self.invariants:
            invariant.settled(self)
        for process in self.view.processes.values():
            self._count_life(process)

    def heal(self) -> None:
        """All faults stop, every broker runs, and the producers finish what they began."""
        self.is_settling = True
        self.faults = self.network.faults = CALM
        self.network.heal()
        self.network.slow_links.clear()
        self.members.settle()
        for id_, machine in self.machines.items():
            machine.paused_until_ms = 0
            machine.disk.slow = 0.0
            machine.disk.repair()
            end_limits(machine)
            machine.restore_chain()
            machine.repair_chain()
            if machine.process is None and id_ in self.broker_ids:
                self.start(id_)
        for producer in self.producers:
            producer.is_sending = False
        for after_ms in AFTER_MS:
            self.scheduler.at(after_ms, partial(accept_losses, self))

    def _repair_logs(self) -> None:
        """Every broker verifies all of its logs, as an operator may have it do; all must be whole
        again by themselves."""

        def is_whole() -> bool:
            self.view.forgive()
            return not any(
                facts.rotten and not facts.excused for facts, _, _ in self.view.entries()
            )

        def verify() -> None:
            for process in self.view.processes.values():
                process.event(partial(process.scrub.verify_now, process.ctx.hosted.partitions))

        for at_ms in range(1_000, HEALED_WITHIN_MS, 5_000):
            self.scheduler.at(at_ms, verify)
        whole = self.scheduler.run_until(is_whole, HEALED_WITHIN_MS)
        rotten = {f.name: f.rotten for f, _, _ in self.view.entries() if f.rotten}
        assert whole, f"not repaired long after the last fault: {rotten}"


def _overriding(invariants: list[Invariant], hook: str) -> list[Callable[..., None]]:
    """The checkers that have something to say at this hook."""
    return [
        getattr(invariant, hook)
        for invariant in invariants
        if getattr(type(invariant), hook) is not getattr(Invariant, hook)
    ]

"""The share groups of a simulated world: their members, and what the checkers hear of."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.coordinators.share_states_host import coordinator_key
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.groups.share.dead_letters import HEADER_PREFIX
from josefine_broker.engine.groups.share.values import ShareKey, ShareState
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.group_facts import records_of
from tests.simulation.cluster.group_names import LETTERS, SHARERS
from tests.simulation.cluster.share_members import ShareMember
from tests.simulation.cluster.view import Batch, PartitionFacts

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Delivery", "Leader", "ShareWatch"]

READ = (TopicPartition("synced", 0), TopicPartition("synced", 1))
NODES, MEMBERS = 170, 4
NAMED = ("topic", "partition", "offset")
"""What a dead letter says of its record, in headers."""


class Leader(NamedTuple):
    """Who gave records: a process, in a leader epoch of the partition."""

    broker_id: int
    life: int
    epoch: int
    """-1: it did not lead, or led in another one when the answer came."""


@dataclass(slots=True, eq=False)
class Delivery:
    """Records that a member got. Mutable."""

    member: str
    tp: TopicPartition
    first: int
    last: int
    count: int
    leader: Leader
    sent_ms: int
    """When it asked: its lock begins then, at the earliest."""
    got_ms: int
    let_go_ms: int | None = None
    """When it answered, or ended: from then on others may have them."""


class ShareWatch:
    """One per world that has a share group."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.reads = READ
        self.has_letters = bool(world.faults.dead_letters)
        self.accepted: set[tuple[TopicPartition, int]] = set()
        """Records that some member has sent such an answer for."""
        self.firsts: dict[TopicPartition, int] = {}
        """The lowest offset of each partition that a member got."""
        self.is_calm = False
        """Everything is accepted, and nobody crashes any more."""
        self.members = [
            ShareMember(self, NODES + at, Random(rng.random()), SHARERS) for at in range(MEMBERS)
        ]
        for member in self.members:
            world.scheduler.at(1_500 + rng.randrange(1_500), member.start)

    @property
    def nodes(self) -> list[int]:
        return [each.node for each in self.members]

    @property
    def is_ready(self) -> bool:
        """Whether members may join: there are the topics, and every broker knows of dead letters.
        A leader that does not archives without them, as it did before they were configured."""
        image = self.world.view.image
        images = [image, *(each.ctx.image for each in self.world.view.processes.values())]
        return all(tp.topic in image.topics for tp in self.reads) and not (
            self.has_letters
            and any(LETTERS not in i.topics or SHARERS not in i.group_configs for i in images)
        )

    @property
    def now_ms(self) -> int:
        return self.world.scheduler.now_ms

    def settle(self) -> None:
        """From now on everything is accepted."""
        self.is_calm = True

    # -- what members do

    def leader_of(self, broker_id: int, target: Target) -> Leader:
        """What that broker is to the partition now."""
        process = self.world.view.processes.get(broker_id)
        if process is None:
            return Leader(broker_id, 0, -1)
        hosted = process.ctx.hosted.partitions.get((target.name, target.partition))
        is_leader = hosted is not None and hosted.partition.is_leader
        epoch = hosted.partition.leader_epoch if hosted is not None and is_leader else -1
        return Leader(broker_id, process.life, epoch)

    def got(
        self,
        member: ShareMember,
        target: Target,
        asked: Leader,
        sent_ms: int,
        acquired: tuple[int, int, int],
    ) -> Delivery:
        """A member got records."""
        leader = self.leader_of(asked.broker_id, target)
        if leader != asked:
            leader = leader._replace(epoch=-1)
            self.world.met["records of a leader that changed"] += 1
        first, last, count = acquired
        tp = TopicPartition(target.name, target.partition)
        delivery = Delivery(member.member_id, tp, first, last, count, leader, sent_ms, self.now_ms)
        self.firsts[tp] = min(first, self.firsts.get(tp, first))
        self.world.met["record acquired"] += last - first + 1
        self.world.met["record acquired again"] += (last - first + 1) * (count > 1)
        if not self.is_excused(tp):
            for invariant in self.world.invariants:
                invariant.shared(delivery)
        return delivery

    def answers(self, delivery: Delivery, *, is_accepted: bool) -> None:
        """A member sends its answer: it may take effect at any time from now on."""
        delivery.let_go_ms = self.now_ms
        if is_accepted:
            records = range(delivery.first, delivery.last + 1)
            self.accepted |= {(delivery.tp, offset) for offset in records}

    def confirmed(self, delivery: Delivery) -> None:
        """A member was told that its records are finished."""
        self.world.met["record finished"] += delivery.last - delivery.first + 1
        if not self.is_excused(delivery.tp):
            entry = self.world.view.image.partition(*delivery.tp)
            epoch = -1 if entry is None else entry.leader_epoch
            for invariant in self.world.invariants:
                invariant.share_finished(delivery, epoch, self.now_ms)

    def committed(self, name: str, hosted: HostedPartition, batches: list[Batch]) -> None:
        """These batches of a partition are committed: dead letters, perhaps."""
        if not name.startswith(f"{LETTERS}-"):
            return
        for record in records_of(hosted, batches):
            if not record.headers:  # of a producer, which may write to this topic, too
                continue
            told = {name: value for name, value in record.headers if value is not None}
            topic, index, offset = (str(told[f"{HEADER_PREFIX}{each}"], "utf-8") for each in NAMED)
            tp = TopicPartition(topic, int(index))
            self.world.met["dead letter committed"] += 1
            entry = self.world.view.image.partition(*tp)
            if entry is not None and not self.is_excused(tp):
                for invariant in self.world.invariants:
                    invariant.lettered(tp, int(offset), entry.leader_epoch, self.now_ms)

    # -- what is stored

    def key_of(self, tp: TopicPartition) -> ShareKey:
        topic = self.world.view.image.topics[tp.topic]
        return ShareKey(SHARERS, topic.topic_id, tp.partition)

    def state_of(self, tp: TopicPartition) -> ShareState | None:
        """What the share coordinator has."""
        image, key = self.world.view.image, self.key_of(tp)
        topic = image.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        index = coordinator_partition(coordinator_key(key), len(topic.partitions))
        process = self.world.view.processes.get(topic.partitions[index].leader)
        return None if process is None else process.ctx.clients.shares.states.get(key)

    def is_excused(self, tp: TopicPartition) -> bool:
        """Whether records of the partition, or of what is stored of it, may have been lost."""
        names = (tp.topic, SHARE_STATE_TOPIC, OFFSETS_TOPIC, LETTERS)
        return any(
            _is_lossy(facts) for facts, name, _ in self.world.view.entries() if name in names
        )


def _is_lossy(facts: PartitionFacts) -> bool:
    return bool(facts.excused or facts.losses.cuts or facts.losses.due_epoch >= 0)

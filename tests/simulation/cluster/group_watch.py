"""The consumer groups of a simulated world: their members, and the checkers that hear of them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from tests.simulation.cluster.consumer_members import ConsumerMember
from tests.simulation.cluster.group_clients import GroupObserver
from tests.simulation.cluster.group_facts import Commit
from tests.simulation.cluster.group_members import GroupMember
from tests.simulation.cluster.group_names import CONSUMERS, INSTANCES
from tests.simulation.cluster.migrating_members import MigratingMember
from tests.simulation.cluster.view import Batch

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["GroupWatch"]

READ = (TopicPartition("synced", 0), TopicPartition("synced", 1), TopicPartition("synced-one", 0))
"""What every group reads: topics that are there in every life."""
GROUPS = (("dynamic", (None, None, None)), ("static", ("one", "two")))
"""Of each its members, by the names of those that are static (KIP-345)."""
NODES, OBSERVERS, CONSUMER_NODES, MIGRATING_NODES = 120, 140, 150, 155
MIGRATING = 2
"""Classic members of the group of the consumer protocol, where it has such."""


class GroupWatch:
    """One per world that has groups. Mutable: the members come and go."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.reads = READ
        self.is_committing = True
        self.is_calm = False
        """Nobody leaves, crashes or stands still any more."""
        self.members: list[GroupMember | ConsumerMember] = []
        self.groups = [name for name, _ in rng.choice((GROUPS[:1], GROUPS[1:], GROUPS))]
        self._tokens = 0
        for name, instances in GROUPS:
            if name in self.groups:
                for instance in instances:
                    self.add(name, instance, NODES + len(self.members), Random(rng.random()))
        if Random(world.seed + 12).random() < world.faults.consumer_groups:
            self.groups.append(CONSUMERS)
            is_migrating = Random(world.seed + 13).random() < world.faults.migrating
            instances = INSTANCES
            if is_migrating:  # a single one comes and goes, and the group's protocol with it
                instances = INSTANCES[: Random(world.seed + 14).choice((1, 1, len(INSTANCES)))]
            for at, instance in enumerate(instances):
                member = ConsumerMember(
                    self, CONSUMER_NODES + at, Random(rng.random()), CONSUMERS, instance
                )
                self.members.append(member)
            for at in range(MIGRATING if is_migrating else 0):
                rng_of = Random(f"{world.seed} {at}")
                node = MIGRATING_NODES + at
                self.members.append(MigratingMember(self, node, rng_of, CONSUMERS, None))
        for at, name in enumerate(self.groups):
            observer = GroupObserver(self, OBSERVERS + at, Random(rng.random()), name)
            world.scheduler.at(3_000, observer.start)
        for member in self.members:
            chance = member.rng if isinstance(member, MigratingMember) else rng
            world.scheduler.at(1_500 + chance.randrange(1_500), member.start)

    @property
    def nodes(self) -> list[int]:
        """Where they sit."""
        members = sum(len(instances) for _, instances in GROUPS)
        observers = range(OBSERVERS, OBSERVERS + len(GROUPS) + 1)
        consumers = range(CONSUMER_NODES, CONSUMER_NODES + len(INSTANCES))
        migrating = range(MIGRATING_NODES, MIGRATING_NODES + MIGRATING)
        return [*range(NODES, NODES + members), *observers, *consumers, *migrating]

    def add(self, group: str, instance: str | None, node: int, rng: Random) -> GroupMember:
        """One more process, perhaps of a static member that has one already."""
        member = GroupMember(self, node, rng, group, instance)
        self.members.append(member)
        return member

    def of(self, group: str) -> list[GroupMember | ConsumerMember]:
        return [each for each in self.members if each.group == group and each.is_live]

    def may_be_lost(self, group: str) -> bool:
        """Whether the log may not know any more that the group is there."""
        return self.world.view.groups.is_excused(group)

    def settle(self) -> None:
        """Members stay, and commit no more."""
        self.is_calm = True
        self.is_committing = False

    # -- what members did and were told

    def sends(
        self,
        member: GroupMember | ConsumerMember,
        tp: TopicPartition,
        offset: int,
        generation: int,
    ) -> Commit:
        """Noted before it leaves."""
        self._tokens += 1
        commit = Commit(
            member.group, tp, offset, member.member_id, generation, f"token {self._tokens}"
        )
        self.world.view.groups.sent[commit.token] = commit
        return commit

    def acknowledged(self, commit: Commit) -> None:
        self.world.met["offset commit acknowledged"] += 1
        facts = self.world.view.groups
        if facts.is_excused(commit.group):
            return
        for invariant in self.world.invariants:
            invariant.offset_acknowledged(commit)
        place = commit.group, commit.tp
        found = facts.position(place, commit.token)
        facts.acknowledged[place] = max(found, facts.acknowledged.get(place, 0))

    def told(self, group: str, tp: TopicPartition, token: str, known: int) -> None:
        """Of the last commit; `known` were committed when the question left, by this coordinator or
        one before it."""
        self.world.met["committed offset told"] += 1
        if not self.world.view.groups.is_excused(group):
            for invariant in self.world.invariants:
                invariant.offset_told(group, tp, token, known)

    def holds(self, group: str) -> None:
        """A member of the group of the consumer protocol has something else now."""
        if self.world.view.groups.is_excused(group):
            return
        members = [
            each
            for each in self.members
            if isinstance(each, ConsumerMember | MigratingMember) and each.group == group
        ]
        held = {str(each): each.held for each in members}
        for invariant in self.world.invariants:
            invariant.held(group, held)

    def assigned(
        self, member: GroupMember | ConsumerMember, generation: int, tps: list[TopicPartition]
    ) -> None:
        self.world.met["assignment told"] += 1
        self.world.scheduler.note(f"{member} owns {len(tps)} in {generation}")
        if not self.world.view.groups.is_excused(member.group):
            for invariant in self.world.invariants:
                invariant.assigned(member.group, generation, member.owner, tps)

    # -- what the offsets topic says

    def committed(self, name: str, hosted: HostedPartition, batches: list[Batch]) -> None:
        """These batches of a partition are committed."""
        if not name.startswith(f"{OFFSETS_TOPIC}-"):
            return
        facts = self.world.view.groups
        for written in facts.read(hosted, batches):
            self.world.met["group stored"] += written.record is not None
            if not facts.is_excused(written.group):
                for invariant in self.world.invariants:
                    invariant.group_written(written)

"""The controller in long random lives of a cluster, each replayed by its seed.

`history_of(seed)` is the one line that replays a failure. Hand-made mutants of controller,
elections, reassignment and apply are what tells whether these lives are any good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.metadata.changes import (
    AlterTopicConfig,
    CreatePartitions,
    Decision,
    DeleteTopic,
    PartitionState,
    ReassignItem,
    ReassignPartitions,
    UnregisterBroker,
)
from josefine_broker.engine.metadata.leader_election import (
    ElectionRules,
    ElectionType,
    Liveness,
    elect,
)
from tests.unit.josefine_broker.engine.controller import controller_rules as rules
from tests.unit.josefine_broker.engine.controller.controller_world import (
    BALANCE_MS,
    BROKERS,
    SESSION_MS,
    World,
)

SEEDS = range(60)
STEPS = 120
REGRESSIONS: tuple[int, ...] = ()
"""Seeds that failed once."""


@dataclass(frozen=True, slots=True)
class Life:
    """What may happen to a world, by chance."""

    world: World

    def pass_time(self) -> None:
        self.world.pass_ms(self.world.rng.choice((1, 20, 100, 250, 600, SESSION_MS, 2_600)))

    def long_time(self) -> None:
        self.world.pass_ms(BALANCE_MS)

    def kill(self) -> None:
        self.world.kill(self.world.rng.choice(BROKERS))

    def lose_power(self) -> None:
        self.world.lose_power(self.world.rng.choice(BROKERS))

    def start(self) -> None:
        world = self.world
        down = [each for each in BROKERS if each not in world.processes]
        if down:
            world.start(world.rng.choice(down))
            world.after_block()

    def fall_silent(self) -> None:
        process = self.world.processes.get(self.world.rng.choice(BROKERS))
        if process is not None:
            process.is_silent = not process.is_silent

    def ask_to_stop(self) -> None:
        process = self.world.processes.get(self.world.rng.choice(BROKERS))
        if process is not None:
            process.wants_shutdown = self.world.rng.random() < 0.8

    def supersede(self) -> None:
        """A broker that runs starts once more: the first process may not have stopped."""
        self.world.start(self.world.rng.choice(BROKERS))
        self.world.after_block()

    def change_controller(self) -> None:
        """The old one's decision, and one it would have made, come too late."""
        world = self.world
        late = world.controller.decide(world.image, world.now_ms + 2 * SESSION_MS)
        world.term += 1
        world.lead()
        for stale in (late, *world.stale[-2:]):
            if stale is not None:
                before = world.image
                assert not world.commit(stale), "an older controller is refused"
                assert world.image is before
        world.stale.clear()
        world.after_block()

    def deliver_twice(self) -> None:
        world = self.world
        if world.stale:
            world.commit(world.rng.choice(world.stale))
            world.after_block()
        if world.old_changes:
            world.commit(world.rng.choice(world.old_changes[-20:]))
            world.after_block()

    def deliver_late(self) -> None:
        self.world.deliver_delayed()
        self.world.after_block()

    def create(self) -> None:
        unclean = self.world.rng.choice(({}, {}, {"unclean_leader_election_enable": "true"}))
        in_sync = self.world.rng.choice(("1", "2", "2", "2"))
        self.world.create(min_insync_replicas=in_sync, **unclean)

    def delete(self) -> None:
        world = self.world
        if len(world.image.topics) > 2:
            topic = world.rng.choice(sorted(world.image.topics.values(), key=lambda t: t.name))
            world.commit(DeleteTopic(topic_id=topic.topic_id))
            world.after_block()

    def grow(self) -> None:
        world = self.world
        topics = [each for each in world.image.topics.values() if len(each.partitions) < 4]
        live = sorted(world.image.live_brokers())
        if topics and len(live) > 1:
            topic = world.rng.choice(topics)
            replicas = (tuple(world.rng.sample(live, 2)),)
            count = len(topic.partitions)
            change = CreatePartitions(
                topic_id=topic.topic_id, first_partition=count, replicas=replicas
            )
            world.commit(change)
            world.after_block()

    def configure(self) -> None:
        """Topics that promise nothing change their promises."""
        world = self.world
        topics = [each for each in world.image.topics.values() if not rules.is_safe(each)]
        if topics:
            topic = world.rng.choice(topics)
            unclean = world.rng.choice(("true", "false", "true"))
            in_sync = "2" if unclean == "true" and world.rng.random() < 0.5 else "1"
            pairs = (
                ("min.insync.replicas", in_sync),
                ("unclean.leader.election.enable", unclean),
            )
            world.commit(AlterTopicConfig(topic_id=topic.topic_id, assign=pairs))
            world.after_block()

    def produce(self) -> None:
        for _ in range(3):
            self.world.produce()

    def follow(self) -> None:
        for broker_id in self.world.rng.sample(BROKERS, self.world.rng.randint(1, 5)):
            self.world.follow(broker_id)

    def shrink(self) -> None:
        self.world.shrink()
        self.world.after_block()

    def reassign(self) -> None:
        world = self.world
        if world.partitions():
            topic, index, _ = world.rng.choice(world.partitions())
            known = sorted(world.image.brokers)
            target = tuple(world.rng.sample(known, min(len(known), world.rng.randint(2, 3))))
            wanted = world.rng.choice((target, target, None))
            item = ReassignItem(topic.topic_id, index, wanted)
            world.commit(ReassignPartitions(items=(item,)))
            world.after_block()

    def elect(self) -> None:
        """ElectLeaders, of preferred leaders: unclean ones are for topics that allow them."""
        world = self.world
        states = []
        for topic, index, entry in world.partitions():
            kind = ElectionType.UNCLEAN if rules.is_unclean(topic) else ElectionType.PREFERRED
            terms = ElectionRules(min_insync_replicas=rules.min_insync(topic))
            try:
                after = elect(entry, Liveness.of(world.image.brokers), terms, kind)
            except KafkaError:
                continue
            states.append(PartitionState.of(topic.topic_id, index, entry, after))
        if states:
            change = Decision(
                controller_term=world.term, reason="asked for", partitions=tuple(states)
            )
            world.commit(change)
            world.after_block()

    def unregister(self) -> None:
        """Refused while it holds replicas, and to the last one."""
        world, broker_id = self.world, self.world.rng.choice(BROKERS)
        holds = any(broker_id in entry.replicas for _, _, entry in world.partitions())
        known = broker_id in world.image.brokers
        may = known and not holds and len(world.image.brokers) > 1
        assert world.commit(UnregisterBroker(broker_id=broker_id)) == may
        world.after_block()


CHANCES: tuple[tuple[Callable[[Life], None], int], ...] = (
    (Life.pass_time, 30),
    (Life.long_time, 1),
    (Life.kill, 4),
    (Life.lose_power, 3),
    (Life.start, 9),
    (Life.fall_silent, 5),
    (Life.ask_to_stop, 3),
    (Life.supersede, 2),
    (Life.change_controller, 3),
    (Life.deliver_twice, 3),
    (Life.deliver_late, 8),
    (Life.create, 5),
    (Life.delete, 1),
    (Life.grow, 1),
    (Life.configure, 2),
    (Life.produce, 14),
    (Life.follow, 14),
    (Life.shrink, 6),
    (Life.reassign, 6),
    (Life.elect, 3),
    (Life.unregister, 2),
)


def history_of(seed: int, steps: int = STEPS) -> World:
    """One life, and the quiet at its end."""
    world = World(seed)
    life = Life(world)
    kinds, weights = zip(*CHANCES, strict=True)
    for _ in range(3):
        life.create()
    for kind in world.rng.choices(kinds, weights, k=steps):
        kind(life)
        rules.check_due(world)
        rules.check_records(world)
    come_to_rest(world)
    return world


def come_to_rest(world: World) -> None:
    """Everybody runs, is heard and follows: then all is in place, and nothing moves any more."""
    world.is_quiet = True
    for broker_id in BROKERS:
        process = world.processes.get(broker_id)
        known = world.image.brokers.get(broker_id)
        if process is None or known is None or known.epoch != process.epoch:
            world.start(broker_id)
            world.after_block()
    for process in world.processes.values():
        process.is_silent, process.wants_shutdown, process.lag = False, False, 0
    for _ in range(3):
        world.pass_ms(SESSION_MS)
        for broker_id in BROKERS:
            world.follow(broker_id)
    world.pass_ms(BALANCE_MS + SESSION_MS)
    for topic, index, entry in world.partitions():
        where = f"{topic.name}-{index} {entry}"
        assert not entry.is_reassigning, where
        assert set(entry.isr) == set(entry.replicas), where
        assert entry.leader == entry.replicas[0], where
    assert all(each.is_live and not each.unclean for each in world.image.brokers.values())
    height = world.height
    world.pass_ms(2 * BALANCE_MS)
    assert world.height == height, "nothing is proposed while nothing happens"


@pytest.mark.parametrize("seed", [*SEEDS, *REGRESSIONS])
def test_cluster_keeps_its_rules_through_a_random_life(seed: int) -> None:
    """Checklist rows 14, 15, 36 and 37."""
    history_of(seed)


def test_lives_are_busy_enough_to_mean_something() -> None:
    worlds = [history_of(seed) for seed in range(1_000, 1_005)]

    assert min(world.decisions for world in worlds) > 20
    assert sum(len(records) for world in worlds for records in world.confirmed.values()) > 30

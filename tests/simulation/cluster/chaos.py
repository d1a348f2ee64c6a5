"""What goes wrong in a simulated cluster, when and to whom; what its operator does meanwhile."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.cluster import damage
from tests.simulation.cluster.damage import flip_bit, tear_sector
from tests.simulation.cluster.file_kinds import KINDS
from tests.simulation.cluster.limits import Limits, without_limits
from tests.simulation.cluster.rot import rot

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["Chaos"]

EVERY_MS = 100
"""So often something may break, heal, or be changed."""
CALM_START_MS = 2_500
"""First the cluster is born and the topics are made."""
OPERATE_PER_SECOND = 0.8
UPGRADE_PER_SECOND = 0.5
HOUR_MS = 3_600_000


class Chaos:
    """Breaks a world by its faults, until it settles."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._full_until_ms: dict[int, int] = {}
        self._disks = Random(world.seed + 2)
        """By itself, so that seeds found before it still mean what they meant."""
        self._rot, self._chain = Random(world.seed + 4), Random(world.seed + 5)
        self._kinds, self._links = Random(world.seed + 6), Random(world.seed + 7)
        self._decay = Random(world.seed + 12)
        self._limits = Limits(world, Random(world.seed + 13))
        self.is_over = False
        world.scheduler.every(EVERY_MS, CALM_START_MS, self._act)

    def _chance(self, per_second: float) -> bool:
        return self._rng.random() < per_second * EVERY_MS / 1000

    def _act(self) -> None:
        """Ten times a second: maybe a fault, maybe the end of one."""
        if self.is_over:
            return
        world, faults, rng = self._world, self._world.faults, self._rng
        self._end_full_disks()
        world.strangers.act(faults.stranger_per_second, EVERY_MS)
        victim = rng.choice(world.broker_ids)
        if self._chance(faults.connection_break_per_second):
            world.network.break_one()
        self._break_links(victim)
        if self._chance(faults.power_loss_of_all_per_second):
            self._lose_power(list(world.broker_ids))
        elif self._chance(faults.kill_all_per_second):
            world.met["kill -9 of all"] += 1
            for id_ in world.broker_ids:
                world.kill(id_, power=False)
        elif world.machines[victim].process is None:
            if self._chance(faults.restart_per_second * len(world.broker_ids)):
                world.start(victim)
        else:
            self._break_broker(victim)
        with without_limits(world):
            self._damage_logs()
            self._damage_files()
        if self._chance(faults.sync_fails_per_second):
            world.met["syncs fail"] += 1
            disk = world.machines[victim].disk
            disk.files.failing_sync = True
            world.scheduler.at(250, disk.repair)
        self._break_disks()
        self._break_kinds()
        if self._decay.random() < faults.rot_per_second * EVERY_MS / 1000:
            rot(world, self._decay)
        self._limits.act(EVERY_MS)
        if faults.member_per_second:
            world.members.act(faults.member_per_second * EVERY_MS / 1_000)
        if faults.upgraded and world.members.rng.random() < UPGRADE_PER_SECOND * EVERY_MS / 1_000:
            world.members.upgrade()
        if self._chance(faults.clock_jump_per_second):
            world.met["wall clock jumped"] += 1
            world.machines[victim].clock.jump(rng.randrange(-HOUR_MS, HOUR_MS))
        if self._chance(OPERATE_PER_SECOND):
            self._operate()

    def _break_disks(self) -> None:
        """A file of a log, or all room for metadata, for a while."""
        world, faults, rng = self._world, self._world.faults, self._disks
        machine = world.machines[rng.choice(world.broker_ids)]
        if rng.random() < faults.file_fails_per_second * EVERY_MS / 1000:
            world.met["file fails"] += machine.disk.break_file(rng) is not None
            world.scheduler.at(250, machine.disk.repair)
        if rng.random() < faults.metadata_disk_full_per_second * EVERY_MS / 1000:
            world.met["metadata disk full"] += 1
            machine.fill_metadata(rng.randrange(3))
            world.scheduler.at(1 + rng.randrange(2_000), machine.empty_metadata)

    def _break_kinds(self) -> None:
        """All files of one kind, or some of Raft's, for a while."""
        world, faults, rng = self._world, self._world.faults, self._kinds
        machine = world.machines[rng.choice(world.broker_ids)]
        if rng.random() < faults.kind_fails_per_second * EVERY_MS / 1000:
            kind = rng.choice((*KINDS, None))
            world.met[f"writes fail: {'directory' if kind is None else kind.name}"] += 1
            world.met["writes of a kind fail"] += 1
            machine.disk.break_kind(kind)
            world.scheduler.at(rng.randrange(1_000), machine.disk.repair)
        if rng.random() < faults.chain_fails_per_second * EVERY_MS / 1000:
            world.met["writes fail: chain"] += 1
            machine.break_chain(rng)
            world.scheduler.at(rng.randrange(500), machine.repair_chain)

    def _break_links(self, victim: int) -> None:
        world, faults, rng = self._world, self._world.faults, self._rng
        network, ids = world.network, [*world.broker_ids, *world.clients]
        if self._chance(faults.partition_per_second):
            world.met["full partition"] += 1
            cut = set(rng.sample(world.broker_ids, rng.randrange(1, len(world.broker_ids))))
            cut |= {node for node in world.clients if rng.random() < 0.5}
            network.split(cut, set(ids) - cut)
        if self._chance(faults.one_way_per_second):
            world.met["one-way partition"] += 1
            others = [id_ for id_ in ids if id_ != victim]
            muted = ([victim], others) if rng.random() < 0.5 else (others, [victim])
            network.mute(*muted)
        if self._chance(faults.heal_per_second):
            network.heal()
        self._slow_a_link()

    def _slow_a_link(self) -> None:
        """What one broker sends to another takes longer, for a while."""
        world, rng = self._world, self._links
        if rng.random() < world.faults.slow_link_per_second * EVERY_MS / 1000:
            world.met["slow link"] += 1
            link = (source, target) = tuple(rng.sample(world.broker_ids, 2))
            world.scheduler.note(f"slow link {source} to {target}")
            links = world.network.slow_links
            links[link] = rng.choice((20, 100, 400, 1_000))
            world.scheduler.at(500 + rng.randrange(2_500), partial(links.pop, link, None))

    def _break_broker(self, victim: int) -> None:
        world, faults, rng = self._world, self._world.faults, self._rng
        machine = world.machines[victim]
        process = machine.process
        assert process is not None
        if self._chance(faults.kill_per_second):
            world.kill(victim, power=False)
        elif self._chance(faults.power_loss_per_second):
            self._lose_power([victim])
        elif self._chance(faults.pause_per_second):
            world.met["process paused"] += 1
            process.stand_still(rng.choice((200, 1_000, 3_000)))
        elif self._chance(faults.shutdown_per_second):
            world.scheduler.note(f"leave {victim}")
            process.leave()
        elif self._chance(faults.disk_full_per_second):
            world.met["disk full"] += 1
            machine.disk.fill(rng.randrange(600))
            self._full_until_ms[victim] = world.scheduler.now_ms + rng.randrange(2_000)

    def _damage_logs(self) -> None:
        """Of brokers that are down: what befalls a disk while nobody looks."""
        world, faults, rng = self._world, self._world.faults, self._rng
        for broker_id in world.broker_ids:
            machine = world.machines[broker_id]
            if machine.process is None and machine.is_powered:
                if self._chance(faults.log_flip_per_second):
                    damage.spoil_log(world, broker_id, rng, flip_bit, "bit flipped in a log")
                if self._chance(faults.log_lost_per_second):
                    damage.lose_one(world, broker_id, rng)

    def _damage_files(self) -> None:
        """The same for what else may befall their files; more than one thing, too."""
        world, faults, rng = self._world, self._world.faults, self._rot

        def chance(per_second: float) -> bool:
            return rng.random() < per_second * EVERY_MS / 1000

        for broker_id in world.broker_ids:
            machine = world.machines[broker_id]
            if machine.process is None and machine.is_powered:
                if chance(faults.log_torn_per_second):
                    damage.spoil_log(world, broker_id, rng, tear_sector, "sector torn in a log")
                if chance(faults.file_flip_per_second):
                    damage.harm_file(world, broker_id, rng, flip_bit, "bit flipped in a file")
                if chance(faults.file_torn_per_second):
                    damage.harm_file(world, broker_id, rng, tear_sector, "sector torn in a file")
                if chance(faults.file_lost_per_second):
                    damage.harm_file(world, broker_id, rng, None, "file lost")
                if self._chain.random() < faults.chain_damaged_per_second * EVERY_MS / 1000:
                    damage.spoil_chain(world, broker_id, self._chain)

    def _lose_power(self, victims: list[int]) -> None:
        """At once. What may be lost by it is either spared or no longer looked at."""
        world = self._world
        up = [each for each in victims if world.machines[each].process is not None]
        if not world.view.is_covered(up):
            if self._rng.random() >= world.faults.reckless:
                world.met["power loss spared"] += 1
                return
            world.met["power loss not covered"] += 1
        world.met["power loss of all"] += len(up) > 1
        for victim in up:
            world.kill(victim, power=True)

    def _end_full_disks(self) -> None:
        now_ms = self._world.scheduler.now_ms
        for id_, until_ms in list(self._full_until_ms.items()):
            if now_ms >= until_ms:
                del self._full_until_ms[id_]
                self._world.machines[id_].disk.empty()

    def _operate(self) -> None:
        operator = self._world.operator
        kind = self._rng.randrange(6)
        if kind == 0:
            operator.create_another()
        elif kind == 1:
            operator.delete_one()
        elif kind == 2:
            operator.alter_one()
        elif kind == 3:
            operator.cut_one()
        else:
            operator.move_one()

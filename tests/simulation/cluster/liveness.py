"""Liveness: a majority of the brokers is whole, the rest stays broken for ever, and they serve.

As tests/simulation/raft/liveness.py, for whole brokers (after TigerBeetle's VOPR). `settle` heals
everybody, so it cannot see a cluster that waits for a broker which never returns. Here every
outsider gets one lasting fault, drawn by the seed. In time the others elect a controller, fence
who does not answer, lead each partition of which they have enough, and acknowledge a new batch.

A partition may stand still if the core has none of its ISR, or fewer replicas than
`min.insync.replicas`: only an outsider has what was acknowledged, or enough copies. It may, too, if
the controller hears the outsider that leads it, and clients do not: the controller cannot know. So
it is where an outsider is the controller by half of the core, and does not hear the other half.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from josefine_broker.engine.metadata.image import INTERNAL_TOPICS, PartitionEntry
from tests.simulation.cluster.faults import NO_DAMAGE, Faults
from tests.simulation.cluster.producers import Producer
from tests.simulation.cluster.producing import ACKS_ALL
from tests.simulation.cluster.rot import rot
from tests.simulation.cluster.view import Key
from tests.simulation.cluster.world import World

__all__ = ["LASTING", "LIMITS", "LimitedWorld", "LiveWorld"]

SERVES_WITHIN_MS = 25_000
"""Three sessions of a broker, and elections of the metadata's leader in between."""
PRODUCED_WITHIN_MS = 10_000
HEALS_WITHIN_MS = 60_000
TURN_MS = 2_000
"""Every so often a broker that comes and goes does so."""
FOR_EVER_MS = 10**12
NEVER = 1e-12
LAST_NODES = range(900, 1_000)
"""Clients that come at the end, one for each partition."""
KEPT_OUT = {
    **NO_DAMAGE,
    "chain_damaged_per_second": 0.0,
    "rot_per_second": 0.0,
    "member_per_second": 0.0,
}
"""Damage may need an outsider for its repair; brokers that leave change who is a majority. Groups
and transactions are load: their checkers wait for everybody, so they do not settle."""
ROTS = 8
"""Faults of the core's disks that are tried once the core is chosen."""


class LiveWorld(World):
    """A world that ends with a core, instead of healing."""

    def __init__(self, seed: int, *, brokers: int, faults: Faults) -> None:
        super().__init__(seed, brokers=brokers, faults=replace(faults, **KEPT_OUT))
        self.core: frozenset[int] = frozenset()
        self._live_rng = Random(seed + 20)

    def settle(self) -> None:
        """Choose the core, break the others, and wait until the core serves."""
        self.heal()
        ids = list(self.broker_ids)
        self._live_rng.shuffle(ids)
        self.core = frozenset(ids[: len(ids) // 2 + 1])
        self.scheduler.note(f"core {sorted(self.core)}")
        for id_ in sorted(set(ids) - self.core):
            name = self._live_rng.choice(list(self.lasting))
            self.met[name] += 1
            self.scheduler.note(f"{id_} {name}")
            self.lasting[name](self, id_)
        for _ in range(ROTS if self._live_rng.random() < 0.5 else 0):
            rot(self, self._live_rng, self.core)
        self.must_serve()
        self.must_heal()

    def is_tended(self, id_: int) -> bool:
        return not self.core or id_ in self.core

    # -- what becomes of the others

    @property
    def lasting(self) -> Mapping[str, Callable[[LiveWorld, int], None]]:
        """The faults that the others have."""
        return LASTING

    @property
    def _whole(self) -> frozenset[int]:
        return self.core | {*self.clients, *LAST_NODES}

    def cut_off(self, id_: int) -> None:
        self.network.split([id_], self._whole)

    def reach_one(self, id_: int) -> None:
        """One broker of the core hears it and is heard; the others and the clients do not."""
        self.network.split([id_], self._whole - {self._live_rng.choice(sorted(self.core))})

    def deafen(self, id_: int) -> None:
        self.network.mute(self._whole, [id_])

    def silence(self, id_: int) -> None:
        self.network.mute([id_], self._whole)

    def stay_down(self, id_: int) -> None:
        self.kill(id_, power=False)

    def stand_still(self, id_: int) -> None:
        self.machines[id_].paused_until_ms = FOR_EVER_MS

    def fail_writes(self, id_: int) -> None:
        self.machines[id_].disk.files.fails = lambda _: True

    def exhaust_quota(self, id_: int) -> None:
        """Of the logs alone, or of the metadata, too."""
        machine = self.machines[id_]
        machine.disk.files.full_errno = machine.raft_disk.full_errno = errno.EDQUOT
        machine.disk.fill(self._live_rng.randrange(20))
        if self._live_rng.random() < 0.5:
            machine.fill_metadata(self._live_rng.randrange(3))

    def take_handles(self, id_: int) -> None:
        """As `exhaust_quota`; what is open stays open."""
        machine = self.machines[id_]
        # From now on those who look from outside take no handles: see `without_limits`.
        self.faults = replace(self.faults, no_handles_per_second=NEVER)
        disks = [machine.disk.files, machine.raft_disk]
        for files in disks[: self._live_rng.choice((1, 2))]:
            files.no_handle_at = files.handles + self._live_rng.randrange(4)
        machine.disk.files.evict()

    def come_and_go(self, id_: int) -> None:
        if self._live_rng.random() < 0.5:
            self.kill(id_, power=False)
        else:
            self.start_if_down(id_)
        self.scheduler.at(1 + self._live_rng.randrange(TURN_MS), partial(self.come_and_go, id_))

    # -- what the core must do

    def must_serve(self) -> None:
        """Raises AssertionError if a partition that the core can serve is not served in time."""
        keys = [facts.key for facts, _, _ in self.view.entries() if self._can_serve(facts.key)]
        self.pace_ms = 10
        end_ms = self.scheduler.now_ms + SERVES_WITHIN_MS
        for key, node in zip(keys, LAST_NODES, strict=False):
            facts = self.view.facts(key)
            producer = Producer(self, node, Random(node), acks=ACKS_ALL, is_idempotent=True)
            producer.only = key
            producer.start()
            within_ms = max(end_ms - self.scheduler.now_ms, PRODUCED_WITHIN_MS)
            acked = partial(self._is_acked, key, len(facts.acks))
            in_time = self.scheduler.run_until(acked, within_ms)
            is_starved = not in_time and self._is_starved(key)
            is_moved = not in_time and not self._has_replicas(key)
            told = f"the core {sorted(self.core)} does not serve {facts.name}"
            assert in_time or is_starved or is_moved, told
            self.met["partition of a core moved to an outsider"] += is_moved
            self.met["partition of a core starved by an outsider"] += is_starved
            self.met["partition served by a core"] += in_time
            producer.is_sending = False

    def must_heal(self) -> None:
        """Raises AssertionError if a log of the core stays damaged: each batch that was struck is
        intact on another broker of the core."""

        def is_whole() -> bool:
            self.view.forgive()
            return not self._rotten()

        def verify() -> None:
            for process in (self.view.processes.get(each) for each in self.core):
                if process is not None:
                    process.event(partial(process.scrub.verify_now, process.ctx.hosted.partitions))

        for at_ms in range(1, HEALS_WITHIN_MS, 5_000):
            self.scheduler.at(at_ms, verify)
        whole = self.scheduler.run_until(is_whole, HEALS_WITHIN_MS)
        assert whole, f"the core {sorted(self.core)} does not heal: {self._rotten()}"
        self.met["log of a core healed"] += self.met["log rotten"] > 0

    def _rotten(self) -> dict[str, list[int]]:
        """The partitions with damaged batches, and at whom of the core; not where the core has
        nobody else in sync."""
        found = {}
        for facts, _, _ in self.view.entries():
            struck = self.core.intersection(facts.rotting)
            if struck and not facts.excused:
                found[facts.name] = sorted(struck)
        return found

    def _is_acked(self, key: Key, before: int) -> bool:
        """There is one more; or the topic was deleted, by an order given before; or an outsider
        left as the last of the ISR; or leads after an unclean election, and wants to leave."""
        facts, image = self.view.facts(key), self.view.image
        if len(facts.acks) > before or key[0] not in image.topic_names:
            return True
        entry = self._entry(key)
        leader = image.brokers.get(entry.leader)
        is_unclean = leader is not None and leader.shutting_down and facts.losses.is_allowed
        has_core = bool(self.core.intersection((*entry.isr, *entry.elr)))
        return not has_core and (entry.leader < 0 or is_unclean)

    def _is_starved(self, key: Key) -> bool:
        """Whether the controller hears the leader, and clients do not; or is an outsider, and does
        not hear all of the core. Who does not hear a controller knows of none."""
        every = [self.view.processes[each].ctx.cluster.controller_id for each in self.core]
        believed = [each for each in every if each >= 0] or every
        controller, leader = max(believed, key=believed.count), self._entry(key).leader
        is_outside = controller not in self.core
        if is_outside and any(self._is_cut(controller, each) for each in self.core):
            return True
        is_up = leader in self.view.processes and (
            self.machines[leader].paused_until_ms <= self.scheduler.now_ms
        )
        is_heard = is_up and not self._is_cut(leader, controller)
        return is_heard and any(self._is_cut(leader, each) for each in LAST_NODES)

    def _is_cut(self, one: int, other: int) -> bool:
        blocked = self.network.is_blocked
        return blocked(one, other) or blocked(other, one)

    def _entry(self, key: Key) -> PartitionEntry:
        return self.view.image.topics[self.view.image.topic_names[key[0]]].partitions[key[1]]

    def _can_serve(self, key: Key) -> bool:
        facts, entry = self.view.facts(key), self._entry(key)
        believed = self.core.intersection(entry.isr) - facts.powerless - facts.damaged
        is_internal = self.view.image.topic_names[key[0]] in INTERNAL_TOPICS
        enough = self._has_replicas(key)
        return bool(believed) and enough and not facts.excused and not is_internal

    def _has_replicas(self, key: Key) -> bool:
        """Whether the core has enough of them. A reassignment may end afterwards, with an outsider
        that was in sync just before its fault in place of one of the core."""
        replicas = self.core.intersection(self._entry(key).replicas)
        return len(replicas) >= self.view.facts(key).min_isr


LASTING: Mapping[str, Callable[[LiveWorld, int], None]] = {
    "outsider cut off": LiveWorld.cut_off,
    "outsider reaches one of the core": LiveWorld.reach_one,
    "outsider hears nothing": LiveWorld.deafen,
    "outsider is not heard": LiveWorld.silence,
    "outsider stays down": LiveWorld.stay_down,
    "outsider stands still": LiveWorld.stand_still,
    "outsider's disk takes no writes": LiveWorld.fail_writes,
    "outsider comes and goes": LiveWorld.come_and_go,
}
"""What is counted → what befalls a broker outside the core, for ever."""
LIMITS: Mapping[str, Callable[[LiveWorld, int], None]] = {
    "outsider is over its quota": LiveWorld.exhaust_quota,
    "outsider has no file handles": LiveWorld.take_handles,
}
"""In runs of their own: who leads is to hand over, although it can do all but write."""


class LimitedWorld(LiveWorld):
    """A world whose outsiders meet a limit of their machines that does not pass."""

    @property
    def lasting(self) -> Mapping[str, Callable[[LiveWorld, int], None]]:
        return LIMITS

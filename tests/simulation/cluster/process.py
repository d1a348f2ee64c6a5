"""One life of a broker: the real context, handlers, cores and logs, put together as node.py does.

Every input is an `event`: it is handled, then what it led to is done (Raft's work, the controller's
and the broker's own steps, fetches from leaders, timers), and the checkers look.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.enrolment import DismissedError, Place
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.transactions_host import (
    expire_transactions,
    tick_transactions,
)
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.changes import At, RegisterBroker
from josefine_broker.engine.metadata.image import Endpoint
from josefine_broker.engine.metadata_quorum.apply_committed import resume, to_be_hosted
from josefine_broker.engine.ports import work_at_once
from josefine_broker.engine.replicas.catching_up import CatchUps
from josefine_broker.engine.replicas.leading import isr_check_ms, isr_steps
from josefine_broker.engine.replicas.limited import note_unsynced
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.engine.replicas.synced import log_synced
from josefine_broker.host.log.group_sync import GroupSync
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.scrub import Scrub, ScrubSettings
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.observe.storage import failed_logs, limit_trouble
from raft import StoreFailed
from tests.simulation.cluster.damage import lose_directory
from tests.simulation.cluster.engine_host import LAG_TIME_MS, EngineHost
from tests.simulation.cluster.forwarder import Forwarder
from tests.simulation.cluster.links import Link
from tests.simulation.cluster.machine import Clock, Machine
from tests.simulation.cluster.network import Caller, Connection
from tests.simulation.cluster.server import LISTENER, Server
from tests.simulation.memory_syncer import MemorySyncer

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["LAG_TIME_MS", "Process"]

CHECKPOINT_MS = 1_000
SCRUB_MS = 1_500
SHUTDOWN_TIMEOUT_MS = 3_000
HAS_A_PLACE = Place.FENCED, Place.SERVING


class Process:
    """See the module. Ends by `ended` (killed, or without power) or stops by itself."""

    def __init__(self, world: World, machine: Machine) -> None:
        self.world = world
        self.machine = machine
        self.life = machine.life
        self.clock: Clock = machine.clock
        self.is_ended = False
        self.is_serving = False
        self._duty_ms = 0
        self._parked_ms: int | None = None
        self._leave_by_ms: int | None = None
        self._links: dict[int, Link] = {}
        # What the event at hand has touched, so that only that is followed up.
        self.touches_links = True
        self._is_touched = True
        self._is_enrolled = False
        self._is_marked = False
        self._is_mending = False
        # Every other life has none, as on a platform without the binary.
        later = partial(self.after_ms, 0)
        syncer = MemorySyncer(machine.disk.files, self._submit_sync, later)
        group = GroupSync(later, self._submit_sync, syncer if machine.life % 2 else None)
        manager = LogManager(
            machine.disk.files,
            schedule=machine.disk.submit,
            boot_id=f"boot {machine.boots}",
            group=group,
        )
        self._manager = manager
        self.was_clean = manager.has_everything
        self.hosting = Hosting(manager, machine.clock)
        self.engine = EngineHost(self, world.founder_ids, world.seeds_of(machine))
        self.ctx: Context = self.engine.broker.ctx
        group.on_synced = self._synced
        self.server = Server(self)
        self._forwarder = Forwarder(self)
        self.ctx.ports.forward = self._forwarder.ask
        self.catch_ups = CatchUps(self.ctx, self._take_role)
        self.repairs = Repairs(self.ctx, self.hosting.damaged, work_at_once, self._take_role)
        settings = ScrubSettings(interval_ms=SCRUB_MS, bytes_per_second_max=1 << 40)
        self.scrub = Scrub(manager, work_at_once, machine.clock, settings)

    def start(self) -> None:
        """Begin to work: what is known to be committed is applied first."""
        self.every_ms(isr_check_ms(self.ctx), self._duties)
        self.event(self.touch, is_raft=True)

    def _enrol(self) -> None:
        """Recover the logs, and register."""
        self._is_enrolled = True
        machine, manager, broker = self.machine, self._manager, self.engine.broker
        broker.check_cluster()
        claims = self.hosting.prepare(to_be_hosted(self.ctx))
        for found in claims.logs.values():
            self.world.met[f"log {found.value}"] += 1
        registration = RegisterBroker(
            broker_id=machine.id,
            incarnation=f"{machine.id}-{machine.life}",
            endpoints=(Endpoint(LISTENER, f"host{machine.id}", 9092),),
            features=machine.features,
            clean=manager.has_everything and claims.are_complete,
            logs=claims,
            previous_epoch=manager.previous_epoch,
        )
        manager.marks.starting(registration.incarnation)
        broker.step(e.Enrol(registration, manager.marks.started))
        self.touch()

    # -- inputs

    def event(self, handle: Callable[[], None], *, is_raft: bool = False) -> None:
        """Something happens to this process."""
        files = self.machine.disk.files
        syncs = files.syncs
        try:
            handle()
            self._follow_up()
        except StoreFailed:  # nothing is known of Raft's disk any more: the process ends
            self.world.failed(self)
        if self.is_ended:
            return
        if files.syncs != syncs:
            self.stand_still(self.machine.disk.delay_ms())
        if not is_raft:  # the world looks at each block by itself
            self.world.look(self)

    def touch(self) -> None:
        """The event at hand gave the engine something to do."""
        self._is_touched = True

    def engine_event(self, handle: Callable[[], None]) -> None:
        """Something for the engine."""
        self.touch()
        self.event(handle, is_raft=True)

    def after_ms(self, delay_ms: int, handle: Callable[[], None]) -> None:
        """An event of this life, so much later in the world's time."""
        self.world.scheduler.at(delay_ms, partial(self._later, handle))

    def every_ms(self, period_ms: int, handle: Callable[[], None]) -> None:
        """An event again and again, by this machine's clock."""
        delay_ms = max(1, int(period_ms / self.clock.rate))

        def again() -> None:
            self.after_ms(delay_ms, again)
            handle()

        self.after_ms(self.world.dice(delay_ms), again)

    def _later(self, handle: Callable[[], None]) -> None:
        if self.is_ended:
            return
        pause_ms = self.machine.paused_until_ms - self.world.scheduler.now_ms
        if pause_ms > 0:
            self.after_ms(pause_ms, handle)
        else:
            self.event(handle)

    def stand_still(self, for_ms: int) -> None:
        """Nothing is handled for so long; what arrives waits."""
        if for_ms:
            until_ms = self.world.scheduler.now_ms + for_ms
            self.machine.paused_until_ms = max(self.machine.paused_until_ms, until_ms)

    def _submit_sync(
        self, job: Callable[[], None], done: Callable[[], None], behind: Callable[[], None]
    ) -> None:
        """As a thread of its own: the job takes the disk's time, and no time of the process."""

        def run() -> None:
            if not self.is_ended:
                self.machine.disk.run_sync(job)
                self.machine.disk.run_sync(behind)
                self._later(done)

        self.world.scheduler.at(self.machine.disk.sync_ms(), run)

    def _synced(self, tp: TopicPartition) -> None:
        log_synced(self.ctx, tp)
        self.touches_links = True

    def _take_role(self, ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
        """As in `compose/upkeep.py`: it may follow a leader from now on, without a new image."""
        resume(ctx, tp, hosted)
        self.touches_links = True

    # -- what follows each of them

    def _follow_up(self) -> None:
        parked = self.ctx.parked
        while self._is_touched or parked.has_completed:
            parked.run_completed()
            if not self._is_touched:
                continue
            self._is_touched = False
            self.engine.pump()
            if self.is_ended:
                return
            self._look_at_place()
            if self.is_ended:
                return
        if self.touches_links:
            self.touches_links = False
            for leader_id, fetcher in self.ctx.hosted.fetchers.by_leader.items():
                link = self._links.get(leader_id)
                if link is None and len(fetcher):
                    link = self._links[leader_id] = Link(self, fetcher)
                if link is not None:
                    link.pump()
        self._arm_parked()

    def _look_at_place(self) -> None:
        """The order of a life, as in node.py."""
        broker = self.engine.broker
        if not self._is_enrolled:
            if broker.quorum.has_caught_up:
                self._enrol()
        elif self._leave_by_ms is not None:
            if not self.is_serving:  # it never came to serve: no clean mark, as in node.py
                self.world.kill(self.machine.id, power=False)
            elif broker.has_left or self.clock.monotonic_ms() >= self._leave_by_ms:
                self.world.stopped(self)
        elif not (self.is_serving and self._is_marked) and broker.place in HAS_A_PLACE:
            self._mark()
            self.is_serving |= self._is_marked and broker.place is Place.SERVING

    def failed(self, error: BaseException) -> None:
        """The engine ends this process: by its place in the cluster, or for a bug."""
        if not isinstance(error, DismissedError):
            raise error
        self.world.dismissed(self, error)

    def _mark(self) -> None:
        """The image knows this process: its disk says so."""
        if self._is_marked:
            return
        try:
            self._manager.marks.running(self.ctx.broker_epoch)
        except OSError:  # a full disk: the process ends, as one that could not start
            self.world.scheduler.at(1, partial(self.world.failed, self))
        else:
            self._is_marked = True

    def _arm_parked(self) -> None:
        deadline_ms = self.ctx.parked.next_deadline_ms()
        if deadline_ms is None or (self._parked_ms is not None and self._parked_ms <= deadline_ms):
            return
        self._parked_ms = deadline_ms
        self.after_ms(self.clock.delay_ms(deadline_ms), self._expire)

    def _expire(self) -> None:
        self._parked_ms = None
        self.touch()  # a proposal may have been given up
        self.ctx.parked.tick(self.clock.monotonic_ms())

    def _look_at_storage(self) -> None:
        """As `observe/storage.py` does, but for the free space."""
        ctx = self.ctx
        trouble = failed_logs(ctx)
        for tp, hosted in ctx.hosted.partitions.items():
            if hosted.log.unsynced:
                note_unsynced(ctx, tp, hosted)
        limit = limit_trouble(ctx, self.machine.disk.files)
        self.world.met["limit that lasts"] += bool(limit) and not ctx.storage.trouble
        if trouble and not ctx.storage.trouble:
            self.world.met["log not written any more"] += 1
            self.after_ms(500, self._restart)
        ctx.storage.trouble = trouble or limit
        damaged = [tp for tp, each in ctx.hosted.unopened.items() if each.is_damaged]
        if damaged and not self._is_mending:
            self._is_mending = True
            self.after_ms(500, partial(self._mend, damaged))

    def _restart(self) -> None:
        """An operator sees the broker's health, and restarts it."""
        if self.world.is_tended(self.machine.id):
            self.world.scheduler.at(1, partial(self.world.failed, self))

    def _mend(self, damaged: list[tuple[str, int]]) -> None:
        """An operator sees what could not be opened, and removes it: others have the records."""
        for topic, index in damaged:
            self.world.met["damaged log removed"] += 1
            lose_directory(self.machine.disk.files, f"{topic}-{index}")
        self._restart()

    def _duties(self) -> None:
        self._look_at_storage()
        if self.world.faults.rot_per_second:
            self.scrub.step()
        self.repairs.step()
        self.touches_links |= next(iter(self.repairs), None) is not None  # as `_take_role`
        self.catch_ups.step()
        list(isr_steps(self.ctx))
        tick_transactions(self.ctx)
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._duty_ms >= CHECKPOINT_MS:
            self._duty_ms = now_ms
            self.hosting.checkpoint_high_watermarks()
            self.hosting.flush_due()
            for _ in expire_transactions(self.ctx):
                pass

    # -- the others

    def dial(self, caller: Caller, broker_id: int) -> Connection:
        """A connection to another broker."""
        machine = self.machine
        return Connection(
            self.world.network,
            caller,
            machine.id,
            self.world.machines[broker_id],
            lambda: machine.paused_until_ms,
        )

    def applied(self, at: At, payload: bytes | None) -> None:
        """A block, or a snapshot (no payload), was applied."""
        self.touches_links = True
        self.world.applied(self, at, payload)

    # -- ends

    def leave(self) -> None:
        """A controlled shutdown begins."""
        if self._leave_by_ms is None:
            self._leave_by_ms = self.clock.monotonic_ms() + SHUTDOWN_TIMEOUT_MS
            self.after_ms(self.clock.delay_ms(self._leave_by_ms), self.touch)
            self.engine_event(lambda: self.engine.broker.step(e.Leave()))

    def stop(self) -> bool:
        """Close everything and leave the clean mark; whether that worked (the disk may be full)."""
        self.server.drain()
        self.machine.disk.drain()
        try:
            self.hosting.close(self.ctx.broker_epoch)
        except OSError:
            is_clean = False
        else:
            is_clean = True
        self.engine.store.close()
        self.ended(power=False)
        return is_clean

    def ended(self, *, power: bool) -> None:
        """There is no process any more."""
        self.is_ended = True
        self.server.end(power=power)
        for link in self._links.values():
            link.end()
        self._forwarder.end()

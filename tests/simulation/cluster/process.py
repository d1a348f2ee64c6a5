"""One life of a broker: the real context, handlers, cores and logs, put together as node.py does.

Every input is an `event`: it is handled, then what it led to is done (Raft's work, the controller's
and the broker's own steps, fetches from leaders, timers), and the checkers look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.core.changes import At, RegisterBroker
from josefine_broker.core.controller import ControllerConfig, Heartbeat, HeartbeatAnswer
from josefine_broker.core.door import Roster, Speech, why_not
from josefine_broker.core.features import SUPPORTED
from josefine_broker.core.image import Endpoint, MetadataImage
from josefine_broker.core.replica_fetch import FetchLimits
from josefine_broker.handlers.blocks import to_be_hosted
from josefine_broker.handlers.context import BrokerSettings, Context, new_context
from josefine_broker.handlers.controlling import Controlling, RaftView
from josefine_broker.handlers.enrolling import Enrolment, Place
from josefine_broker.handlers.replication import check_isrs, isr_check_ms
from josefine_broker.hosting import Hosting
from josefine_broker.shell.log_manager import LogManager
from josefine_broker.storage_watch import failed_logs
from tests.simulation.cluster.damage import lose_directory
from tests.simulation.cluster.links import Link
from tests.simulation.cluster.machine import Clock, Machine
from tests.simulation.cluster.network import Caller, Connection
from tests.simulation.cluster.raft_host import RaftHost
from tests.simulation.cluster.server import LISTENER, Server

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["LAG_TIME_MS", "Process"]

LAG_TIME_MS = 800
SESSION_TIMEOUT_MS = 1_200
HEARTBEAT_MS = 200
CONTROLLER = ControllerConfig(
    session_timeout_ms=SESSION_TIMEOUT_MS, imbalance_check_interval_ms=3_000, voters_max=9
)
SETTINGS = BrokerSettings(
    auto_create_topics=False,
    lag_time_max_ms=LAG_TIME_MS,
    metadata_timeout_ms=1_500,
    replica_fetch=FetchLimits(wait_ms=300, partition_bytes_max=2_000, backoff_ms=50),
)
CHECKPOINT_MS = 1_000
SHUTDOWN_TIMEOUT_MS = 3_000


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
        self._control_ms: int | None = None
        self._leave_by_ms: int | None = None
        self.gone: set[int] = set()
        """Brokers whose machine refuses connections: it has no process."""
        self._links: dict[int, Link] = {}
        # What the event at hand has touched, so that only that is followed up.
        self.touches_links = True
        self._touches_raft = True
        self._touches_control = True
        self._is_mending = False
        self.enrolment: Enrolment
        manager = LogManager(
            machine.disk.files, schedule=machine.disk.submit, boot_id=f"boot {machine.boots}"
        )
        self._manager = manager
        self.was_clean = manager.has_everything
        self.hosting = Hosting(manager, machine.clock)
        self.ctx: Context = new_context(
            broker_id=machine.id,
            image=MetadataImage(cluster_id=""),
            clock=machine.clock,
            rng=Random(machine.rng.getrandbits(64)),
            raft=self,
            logs=self.hosting,
            settings=SETTINGS,
        )
        self.server = Server(self)
        self.raft = RaftHost(self, world.broker_ids)
        self.controlling = Controlling(self.ctx, CONTROLLER, self.raft.change_members)

    def door(self, peer: int, speech: Speech, speaks_for: int) -> str | None:
        """Why a frame is not taken: the real door, and whom this broker knows."""
        roster = Roster(
            own_id=self.machine.id,
            members=self.raft.node._core.members.all,
            registered=self.ctx.image.brokers,
            vouched=(),
        )
        return why_not(roster, peer, speech, speaks_for)

    def propose(self, payload: bytes, deadline_ms: int) -> object:
        """`handlers.context.RaftPort`; the host comes after the context that it applies to."""
        return self.raft.propose(payload, deadline_ms)

    def start(self) -> None:
        """Apply what is known to be committed, recover the logs, and begin to work."""
        self.raft.pump()
        machine, manager = self.machine, self._manager
        claims = self.hosting.prepare(to_be_hosted(self.ctx))
        register = RegisterBroker(
            broker_id=machine.id,
            incarnation=f"{machine.id}-{machine.life}",
            endpoints=(Endpoint(LISTENER, f"host{machine.id}", 9092),),
            features=SUPPORTED,
            clean=manager.has_everything and claims.are_complete,
            logs=claims,
            previous_epoch=manager.previous_epoch,
        )
        self.enrolment = Enrolment(
            self.ctx, register, heartbeat_ms=HEARTBEAT_MS, proposal_timeout_ms=1_000
        )
        for found in claims.logs.values():
            self.world.met[f"log {found.value}"] += 1
        self.every_ms(isr_check_ms(self.ctx), self._duties)
        self.raft_event(lambda: None)

    # -- inputs

    def event(self, handle: Callable[[], None], *, is_raft: bool = False) -> None:
        """Something happens to this process."""
        files = self.machine.disk.files
        syncs = files.syncs
        handle()
        self._follow_up()
        if self.is_ended:
            return
        if files.syncs != syncs:
            self.stand_still(self.machine.disk.delay_ms())
        if not is_raft:  # the world looks at each block by itself
            self.world.look(self)

    def touch_raft(self) -> None:
        """The event at hand gave Raft something to do."""
        self._touches_raft = True

    def raft_event(self, handle: Callable[[], None]) -> None:
        """A message or a timer of Raft's, the controller's or the enrolment's."""
        self._touches_raft = self._touches_control = True
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

    # -- what follows each of them

    def _follow_up(self) -> None:
        while self._touches_raft or self._touches_control:
            if self._touches_raft:
                self._touches_raft = False
                self.raft.pump()
            if self._touches_control:
                self._touches_control = False
                self._control()
            if self.is_ended:
                return
        if self.touches_links:
            self.touches_links = False
            for leader_id, fetcher in self.ctx.fetchers.by_leader.items():
                link = self._links.get(leader_id)
                if link is None and len(fetcher):
                    link = self._links[leader_id] = Link(self, fetcher)
                if link is not None:
                    link.pump()
        self._arm_parked()

    def _control(self) -> None:
        """The controller's and the broker's own steps, by what happened and by time."""
        now_ms = self.clock.monotonic_ms()
        self.controlling.step()
        enrolment = self.enrolment
        beat = enrolment.step()
        if beat is not None:
            self._tell_controller(beat)
        if not self.is_serving and self.ctx.broker_epoch >= 0:
            self._serve()
        leave_by_ms = self._leave_by_ms
        if leave_by_ms is not None and (
            now_ms >= leave_by_ms or (enrolment.place is Place.LEFT and self.raft.hand_over())
        ):
            self.world.stopped(self)
            return
        wakes = [enrolment.wake_at_ms(), self.controlling.wake_at_ms(), self._leave_by_ms]
        due_ms = min((each for each in wakes if each is not None), default=None)
        if due_ms is not None and (self._control_ms is None or due_ms < self._control_ms):
            self._control_ms = due_ms
            delay_ms = self.clock.delay_ms(due_ms)
            self.after_ms(delay_ms, partial(self._control_due, due_ms))

    def _serve(self) -> None:
        """The image knows this process: it says so on its disk, and takes connections."""
        try:
            self._manager.mark_running(self.ctx.broker_epoch)
        except OSError:  # a full disk: the process ends, as one that could not start
            self.world.scheduler.at(1, partial(self.world.failed, self))
        else:
            self.is_serving = True

    def _control_due(self, due_ms: int) -> None:
        if self._control_ms == due_ms:
            self._control_ms = None
            self._touches_control = True

    def _arm_parked(self) -> None:
        deadline_ms = self.ctx.parked.next_deadline_ms()
        if deadline_ms is None or (self._parked_ms is not None and self._parked_ms <= deadline_ms):
            return
        self._parked_ms = deadline_ms
        self.after_ms(self.clock.delay_ms(deadline_ms), self._expire)

    def _expire(self) -> None:
        self._parked_ms = None
        self._touches_control = True  # a proposal may have been given up
        self.ctx.parked.tick(self.clock.monotonic_ms())

    def _look_at_storage(self) -> None:
        """As `storage_watch.py` does, but for the free space."""
        ctx = self.ctx
        trouble = failed_logs(ctx)
        if trouble and not ctx.storage_trouble:
            self.world.met["log not written any more"] += 1
            self.after_ms(500, self._restart)
        ctx.storage_trouble = trouble
        damaged = [tp for tp, each in ctx.unopened.items() if each.is_damaged]
        if damaged and not self._is_mending:
            self._is_mending = True
            self.after_ms(500, partial(self._mend, damaged))

    def _restart(self) -> None:
        """An operator sees the broker's health, and restarts it."""
        self.world.scheduler.at(1, partial(self.world.failed, self))

    def _mend(self, damaged: list[tuple[str, int]]) -> None:
        """An operator sees what could not be opened, and removes it: others have the records."""
        for topic, index in damaged:
            self.world.met["damaged log removed"] += 1
            lose_directory(self.machine.disk.files, f"{topic}-{index}")
        self._restart()

    def _duties(self) -> None:
        self._look_at_storage()
        check_isrs(self.ctx)
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._duty_ms >= CHECKPOINT_MS:
            self._duty_ms = now_ms
            self.hosting.checkpoint_high_watermarks()
            self.hosting.flush_due()

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

    def raft_moved(self, view: RaftView) -> None:
        self._touches_control = True
        led = self.controlling.leads
        self.controlling.raft_moved(view)
        if self.controlling.leads and not led:
            self.world.met["controller changed"] += 1
            self.world.scheduler.note(f"controller {self.machine.id} term {view.term}")

    def born(self, cluster_id: str) -> None:
        """As `membership.py` and `data_dir.belong` do: noted for ever, on a disk that keeps it."""
        machine, ctx = self.machine, self.ctx
        machine.cluster_id = machine.cluster_id or cluster_id
        assert machine.cluster_id == cluster_id, f"{machine.id} belongs to {machine.cluster_id}"
        ctx.image = replace(ctx.image, cluster_id=cluster_id)

    def applied(self, at: At, payload: bytes | None) -> None:
        """A block, or a snapshot (no payload), was applied."""
        self.touches_links = self._touches_control = True
        self.world.applied(self, at, payload)

    def _tell_controller(self, beat: Heartbeat) -> None:
        controller = self.ctx.controller_id
        if controller == self.machine.id:
            self.enrolment.answered(self.controlling.heard(beat))
            self.controlling.step()
            return
        deliver = partial(self.world.to_broker, controller, partial(_hear, beat))
        self.world.network.datagram(self.machine.id, controller, deliver)

    # -- ends

    def leave(self) -> None:
        """A controlled shutdown begins."""
        if self._leave_by_ms is None:
            self._leave_by_ms = self.clock.monotonic_ms() + SHUTDOWN_TIMEOUT_MS
            self.raft_event(self.enrolment.leave)

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
        self.raft.store.close()
        self.ended(power=False)
        return is_clean

    def ended(self, *, power: bool) -> None:
        """There is no process any more."""
        self.is_ended = True
        self.server.end(power=power)
        for link in self._links.values():
            link.end()


def _hear(beat: Heartbeat, process: Process) -> None:
    """A heartbeat arrived at who may be the controller."""
    refusal = process.door(beat.broker_id, Speech.HEARTBEAT, beat.broker_id)
    assert refusal is None, refusal
    answer = process.controlling.heard(beat)
    world = process.world
    deliver = partial(world.to_broker, beat.broker_id, partial(_answered, beat, answer))
    world.network.datagram(process.machine.id, beat.broker_id, deliver)


def _answered(beat: Heartbeat, answer: HeartbeatAnswer, process: Process) -> None:
    if process.ctx.broker_epoch == beat.broker_epoch:  # else it was for a process before this one
        process.enrolment.answered(answer)

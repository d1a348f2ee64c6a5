"""One broker of a cluster as a state machine without I/O: events in, work for the host out.

Rules: `step` takes an event, `tick` the time, and `ready` processes what follows from them in one
fixed order (`_work`): Raft's work; then the controller's view of it, this broker's enrolment, the
controller, the readers of the image, requests to other brokers, the leadership transfer. Clock and
randomness are passed in. Client requests work on `ctx` and its partitions and do not come through
here, but the metadata changes that they propose do.

A host (asyncio and files; the simulator) repeats these steps, in this order:
1. `step(event)` for what happened, `tick(now_ms)` when `wake_at_ms()` has come, or at any time;
2. `ready()` and all of its work (events.Ready has the order), until it is empty;
3. check `failure`: a broker that has one does nothing more and must end.
Everything else continues while a batch is being stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.errors import Fatal
from josefine_broker.base.lasting import Lasting
from josefine_broker.base.ports import Clock
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster import status_text
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.enrolment import DismissedError, Enrolment, Place
from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.joining import Asking, Step, as_newcomer
from josefine_broker.engine.cluster.peers import Peers
from josefine_broker.engine.context import BrokerSettings, new_context
from josefine_broker.engine.controller.controller import ControllerConfig, Heartbeat
from josefine_broker.engine.controller.membership import MemberChange
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import At, Origin
from josefine_broker.engine.metadata.features import raft_format
from josefine_broker.engine.metadata.image import Address, MetadataImage
from josefine_broker.engine.metadata_quorum.controller_host import Controlling
from josefine_broker.engine.metadata_quorum.leadership_transfer import LeadershipTransfer
from josefine_broker.engine.metadata_quorum.peer_messages import Hearing
from josefine_broker.engine.metadata_quorum.quorum import Quorum, SnapshotLimits
from josefine_broker.engine.metadata_quorum.ready_work import RaftWork
from josefine_broker.engine.outbox import Outbox
from josefine_broker.engine.ports import LogsPort
from josefine_broker.engine.security.authorizer import Authorizer
from raft import Config, InvariantBroken, NodeId, Recovered

PATIENCE_SESSIONS = 4
"""How many session timeouts a broker that peers report as removed waits for the block that names
it."""


class Reach(Protocol):
    """The host's knowledge of the connections to other brokers."""

    def is_connected(self, broker_id: int) -> bool: ...

    def trouble_with(self, broker_id: int) -> str:
        """Why it cannot be reached, address first; empty: reachable, or not tried."""
        ...

    def gone(self) -> frozenset[int]:
        """Brokers without a process: their address refuses connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The fixed configuration of a broker."""

    raft: Config
    snapshots: SnapshotLimits
    settings: BrokerSettings
    controller: ControllerConfig
    authorizer: Authorizer | None = None
    """None: access control is off."""
    listeners_apart: frozenset[str] = frozenset()
    """Listeners that no broker connects to."""
    address: HostPort
    """The address of its raft listener for other brokers."""
    seeds: tuple[HostPort, ...] = ()
    """Where it looks for a cluster to join."""
    named_voters: frozenset[int] = frozenset()
    """The voters in the configuration."""
    cluster_id: str = ""
    """As noted on disk; empty: it does not belong to a cluster yet."""
    heartbeat_ms: int
    session_timeout_ms: int
    proposal_timeout_ms: int


class Broker:
    """The broker's state machine; see the module. `ctx` is what request handlers work on."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        recovered: Recovered,
        book: AddressBook,
        clock: Clock,
        rng: Random,
        logs: LogsPort,
        reach: Reach,
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        """`recovered` is the content of the chain's store, `book` the configured and stored
        addresses; `on_work` is called when a handler has proposed something: `ready` is due."""
        self.config = config
        self.failure: BaseException | None = None
        """Why this broker must end; None while it runs."""
        self._id = config.raft.node_id
        self._clock = clock
        self._reach = reach
        self._on_work = on_work
        self._outbox = Outbox()
        self._touched = True
        self._image: MetadataImage | None = None
        self._book_changes = book.changes
        self._ask_about_ms = 0
        """A broker without a controller asks the others at most once per session timeout."""
        self._unjoined = Lasting(self._outbox.tell, "not joined yet")
        self._noted = config.cluster_id
        """The cluster id that this broker presents: the host has been asked to note it."""
        # The parts refer to each other, so the order matters: the context needs the quorum, peers
        # and controller need the context.
        self.quorum = Quorum(
            config.raft, recovered, clock, rng, config.snapshots, on_work, self._awaits
        )
        self.ctx = new_context(
            broker_id=self._id,
            image=MetadataImage(cluster_id=""),
            clock=clock,
            rng=rng,
            raft=self.quorum,
            logs=logs,
            settings=config.settings,
            quorum=self.quorum,
            why_no_controller=self.why_no_controller,
            authorizer=config.authorizer,
            listeners_apart=config.listeners_apart,
        )
        self.peers = Peers(
            self._id,
            address=config.address,
            cluster_id=config.cluster_id,
            seeds=config.seeds,
            book=book,
            image=lambda: self.ctx.image,
            members=lambda: self.quorum.node.members.all,
            height=lambda: self.ctx.metadata.applied_height,
            leads=lambda: self.transfer.leads_raft,
        )
        self.asking = Asking(self._id, config.seeds, book)
        self.controlling = Controlling(
            self.ctx, config.controller, self._change_members, self._look_again
        )
        self.transfer = LeadershipTransfer(
            self.ctx, self.quorum, self._outbox, clock, lambda: self.place
        )
        self.raft_work = RaftWork(self.quorum, self.ctx, self.peers, self._outbox, self.applied)
        self.hearing = Hearing(
            self.ctx, self.quorum, self.controlling, self.peers, self._outbox, clock
        )

    def _awaits(self, payload: bytes) -> bool:
        """Whether the change in a payload that was proposed here is still open."""
        return self.ctx.metadata.proposals.has_open(payload)

    def applied(self, at: At, payload: bytes | None) -> None:
        """A hook for observers: the image has the block at `at`; no payload after a snapshot."""

    # -- queries of the host

    @property
    def enrolment(self) -> Enrolment | None:
        """Set from the event `Enrol` on."""
        return self.hearing.enrolment

    @property
    def place(self) -> Place:
        """The membership state of this process."""
        return Place.UNKNOWN if self.enrolment is None else self.enrolment.place

    @property
    def has_left(self) -> bool:
        """After `Leave`: whether everything that other brokers can take over is handed over."""
        return self.place in (Place.LEFT, Place.DISMISSED) and not self.transfer.is_possible

    def hello(self, to: int) -> Hello:
        """This broker's introduction to `to` (0: an unknown peer that dialed in). It names no
        cluster until a `Ready` has asked the host to note it."""
        return replace(self.peers.hello(to), cluster_id=self._noted)

    def why_not_admitted(self, peer: Hello, elsewhere: str) -> str | None:
        """Why a peer that introduces itself is refused; None: it is admitted. `elsewhere` is the
        address of an open connection with the same id, if any."""
        voters = self.quorum.node.members.voters
        missing: list[int] = []
        if self.quorum.node.leader is None:
            others = voters - {peer.node_id, self._id}
            missing = [each for each in others if not self._reach.is_connected(each)]
        return self.peers.why_not(peer, elsewhere=elsewhere, voters=voters, missing=missing)

    def describe_wait(self) -> str:
        """What this broker waits for before it serves clients, as a sentence."""
        status, config = self.quorum.node.status(), self.config
        if status.leader is not None:
            return status_text.waits_for_controller(status.leader, self.ctx.storage.trouble)
        if self._id not in status.members.all:
            return status_text.waits_to_join(config.seeds, self.asking.trouble)
        return status_text.waits_for_voters(
            self._id,
            config.raft.initial_voters,
            status.members.voters,
            config.settings.data_directory,
            self._reach.trouble_with,
        )

    def why_no_controller(self) -> str:
        """Why there is no controller, with the voters that are reachable; empty: there is one."""
        status = self.quorum.node.status()
        if status.leader is not None:
            return ""
        voters = status.members.voters
        reached = [each for each in voters if each == self._id or self._reach.is_connected(each)]
        return status_text.no_controller(voters, len(reached))

    def check_cluster(self) -> None:
        """To be called once the recovered blocks are applied. Raises DismissedError if the data
        belong to another cluster than the configuration would form."""
        config = self.config
        trouble = status_text.other_cluster(
            self._id,
            config.named_voters,
            self.quorum.node.members.all,
            self.ctx.image,
            config.settings.data_directory,
        )
        if trouble:
            raise DismissedError(trouble)

    # -- input

    def step(self, event: e.Event) -> None:
        """Process an event. Raises FrameError for a message that the peer may not send: its
        connection is closed and nothing has changed, but `ready` is due."""
        if self.failure is None:
            self._touched = True
            try:
                EVENTS[type(event)](self, event)
            except (Fatal, InvariantBroken, DismissedError) as error:
                self.end(error)

    def end(self, reason: BaseException) -> None:
        """Stop for good, because of a failure here or in the host."""
        if self.failure is None:
            self.failure = reason
            self.quorum.has_ended = True

    def tick(self, now_ms: int) -> None:
        """Let time pass."""
        if self.failure is not None:
            return
        # Before the parts get their tick.
        due_ms, led = self._look_at_ms(), self.transfer.leads_raft
        try:
            self.quorum.tick(now_ms)
        except (Fatal, InvariantBroken) as error:
            self.end(error)
            return
        self.asking.tick(now_ms)
        if (due_ms is not None and now_ms >= due_ms) or led != self.transfer.leads_raft:
            self._touched = True
        self.raft_work.tick(now_ms)

    def wake_at_ms(self) -> int | None:
        """When `tick` is due if nothing happens before; None: no time is set."""
        times = (self.quorum.wake_at_ms(), self.raft_work.wake_at_ms(), self._look_at_ms())
        return min((each for each in times if each is not None), default=None)

    def _look_at_ms(self) -> int | None:
        times = [
            self.controlling.wake_at_ms(), self.asking.wake_at_ms(), self.transfer.wake_at_ms()
        ]  # fmt: skip
        if self.enrolment is not None:
            times.append(self.enrolment.wake_at_ms())
        return min((each for each in times if each is not None), default=None)

    # -- output

    def ready(self) -> e.Ready:
        """The work that is due now; empty: none until the next event or `wake_at_ms`. After a
        failure it is always empty: the broker may have drawn wrong conclusions."""
        if self.failure is None:
            try:
                self._work()
            except (Fatal, InvariantBroken, DismissedError) as error:
                self.end(error)
        ready = self._outbox.take()
        if self.failure is not None:
            return e.Ready()
        self._noted = ready.belongs_to or self._noted
        return ready

    def _work(self) -> None:
        """Process what is due, in the one fixed order."""
        while self.raft_work.take() or self._touched:
            self._touched = False
            self._look_around()
        changes = self.peers.book.changes
        if changes != self._book_changes:
            self._book_changes = changes
            self._outbox.ready.book_changed = True

    # -- consequences of any event

    def _look_around(self) -> None:
        """Let each part react to what changed, in one order: what Raft knows, this broker's own
        membership, the controller's decisions, then the image. Each may rely on those before it."""
        controlling, enrolment, ctx = self.controlling, self.enrolment, self.ctx
        controlling.raft_moved(self.quorum.view(self._reach.gone))
        if enrolment is not None:
            # Only once the block that names the cluster is committed here: see cluster/peers.py.
            can_propose = bool(self.peers.cluster_id) and self._is_member()
            beat = enrolment.step(can_propose=can_propose)
            if beat is not None:
                self._send_beat(beat, enrolment)
        controlling.step()
        if ctx.image is not self._image:
            before, self._image = self._image, ctx.image
            if before is None or ctx.image.brokers is not before.brokers:
                self.peers.learn_from_image()
                self._warn()
            self.quorum.node.speak(raft_format(ctx.image.features))
            self._outbox.ready.image_changed = True
        self._ask_around()
        self.transfer.step()

    def _send_beat(self, beat: Heartbeat, enrolment: Enrolment) -> None:
        """Send a heartbeat; the controller of this broker itself gets it without a frame."""
        controller = self.ctx.cluster.controller_id
        if controller == self._id:
            enrolment.answered(self.controlling.heard(beat))
        else:
            self._outbox.send(controller, beat)

    def _ask_around(self) -> None:
        """Ask other brokers to join, or to be seen by them. A broker that has not joined asks to be
        registered. One that the leader may not find (at an old address, or not in the leader's
        configuration) connects to it. One without a controller asks whether it is still a member.
        """
        asking, enrolment, members = self.asking, self.enrolment, self.quorum.node.members
        joins = (
            enrolment is not None
            and enrolment.place is Place.UNKNOWN
            and self._id not in members.voters
        )
        now_ms = self._clock.monotonic_ms()
        if not asking.trouble:
            self._unjoined.end(now_ms, "was answered")
        elif joins:
            self._unjoined.goes_on(now_ms, asking.trouble)
        was_born_without = self.hearing.met_born and not self.peers.cluster_id
        misses_controller = self._misses_controller() and now_ms >= self._ask_about_ms
        wants_to_be_seen = self.hearing.met_unknown or was_born_without or misses_controller
        if asking.step is not Step.IDLE or not (joins or wants_to_be_seen):
            return
        self.hearing.met_unknown = False
        self._ask_about_ms = now_ms + self.config.session_timeout_ms
        registration = None
        if joins and enrolment is not None and not self._is_member():
            # Without an image it cannot know whether the cluster supports claims about logs.
            newcomer = as_newcomer(enrolment.registration)
            registration = encode_change(newcomer, Origin(self._id, 0))
        self._outbox.ask(asking.begin(registration, now_ms))

    def _misses_controller(self) -> bool:
        """Whether this registered broker has had no answer for a session. It may have been removed
        while it was stopped, and know as members only brokers that are gone or lost their data: it
        would refuse their successors forever. A broker that knows of the removal reports it."""
        return self.place is not Place.UNKNOWN and not self.ctx.cluster.is_heard

    def _is_member(self) -> bool:
        return self._id in self.quorum.node.members.all

    def _change_members(self, change: MemberChange) -> None:
        if self.quorum.change_members(change):
            self._outbox.tell(
                "raft members change", step=change.step.value, broker=change.broker_id
            )

    def _warn(self) -> None:
        for warning in self.peers.warnings():
            self._outbox.tell("advertised address", is_warning=True, reason=warning)

    def _look_again(self) -> None:
        """A proposal was settled, perhaps at its deadline, by another timer."""
        self._touched = True
        self._on_work()

    # -- requests to other brokers

    def _answered(self, event: e.Answered) -> None:
        now_ms = self._clock.monotonic_ms()
        self._outbox.ask(self.asking.answered(event.number, event.said, now_ms))
        if self.asking.refusal and self.enrolment is not None:
            self.enrolment.refused(self.asking.refusal)

    def _unanswered(self, event: e.Unanswered) -> None:
        now_ms = self._clock.monotonic_ms()
        self._outbox.ask(self.asking.unanswered(event.number, event.reason, now_ms))

    def _turned_away(self, event: e.TurnedAway) -> None:
        is_heard = self.place is Place.SERVING and self.ctx.cluster.is_heard
        sentence = self.peers.must_stop(
            event.reason,
            self._clock.monotonic_ms(),
            patience_ms=PATIENCE_SESSIONS * self.config.session_timeout_ms,
            is_heard=is_heard,
        )
        if sentence:
            raise DismissedError(sentence)

    def _found_no_room(self, event: e.FoundNoRoom) -> None:
        self.raft_work.found_no_room(event.reason, self._clock.monotonic_ms())

    def _peers_gone(self, event: e.PeersGone) -> None:
        now_ms = self._clock.monotonic_ms()
        for peer in event.peers:
            self.quorum.node.peer_gone(NodeId(peer), now_ms)

    # -- this broker's own membership

    def _enrol(self, event: e.Enrol) -> None:
        config, address = self.config, self.peers.address
        registration = replace(event.registration, raft=Address(address.host, address.port))
        self.peers.introduce(registration)
        self._warn()
        self.hearing.enrolment = Enrolment(
            self.ctx,
            registration,
            started=event.started,
            heartbeat_ms=config.heartbeat_ms,
            proposal_timeout_ms=config.proposal_timeout_ms,
            session_timeout_ms=config.session_timeout_ms,
            on_settled=self._look_again,
        )

    def _leave(self, _event: e.Leave) -> None:
        if self.enrolment is not None:
            self.enrolment.leave()


EVENTS: dict[type, Callable[[Broker, Any], None]] = {
    e.Greeted: lambda broker, event: broker.hearing.greeted(
        event.peer, was_dialed=event.was_dialed
    ),
    e.Heard: lambda broker, event: broker.hearing.heard(event),
    e.Answered: Broker._answered,
    e.Unanswered: Broker._unanswered,
    e.TurnedAway: Broker._turned_away,
    e.PeersGone: Broker._peers_gone,
    e.Appended: lambda broker, _: broker.raft_work.appended(broker._clock.monotonic_ms()),
    e.Synced: lambda broker, _: broker.raft_work.synced(),
    e.FoundNoRoom: Broker._found_no_room,
    e.Enrol: Broker._enrol,
    e.Leave: Broker._leave,
}

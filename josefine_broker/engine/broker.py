"""A broker among others as one value that is driven: what happened in, what is to be done out.

Rules: `step` takes an event, `tick` the time, and `ready` does what follows from them, in one order
of work, written once (`_work`): Raft's; then its view, this broker's enrolment, the controller, the
readers of the image, the questions to others, the handing over. No I/O, no clock or chance but what
is passed in. The log and the partitions are `ctx`'s, and so is what clients ask: those paths do not
come through here, but what they propose does.

A host (asyncio and files; the simulator) does this, always in this order:
1. `step(event)` for what happened, `tick(now_ms)` when `wake_at_ms()` has come, or at any time;
2. `ready()`, and all of its work (events.Ready says in which order), until it is empty;
3. looks at `failure`: a broker that has one does nothing more and must end.
While it stores a batch it goes on with everything else.
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
from josefine_broker.engine.cluster.joining import Asking, Step
from josefine_broker.engine.cluster.peers import Peers
from josefine_broker.engine.context import BrokerSettings, new_context
from josefine_broker.engine.controller.controller import ControllerConfig, Heartbeat
from josefine_broker.engine.controller.membership import MemberChange
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import At, Origin
from josefine_broker.engine.metadata.features import raft_format
from josefine_broker.engine.metadata.image import Address, MetadataImage
from josefine_broker.engine.metadata_quorum.controller_host import Controlling
from josefine_broker.engine.metadata_quorum.peer_messages import Hearing
from josefine_broker.engine.metadata_quorum.quorum import Quorum, SnapshotLimits
from josefine_broker.engine.metadata_quorum.ready_work import RaftWork
from josefine_broker.engine.outbox import Outbox
from josefine_broker.engine.ports import LogsPort
from josefine_broker.engine.security.authorizer import Authorizer
from raft import Config, InvariantBroken, NodeId, Recovered, Role

HAND_OVER_MS = 1_000
"""Between two attempts to let another voter lead Raft."""
PATIENCE_SESSIONS = 4
"""How many session timeouts a broker that others call removed waits for a block that names it."""


class Reach(Protocol):
    """What the host knows of the connections to other brokers."""

    def is_connected(self, broker_id: int) -> bool: ...

    def trouble_with(self, broker_id: int) -> str:
        """Why it cannot be reached, address first; empty: it can, or nobody tried."""
        ...

    def gone(self) -> frozenset[int]:
        """Brokers that have no process: their address refuses connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What a broker is told once."""

    raft: Config
    snapshots: SnapshotLimits
    settings: BrokerSettings
    controller: ControllerConfig
    authorizer: Authorizer | None = None
    listeners_apart: frozenset[str] = frozenset()
    """Through which no broker comes."""
    """None: everybody may do everything."""
    address: HostPort
    """Where its raft listener is to be dialed."""
    seeds: tuple[HostPort, ...] = ()
    """Where it looks for a cluster to join."""
    named_voters: frozenset[int] = frozenset()
    """By the configuration."""
    cluster_id: str = ""
    """Noted in an earlier life; empty: it belongs to none yet."""
    heartbeat_ms: int
    session_timeout_ms: int
    proposal_timeout_ms: int


class Broker:
    """See the module. `ctx` is what request handlers work on."""

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
        """`recovered` is what the chain's store holds, `book` what is configured and kept;
        `on_work` is told that a handler has proposed something: `ready` is due."""
        self.config = config
        self.failure: BaseException | None = None
        """Why this broker must end."""
        self._id = config.raft.node_id
        self._clock = clock
        self._reach = reach
        self._on_work = on_work
        self._outbox = Outbox()
        self._touched = True
        self._image: MetadataImage | None = None
        self._book_changes = book.changes
        self._hand_over_ms = 0
        self._ask_about_ms = 0
        """Not before: who misses its controller asks once a session, whoever else there is."""
        self._unjoined = Lasting(self._outbox.tell, "not joined yet")
        self._noted = config.cluster_id
        """Whose this broker says that it is: the host was told to note it."""
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
            leads=lambda: self._leads_raft,
        )
        self.asking = Asking(self._id, config.seeds, book)
        self.controlling = Controlling(
            self.ctx, config.controller, self._change_members, self._look_again
        )
        self.raft_work = RaftWork(self.quorum, self.ctx, self.peers, self._outbox, self.applied)
        self.hearing = Hearing(
            self.ctx, self.quorum, self.controlling, self.peers, self._outbox, clock
        )

    def _awaits(self, payload: bytes) -> bool:
        """Whether the change in a payload that was proposed here is still to be settled."""
        return self.ctx.metadata.proposals.has_open(payload)

    def applied(self, at: At, payload: bytes | None) -> None:
        """For who watches: the image is as of `at`; without a payload by a snapshot."""

    # -- questions of a host

    @property
    def enrolment(self) -> Enrolment | None:
        """From `Enrol` on."""
        return self.hearing.enrolment

    @property
    def place(self) -> Place:
        """Where this process stands in the cluster."""
        return Place.UNKNOWN if self.enrolment is None else self.enrolment.place

    @property
    def has_left(self) -> bool:
        """After `Leave`: nothing is left that another broker could do for this one."""
        has_left = self.place in (Place.LEFT, Place.DISMISSED)
        return has_left and not (self._leads_raft and self._other_voters())

    @property
    def _leads_raft(self) -> bool:
        return self.quorum.node.role is Role.LEADER

    def hello(self, to: int) -> Hello:
        """How this broker introduces itself to `to` (0: whoever dialed). It names no cluster before
        a `Ready` has told the host to note it."""
        return replace(self.peers.hello(to), cluster_id=self._noted)

    def why_not_admitted(self, peer: Hello, elsewhere: str) -> str | None:
        """Why a peer that greets is not let in; None: it is. `elsewhere` is the address of an open
        connection under its id, if there is one."""
        voters = self.quorum.node.members.voters
        missing: list[int] = []
        if self.quorum.node.leader is None:
            others = voters - {peer.node_id, self._id}
            missing = [each for each in others if not self._reach.is_connected(each)]
        return self.peers.why_not(peer, elsewhere=elsewhere, voters=voters, missing=missing)

    def describe_wait(self) -> str:
        """What this broker waits for before it serves, as a sentence."""
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
        """As a sentence, with the voters that this broker reaches; empty: there is one."""
        status = self.quorum.node.status()
        if status.leader is not None:
            return ""
        voters = status.members.voters
        reached = [each for each in voters if each == self._id or self._reach.is_connected(each)]
        return status_text.no_controller(voters, len(reached))

    def check_cluster(self) -> None:
        """Once what was recovered is applied. Raises DismissedError for data of another cluster
        than the configuration would form."""
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
        """Take an event. Raises FrameError for what a peer may not say: its connection ends, and
        nothing has changed (but `ready` is due: this broker may want to ask who that was)."""
        if self.failure is None:
            self._touched = True
            try:
                EVENTS[type(event)](self, event)
            except (Fatal, InvariantBroken, DismissedError) as error:
                self.end(error)

    def end(self, reason: BaseException) -> None:
        """It cannot go on, or its host cannot: from here on it does nothing more."""
        if self.failure is None:
            self.failure = reason
            self.quorum.has_ended = True

    def tick(self, now_ms: int) -> None:
        """Let time pass."""
        if self.failure is not None:
            return
        due_ms, led = self._look_at_ms(), self._leads_raft  # before who is due has had its tick
        try:
            self.quorum.tick(now_ms)
        except (Fatal, InvariantBroken) as error:
            self.end(error)
            return
        self.asking.tick(now_ms)
        if (due_ms is not None and now_ms >= due_ms) or led != self._leads_raft:
            self._touched = True
        self.raft_work.tick(now_ms)

    def wake_at_ms(self) -> int | None:
        """When `tick` is due if nothing happens before; None: not by time."""
        times = (self.quorum.wake_at_ms(), self.raft_work.wake_at_ms(), self._look_at_ms())
        return min((each for each in times if each is not None), default=None)

    def _look_at_ms(self) -> int | None:
        times = [self.controlling.wake_at_ms(), self.asking.wake_at_ms()]
        if self.enrolment is not None:
            times.append(self.enrolment.wake_at_ms())
        if self._wants_to_hand_over():
            times.append(self._hand_over_ms)
        return min((each for each in times if each is not None), default=None)

    # -- output

    def ready(self) -> e.Ready:
        """What is to be done now; empty: nothing, until the next event or `wake_at_ms`. Who has
        ended has nothing to do, and nothing to say of what it may have believed wrongly."""
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
        """The one order of work."""
        while self.raft_work.take() or self._touched:
            self._touched = False
            self._look_around()
        changes = self.peers.book.changes
        if changes != self._book_changes:
            self._book_changes = changes
            self._outbox.ready.book_changed = True

    # -- what follows from anything

    def _look_around(self) -> None:
        controlling, enrolment, ctx = self.controlling, self.enrolment, self.ctx
        controlling.raft_moved(self.quorum.view(self._reach.gone))
        if enrolment is not None:
            # Not before the block that names the cluster is committed here: see cluster/peers.py.
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
        self._hand_over()

    def _send_beat(self, beat: Heartbeat, enrolment: Enrolment) -> None:
        """To this broker's own controller it takes no frame."""
        controller = self.ctx.cluster.controller_id
        if controller == self._id:
            enrolment.answered(self.controlling.heard(beat))
        else:
            self._outbox.send(controller, beat)

    def _ask_around(self) -> None:
        """A broker that is not in yet asks to be taken in, or shows itself: nobody hears from it
        otherwise, and the leader may look for it where it was before, or not be one of those that
        its configuration names. Who misses its controller asks whether it still is of the cluster.
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
            # Without an image it does not know whether the cluster understands more; it has no
            # logs.
            plain = replace(enrolment.registration, logs=None)
            registration = encode_change(plain, Origin(self._id, 0))
        self._outbox.ask(asking.begin(registration, now_ms))

    def _misses_controller(self) -> bool:
        """It was registered, and nobody has answered for a session. Perhaps it was removed while it
        stood still, and knows as members only those that are gone, or came back without their data:
        it would refuse them for ever. Whoever knows of the removal says so when it is asked."""
        return self.place is not Place.UNKNOWN and not self.ctx.cluster.is_heard

    def _wants_to_hand_over(self) -> bool:
        """Whoever stops lets another voter lead Raft, and whose disk is full, if one is live:
        sooner or later a write of its own would find no room, and everybody's changes would wait.
        """
        if not self._leads_raft:
            return False
        if self.place in (Place.LEFT, Place.DISMISSED):
            return bool(self._other_voters())
        is_full = self.ctx.storage.is_full
        return is_full and not self.ctx.image.live_brokers().isdisjoint(self._other_voters())

    def _other_voters(self) -> frozenset[int]:
        return self.quorum.node.members.voters - {self._id}

    def _hand_over(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if not self._wants_to_hand_over() or now_ms < self._hand_over_ms:
            return
        self._hand_over_ms = now_ms + HAND_OVER_MS
        if not self.quorum.node.hands_over:
            live = set(self.ctx.image.live_brokers()) - {self._id}
            begun = self.quorum.hand_over(live)
            self._outbox.tell("raft leadership handed over" if begun else "raft leadership stays")

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
        """What was proposed came to its end, perhaps at its deadline, by another timer."""
        self._touched = True
        self._on_work()

    # -- questions to others

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

    # -- this broker's own life

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

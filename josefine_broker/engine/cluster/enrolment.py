"""The enrolment of this process in the cluster: registration, heartbeats, controlled shutdown.

Rules: each process is an incarnation and registers once; the registration is repeated until the
image shows it. From then on it sends a heartbeat every interval, whether it is fenced or not. A
process whose broker was registered by another process, or removed by command, is dismissed and must
stop. Nothing here waits: the owner calls `step` at `wake_at_ms` and after each change of the image,
sends the heartbeat that it returns, and passes the controller's answer back.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from enum import Enum

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.controller.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.engine.metadata.changes import RegisterBroker
from josefine_broker.engine.metadata.image import BrokerEntry
from josefine_broker.engine.metadata.log_completeness import Completeness, LogKey
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change

RETRY_MS = 100
"""Delay before a registration is repeated that was refused for a temporary reason."""

COMPLETE = Completeness.COMPLETE

PASSING = frozenset({ErrorCode.request_timed_out, ErrorCode.stale_broker_epoch})
"""Refusals after which it is repeated. The second one means that a block came in between, which the
image has by then: possibly the last registration of an earlier process."""


class Place(Enum):
    """The membership state of this process."""

    UNKNOWN = "unknown"  # the image does not show this incarnation (yet)
    FENCED = "fenced"  # registered; leads nothing and joins no ISR
    SERVING = "serving"  # unfenced
    LEAVING = "leaving"  # has asked to stop; hands over its leaderships
    LEFT = "left"  # nothing is left that another broker could take over
    DISMISSED = "dismissed"  # another process has this broker id now, or it was removed


class Shown(Enum):
    """What the image shows of this process."""

    NOTHING = "nothing"  # its incarnation was not registered (yet)
    FENCED = "fenced"  # it is registered, and fenced
    UNFENCED = "unfenced"  # it is registered, and not fenced
    NO_MORE = "no more"  # it was registered, and is not any more


class Wish(Enum):
    """What this process intends to do."""

    STAY = "stay"  # continue
    STOP = "stop"  # stop, once the controller allows it
    MAY_STOP = "may stop"  # stop: the controller has allowed it


PLACES: dict[tuple[Shown, Wish], Place] = {
    (Shown.NOTHING, Wish.STAY): Place.UNKNOWN,
    (Shown.NOTHING, Wish.STOP): Place.UNKNOWN,
    (Shown.NOTHING, Wish.MAY_STOP): Place.UNKNOWN,
    (Shown.FENCED, Wish.STAY): Place.FENCED,
    (Shown.FENCED, Wish.STOP): Place.LEAVING,
    (Shown.FENCED, Wish.MAY_STOP): Place.LEFT,
    (Shown.UNFENCED, Wish.STAY): Place.SERVING,
    (Shown.UNFENCED, Wish.STOP): Place.LEAVING,
    (Shown.UNFENCED, Wish.MAY_STOP): Place.LEFT,
    (Shown.NO_MORE, Wish.STAY): Place.DISMISSED,
    (Shown.NO_MORE, Wish.STOP): Place.DISMISSED,
    (Shown.NO_MORE, Wish.MAY_STOP): Place.DISMISSED,
}
"""A place is derived from the image instead of changed by events, because the image may change in
several steps at once: a broker that was offline may be fenced, serving or dismissed afterwards."""


class DismissedError(Exception):
    """This process must stop: it is not, or no longer, the broker that it was started as. The
    message is one sentence for the operator."""


class Heartbeats:
    """When this process sends the next heartbeat, and whether the controller hears it. Mutable."""

    __slots__ = ("_answered_ms", "_controller", "_interval_ms", "_session_timeout_ms", "due_ms")

    def __init__(self, interval_ms: int, session_timeout_ms: int) -> None:
        self._interval_ms = interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._answered_ms: int | None = None
        self._controller: int | None = None
        """The one that got the last heartbeat."""
        self.due_ms = 0
        """Also of the registration, while that is missing."""

    def answered(self, now_ms: int) -> None:
        """The controller knows this process under its broker epoch."""
        self._answered_ms = now_ms

    def is_heard(self, now_ms: int) -> bool:
        """Whether the controller has answered within the session. A session starts here when it is
        first asked for: the registration was the controller's first answer."""
        return now_ms < self.session_end_ms(now_ms)

    def session_end_ms(self, now_ms: int) -> int:
        """When the session ends if no further answer comes."""
        if self._answered_ms is None:
            self._answered_ms = now_ms
        return self._answered_ms + self._session_timeout_ms

    def take_due(self, controller: int, now_ms: int) -> bool:
        """Whether one is due now, as it is to each new controller; then the next one is set."""
        if now_ms < self.due_ms and controller == self._controller:
            return False
        self._controller = controller
        self.due_ms = now_ms + self._interval_ms
        return True


class Enrolment:
    """The enrolment of one process. `registration` has what never changes during its lifetime."""

    def __init__(
        self,
        ctx: Context,
        registration: RegisterBroker,
        *,
        started: Collection[str] = (),
        heartbeat_ms: int,
        proposal_timeout_ms: int,
        session_timeout_ms: int = 9_000,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        """`started`: see events.Enrol. `on_settled` is called when a proposal was settled: `step`
        is due."""
        self._ctx = ctx
        self.registration = registration
        self._started = started
        self._proposal_timeout_ms = proposal_timeout_ms
        self._heartbeats = Heartbeats(heartbeat_ms, session_timeout_ms)
        self._on_settled = on_settled
        self._proposal: Proposal | None = None
        self._can_propose = True
        """As passed to the last `step`."""
        self._was_registered = False
        self._refusal = ""
        self._wants_shutdown = False
        self._may_stop = False
        # From here on an entry of an earlier process in the image is not this broker's own.
        ctx.cluster.incarnation = registration.incarnation

    @property
    def place(self) -> Place:
        return PLACES[self.shown, self.wish]

    @property
    def shown(self) -> Shown:
        entry = self._entry()
        if entry is None:
            return Shown.NO_MORE if self._was_registered else Shown.NOTHING
        return Shown.FENCED if entry.fenced else Shown.UNFENCED

    @property
    def wish(self) -> Wish:
        if not self._wants_shutdown:
            return Wish.STAY
        return Wish.MAY_STOP if self._may_stop else Wish.STOP

    def leave(self) -> None:
        """Ask to stop, with every heartbeat from now on."""
        self._wants_shutdown = True
        self._heartbeats.due_ms = 0

    def step(self, *, can_propose: bool = True) -> Heartbeat | None:
        """The heartbeat to send to the controller now, if any. Proposes the registration while it
        is missing, unless `can_propose` is False: a new broker asks a member to propose it.

        Raises DismissedError.
        """
        ctx = self._ctx
        entry = self._entry()
        self._can_propose = can_propose
        if entry is None:
            self._check_dismissed()
            if can_propose:
                self._register()
            return None
        self._was_registered = True
        now_ms = ctx.clock.monotonic_ms()
        ctx.cluster.is_heard = self._heartbeats.is_heard(now_ms)
        ctx.cluster.session_end_ms = self._heartbeats.session_end_ms(now_ms)
        controller = ctx.cluster.controller_id
        if not self._heartbeats.take_due(controller, now_ms):
            return None
        if controller < 0:  # no controller is known; checked again when there is one
            return None
        return Heartbeat(
            broker_id=ctx.broker_id,
            broker_epoch=entry.epoch,
            applied_height=ctx.metadata.applied_height,
            # A broker that cannot write hands over as one that stops, until it can write again.
            wants_shutdown=self._wants_shutdown or bool(ctx.storage.trouble),
            better_claims=self._better_claims(),
        )

    def _better_claims(self) -> dict[LogKey, Completeness]:
        """Of the logs that the image still doubts, those that are better than this process claimed
        when it registered. Each heartbeat has them: the controller may be another one by now."""
        ctx = self._ctx
        found = {}
        for (topic_id, index), claim in ctx.hosted.better_claims.items():
            entry = ctx.image.partition(ctx.image.topic_names.get(topic_id, ""), index)
            if entry is not None and entry.completeness_of(ctx.broker_id) is not COMPLETE:
                found[topic_id, index] = claim.or_worse(ctx.cluster.best_claim)
        return found

    def answered(self, answer: HeartbeatAnswer) -> None:
        """Handle the controller's answer."""
        if answer.known_epoch:
            now_ms = self._ctx.clock.monotonic_ms()
            self._heartbeats.answered(now_ms)
            self._ctx.cluster.is_heard = True
            self._ctx.cluster.session_end_ms = self._heartbeats.session_end_ms(now_ms)
        self._may_stop = answer.known_epoch and answer.may_stop
        if answer.known_epoch and self._wants_shutdown and not answer.may_stop:
            again_ms = self._ctx.clock.monotonic_ms() + RETRY_MS
            self._heartbeats.due_ms = min(self._heartbeats.due_ms, again_ms)

    def wake_at_ms(self) -> int | None:
        """When `step` is due if nothing happens before; None: no time is set."""
        if self._entry() is None:
            has_to = self._can_propose and self._proposal is None
            return self._heartbeats.due_ms if has_to else None
        return self._heartbeats.due_ms

    # -- registration

    def _entry(self) -> BrokerEntry | None:
        entry = self._ctx.image.brokers.get(self._ctx.broker_id)
        if entry is None or entry.incarnation != self.registration.incarnation:
            return None
        return entry

    def _check_dismissed(self) -> None:
        if self._refusal:
            raise DismissedError(self._refusal)
        if not self._was_registered:
            return
        broker_id = self._ctx.broker_id
        if broker_id in self._ctx.image.brokers:
            raise DismissedError(
                f"another process was started as broker {broker_id}; this one has stopped"
            )
        raise DismissedError(f"broker {broker_id} was removed from the cluster")

    def _register(self) -> None:
        ctx = self._ctx
        now_ms = ctx.clock.monotonic_ms()
        if self._proposal is not None or now_ms < self._heartbeats.due_ms:
            return
        self._heartbeats.due_ms = now_ms + RETRY_MS
        deadline_ms = now_ms + self._proposal_timeout_ms
        known = ctx.image.brokers.get(ctx.broker_id)
        previous_epoch = self._previous_epoch(known)
        # As `metadata/registration.py` judges it: another epoch, another disk.
        is_the_same_disk = known is not None and known.epoch == previous_epoch
        ctx.cluster.best_claim = COMPLETE if is_the_same_disk else Completeness.UNSYNCED
        change = replace(
            self.registration,
            logs=self.registration.logs if ctx.image.keeps_doubts else None,
            known_epoch=-1 if known is None else known.epoch,
            previous_epoch=previous_epoch,
        )
        try:
            self._proposal = submit_change(ctx, change, deadline_ms)
        except KafkaError:
            return
        answer_when_settled(ctx, [self._proposal], deadline_ms, self._settled)

    def _previous_epoch(self, known: BrokerEntry | None) -> int:
        """The epoch of the last process that wrote to this disk. That process may have been
        registered without learning of it, because it was killed before."""
        previous = self.registration.previous_epoch
        is_ours = previous >= 0 and known is not None and known.incarnation in self._started
        return known.epoch if is_ours and known is not None else previous

    def _settled(self) -> None:
        """The proposal is settled: registered (and in the image), refused, or in doubt."""
        proposal, self._proposal = self._proposal, None
        assert proposal is not None
        error = proposal.error
        if error is not None and error.code not in PASSING:
            self.refused(str(error))
        self._on_settled()

    def refused(self, reason: str) -> None:
        """The cluster refuses this broker: the next `step` raises."""
        self._refusal = f"broker {self._ctx.broker_id} was not registered: {reason}"

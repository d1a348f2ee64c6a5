"""The controller at work in one broker: it judges with `controller/controller.py` and proposes.

Rules: it leads while this broker leads Raft and has applied a block of its own term (so that its
image has everything that earlier controllers committed); one decision is under way at a time; a
decision is a block like any other, and its term tells it from one of a deposed controller. Nothing
here waits: the owner calls `raft_moved`, `heard` and `step`, the last also at `wake_at_ms`.
"""

from collections.abc import Callable
from typing import NamedTuple

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.controller.controller import (
    Controller,
    ControllerConfig,
    Heartbeat,
    HeartbeatAnswer,
)
from josefine_broker.engine.controller.membership import MemberChange
from josefine_broker.engine.proposing import answer_when_settled, submit_change

DECISION_TIMEOUT_MS = 5_000
"""A decision that is not committed by then is made anew. It cannot take effect twice: the epochs
that it names fit once."""

RETRY_MS = 100
"""Between two attempts to propose a decision that Raft does not take."""

ChangeMembers = Callable[[MemberChange], object]
"""Begin a change of Raft's members; a refusal is no news, it is asked for again."""


class RaftView(NamedTuple):
    """What of Raft matters here."""

    term: int
    leader: int
    """-1: none is known."""
    leads: bool
    """This broker leads, and has applied a block of its term."""
    voters: frozenset[int]
    learners: frozenset[int]
    caught_up: frozenset[int]
    """Learners that have (nearly) every block; known to the leader alone."""
    gone: frozenset[int] = frozenset()
    """Brokers that have no process: where they listened nobody does. Known sooner than by their
    silence, when a process died and its machine did not."""


NOBODY = RaftView(
    term=0,
    leader=-1,
    leads=False,
    voters=frozenset(),
    learners=frozenset(),
    caught_up=frozenset(),
)


class Controlling:
    """One per broker, from start to stop; most of the time it does not lead."""

    def __init__(
        self,
        ctx: Context,
        config: ControllerConfig,
        change_members: ChangeMembers,
        on_decided: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_decided` hears that a decision is under way no more: `step` is due."""
        self._ctx = ctx
        self._controller = Controller(ctx.broker_id, config)
        self._change_members = change_members
        self._on_decided = on_decided
        self._raft = NOBODY
        self._is_deciding = False
        self._retry_ms = 0
        self.decisions = 0
        """Proposed so far, for the metrics."""

    @property
    def leads(self) -> bool:
        return self._controller.term is not None

    def raft_moved(self, view: RaftView) -> None:
        """Raft's role, term, leader or members may be others."""
        ctx, controller = self._ctx, self._controller
        self._raft = view
        ctx.cluster.controller_id = view.leader
        ctx.cluster.controller_term = view.term if view.leads else None
        if controller.term is not None and (not view.leads or view.term != controller.term):
            controller.resign()
        now_ms = ctx.clock.monotonic_ms()
        if view.leads and controller.term is None:
            controller.lead(view.term, ctx.image, now_ms)
        for broker_id in view.gone:
            controller.lost(broker_id, now_ms)

    def heard(self, beat: Heartbeat) -> HeartbeatAnswer:
        """A broker's heartbeat; `step` is due then. Who does not lead knows nobody."""
        ctx = self._ctx
        return self._controller.heartbeat(beat, ctx.image, ctx.clock.monotonic_ms())

    def step(self) -> None:
        """Propose what is due now."""
        ctx, controller = self._ctx, self._controller
        if controller.term is None or self._is_deciding:
            return
        now_ms = ctx.clock.monotonic_ms()
        decision = controller.decide(ctx.image, now_ms)
        if decision is not None:
            self._is_deciding = True
            self.decisions += 1
            deadline_ms = now_ms + DECISION_TIMEOUT_MS
            try:
                proposal = submit_change(ctx, decision, deadline_ms)
            except KafkaError:
                self._is_deciding = False
                self._retry_ms = now_ms + RETRY_MS
                return
            answer_when_settled(ctx, [proposal], deadline_ms, self._decided)
        raft = self._raft
        change = controller.members(ctx.image, raft.voters, raft.learners, raft.caught_up)
        if change is not None:
            self._change_members(change)

    def wake_at_ms(self) -> int | None:
        """When `step` is due if nothing happens before; None: not by time."""
        wake_ms = self._controller.wake_at_ms()
        return None if self._is_deciding or wake_ms is None else max(wake_ms, self._retry_ms)

    def _decided(self) -> None:
        """The decision was applied, refused or given up: the next `step` looks at the image."""
        self._is_deciding = False
        self._on_decided()

"""The controller in one broker: it runs `controller/controller.py` and proposes its decisions.

Rules: it is active while this broker leads Raft and has applied a block of its own term, so that
its image has everything that earlier controllers committed. One decision is in flight at a time. A
decision is a block like any other; its term distinguishes it from one of a deposed controller.
Nothing here waits: the owner calls `raft_moved`, `heard` and `step`, the last also at `wake_at_ms`.
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
"""A decision that is not committed by then is made again. It cannot take effect twice, because the
epochs that it names match once."""

RETRY_MS = 100
"""Delay before a decision that Raft refused is proposed again."""

ChangeMembers = Callable[[MemberChange], object]
"""Starts a change of Raft's members. A refusal is ignored: the step is requested again."""


class RaftView(NamedTuple):
    """Raft's state, as far as the controller needs it."""

    term: int
    leader: int
    """-1 when unknown."""
    leads: bool
    """This broker is the leader and has applied a block of its term."""
    voters: frozenset[int]
    learners: frozenset[int]
    caught_up: frozenset[int]
    """Learners that have (nearly) every block; known only to the leader."""
    gone: frozenset[int] = frozenset()
    """Brokers without a process: nothing listens at their address. This is known before the
    heartbeat times out, if a process has died and its machine has not."""


NOBODY = RaftView(
    term=0,
    leader=-1,
    leads=False,
    voters=frozenset(),
    learners=frozenset(),
    caught_up=frozenset(),
)


class Controlling:
    """The controller of one broker, from start to stop; usually it is inactive."""

    def __init__(
        self,
        ctx: Context,
        config: ControllerConfig,
        change_members: ChangeMembers,
        on_decided: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_decided` is called when no decision is in flight any more: `step` is due."""
        self._ctx = ctx
        self._controller = Controller(ctx.broker_id, config)
        self._change_members = change_members
        self._on_decided = on_decided
        self._raft = NOBODY
        self._is_deciding = False
        self._retry_ms = 0
        self.decisions = 0
        """Number of proposed decisions, for the metrics."""

    @property
    def leads(self) -> bool:
        return self._controller.term is not None

    def raft_moved(self, view: RaftView) -> None:
        """Raft's role, term, leader or members may have changed."""
        ctx, controller = self._ctx, self._controller
        self._raft = view
        ctx.cluster.controller_id = view.leader
        ctx.cluster.controller_term = view.term if view.leads else None
        # A controller of an old term resigns before the new one starts: the brokers that it counted
        # as live were heard by a controller that may have been deposed long ago.
        if controller.term is not None and (not view.leads or view.term != controller.term):
            controller.resign()
        now_ms = ctx.clock.monotonic_ms()
        if view.leads and controller.term is None:
            controller.lead(view.term, ctx.image, now_ms)
        for broker_id in view.gone:
            controller.lost(broker_id, now_ms)

    def heard(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Handle a broker's heartbeat; `step` is due after it. An inactive controller knows no
        broker."""
        ctx = self._ctx
        return self._controller.heartbeat(beat, ctx.image, ctx.clock.monotonic_ms())

    def step(self) -> None:
        """Propose the decision that is due now, and start the membership step that is due."""
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
        """When `step` is due without an event before; None: no time is set."""
        wake_ms = self._controller.wake_at_ms()
        return None if self._is_deciding or wake_ms is None else max(wake_ms, self._retry_ms)

    def _decided(self) -> None:
        """The decision was applied, refused or given up: the next `step` reads the image."""
        self._is_deciding = False
        self._on_decided()

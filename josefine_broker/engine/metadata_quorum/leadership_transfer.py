"""The transfer of the Raft leadership to another voter, while this broker is to give it up."""

from __future__ import annotations

from collections.abc import Callable

from josefine_broker.base.ports import Clock
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata_quorum.quorum import Quorum
from josefine_broker.engine.outbox import Outbox
from raft import Role

HAND_OVER_MS = 1_000
"""Delay between two attempts."""


class LeadershipTransfer:
    """See the module. Its state is the time of the next attempt."""

    def __init__(
        self,
        ctx: Context,
        quorum: Quorum,
        outbox: Outbox,
        clock: Clock,
        place: Callable[[], Place],
    ) -> None:
        """`place` returns the membership state of this process."""
        self._ctx = ctx
        self._quorum = quorum
        self._outbox = outbox
        self._clock = clock
        self._place = place
        self._due_ms = 0

    @property
    def leads_raft(self) -> bool:
        """Whether this broker is the Raft leader."""
        return self._quorum.node.role is Role.LEADER

    @property
    def is_possible(self) -> bool:
        """Whether this broker leads, and another voter exists."""
        return self.leads_raft and bool(self._other_voters())

    def wake_at_ms(self) -> int | None:
        """When `step` is due; None: no transfer is wanted."""
        return self._due_ms if self._is_wanted() else None

    def step(self) -> None:
        """Start a transfer if one is wanted and due."""
        now_ms = self._clock.monotonic_ms()
        if not self._is_wanted() or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + HAND_OVER_MS
        if not self._quorum.node.hands_over:
            live = set(self._ctx.image.live_brokers()) - {self._ctx.broker_id}
            begun = self._quorum.hand_over(live)
            self._outbox.tell("raft leadership handed over" if begun else "raft leadership stays")

    def _is_wanted(self) -> bool:
        """Whether another voter should lead Raft: this broker is stopping; or its disk is full, or
        a limit lasts, and a live voter exists. Sooner or later one of its own writes would fail,
        and every metadata change would wait."""
        if not self.leads_raft:
            return False
        if self._place() in (Place.LEFT, Place.DISMISSED):
            return self.is_possible
        storage = self._ctx.storage
        is_full = storage.is_full or bool(storage.limit.reason)
        return is_full and not self._ctx.image.live_brokers().isdisjoint(self._other_voters())

    def _other_voters(self) -> frozenset[int]:
        return self._quorum.node.members.voters - {self._ctx.broker_id}

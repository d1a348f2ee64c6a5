"""Clients of a group as they behave: a consumer that joins, syncs, heartbeats and commits, and is
the leader when it is told so. It may crash, leave, come back as another process, or be a zombie.

A client reacts to answers only; time and the way to the coordinator are its world's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.values import Identity, JoinAnswer, Sync, SyncAnswer

PARTITIONS = 6
RETRY_MS = 100


class Way(Protocol):
    """How a client reaches the coordinator, as `world.World` has it."""

    now_ms: int

    def join(self, client: Client) -> int: ...

    def sync(self, client: Client, request: Sync) -> int: ...

    def heartbeat(self, client: Client) -> ErrorCode: ...

    def was_told(self, client: Client, partitions: tuple[int, ...]) -> None: ...


@dataclass(slots=True, kw_only=True)
class Client:
    """One process. `phase`: joining, joined, syncing, stable, waiting (to try again), or gone."""

    name: str
    instance_id: str | None = None
    session_ms: int = 6_000
    rebalance_ms: int = 10_000
    protocols: tuple[str, ...] = ("range",)
    topics: int = 0
    """What it subscribes to, as a number: another one is another subscription."""
    takes_id_first: bool = True
    may_skip_assignment: bool = True
    lag_ms: int = 0
    """How long an answer is on its way to it."""
    is_busy: bool = False
    """It heartbeats, as a consumer does beside its work, and does nothing else."""
    phase: str = "waiting"
    member_id: str = ""
    generation: int = -1
    ticket: int | None = None
    wish: Sync | None = None
    """What it asks for once it has joined."""
    due_ms: int = 0
    """When it does something by itself."""
    assigned: tuple[int, ...] = ()
    told: list[str] = field(default_factory=list)
    """Errors that ended it."""

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.instance_id)

    @property
    def lives(self) -> bool:
        return self.phase != "gone"

    def act(self, way: Way) -> None:
        """It is `due_ms`."""
        self.due_ms = way.now_ms + self.session_ms // 3
        if self.phase == "joined":
            code = way.heartbeat(self)
            if not self.is_busy:
                self._sync(way)
            elif code is ErrorCode.unknown_member_id:
                self._told(way, code)
        elif self.phase == "stable":
            self._told(way, way.heartbeat(self))
        elif self.phase == "waiting" and not self.is_busy:
            self._join(way)

    def rejoin(self, way: Way) -> None:
        """It wants a rebalance: another subscription, say."""
        if self.phase == "stable":
            self._join(way)

    def heard(self, way: Way, ticket: int, answer: JoinAnswer | SyncAnswer) -> None:
        if ticket != self.ticket or not self.lives:
            return
        self.ticket = None
        if isinstance(answer, SyncAnswer):
            if answer.error is ErrorCode.none:
                self.phase = "stable"
                self.due_ms = way.now_ms + self.session_ms // 3
                self.assigned = partitions_of(answer.assignment)
                way.was_told(self, self.assigned)
            else:
                self._told(way, answer.error)
        elif answer.error is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            self._join(way)
        elif answer.error is ErrorCode.none:
            self._joined(way, answer)
        else:
            self._told(way, answer.error)

    def _join(self, way: Way) -> None:
        self.phase, self.assigned = "joining", ()
        self.ticket = way.join(self)

    def _joined(self, way: Way, answer: JoinAnswer) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation
        given: dict[str, Any] = {}
        if answer.leader_id == answer.member_id and not answer.skip_assignment:
            names = sorted(each.member_id for each in answer.members)
            for at, name in enumerate(names):
                given[name] = bytes(range(at, PARTITIONS, len(names)))
        self.wish = Sync(
            identity=self.identity,
            generation=self.generation,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol_name,
            assignments=tuple(given.items()),
        )
        self.phase = "joined"
        self.due_ms = way.now_ms + self.session_ms // 3
        if not self.is_busy:
            self._sync(way)

    def _sync(self, way: Way) -> None:
        assert self.wish is not None
        self.phase = "syncing"
        self.ticket = way.sync(self, self.wish)

    def _told(self, way: Way, error: ErrorCode) -> None:
        """What a consumer does upon an error."""
        if error is ErrorCode.none:
            return
        if error is ErrorCode.rebalance_in_progress and self.is_busy and self.phase == "stable":
            return
        if error in (ErrorCode.fenced_instance_id, ErrorCode.inconsistent_group_protocol):
            self.phase = "gone"
            self.told.append(error.name)
            return
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self.generation, self.assigned = -1, ()
        if error is ErrorCode.unknown_member_id:
            self.member_id = ""
        self.phase = "waiting"
        self.due_ms = way.now_ms + RETRY_MS


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    return tuple(assignment)

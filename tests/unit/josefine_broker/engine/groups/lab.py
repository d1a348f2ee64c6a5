"""A group coordinator on a bench: a clock that tests move, answers by ticket, records held or kept.

`Lab` is the host: it takes the effects, settles what is to be stored as the test wants it, and
makes a second coordinator of what the first one stored.
"""

from __future__ import annotations

from random import Random
from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.coordinator import GroupCoordinator
from josefine_broker.engine.groups.records import StoredGroup, decode_value, encode_value
from josefine_broker.engine.groups.values import (
    Answer,
    GroupSettings,
    Identity,
    Join,
    JoinAnswer,
    Protocol,
    Store,
    Sync,
    SyncAnswer,
)

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 20_000
DELAY_MS = 3_000
WALL_MS = 1_700_000_000_000
RANGE = (Protocol("range", b"r"),)
OK = ErrorCode.none


class Lab:
    """One coordinator, driven by hand."""

    def __init__(self, settings: GroupSettings | None = None, *, keeps: bool = True) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=DELAY_MS)
        self.coordinator = GroupCoordinator(self.settings)
        self.now_ms = 0
        self.rng = Random(7)
        self.keeps = keeps
        """Records are stored as they come; else they wait for `settle`."""
        self.answers: dict[int, JoinAnswer | SyncAnswer] = {}
        self.open: list[Store] = []
        self.log: list[tuple[int, Store]] = []
        """Each with the time that its record carries."""
        self._tickets = 0

    # The host.

    def work(self) -> None:
        """Do what the coordinator wants done."""
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Answer):
                    assert effect.ticket not in self.answers, "answered twice"
                    assert isinstance(effect.ticket, int)
                    self.answers[effect.ticket] = effect.answer
                else:
                    self.open.append(effect)
            if self.keeps:
                self.settle()

    def settle(self, error: ErrorCode = OK) -> None:
        """What became of every record that is on its way."""
        waiting, self.open = self.open, []
        for store in waiting:
            self.settle_one(store, error)
        self.work()

    def settle_one(self, store: Store, error: ErrorCode) -> None:
        at_ms = WALL_MS + self.now_ms
        if error is OK:
            self.log.append((at_ms, store))
        self.coordinator.stored(store.group_id, store.write_id, error, at_ms, self.now_ms)

    def advance(self, ms: int) -> None:
        """Time passes; the coordinator is woken exactly when it asks."""
        until_ms = self.now_ms + ms
        while (at_ms := self.coordinator.wake_at_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.coordinator.tick(self.now_ms)
            self.work()
        self.now_ms = until_ms

    def fail_over(self) -> Lab:
        """Another broker coordinates, with what was stored; who waits here is told so."""
        self.coordinator.unload(lambda group_id: True)
        self.work()
        other = Lab(self.settings, keeps=self.keeps)
        other.now_ms = self.now_ms
        other.log = list(self.log)
        other.coordinator.load(self.stored(), other.now_ms)
        other.work()
        return other

    def fail_over_with_offsets(self) -> Lab:
        """The same, with the offsets that are committed here."""
        committed = dict(self.coordinator.offsets.committed(GROUP))
        other = self.fail_over()
        for tp, each in committed.items():
            other.coordinator.offsets.store(GROUP, tp, each)
        return other

    def stored(self) -> dict[str, StoredGroup]:
        """What a replay of the log gives, through its bytes."""
        return {
            each.group_id: decode_value(encode_value(each.record, at_ms))
            for at_ms, each in self.log
        }

    # Requests.

    def ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def join(self, member_id: str = "", *, group: str = GROUP, **changes: Any) -> int:
        """Its ticket; the answer, if there is one, is in `answers`."""
        wanted: dict[str, Any] = {
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "takes_id_first": False,
            "may_skip_assignment": True,
        }
        ticket = self.ticket()
        request = Join(member_id=member_id, **(wanted | changes))
        self.coordinator.join(group, request, ticket, self.now_ms, self.rng)
        self.work()
        return ticket

    def joined(self, ticket: int) -> JoinAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinAnswer)
        return answer

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **changes: Any,
    ) -> int:
        ticket = self.ticket()
        identity = Identity(member_id, changes.pop("instance_id", None))
        given = tuple((assignments or {}).items())
        request = Sync(identity=identity, generation=generation, assignments=given, **changes)
        self.coordinator.sync(GROUP, request, ticket, self.now_ms)
        self.work()
        return ticket

    def synced(self, ticket: int) -> SyncAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncAnswer)
        return answer

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> ErrorCode:
        return self.coordinator.heartbeat(
            GROUP, Identity(member_id, instance_id), generation, self.now_ms
        )

    def leave(self, *leaving: str | tuple[str, str]) -> list[ErrorCode]:
        """Member ids, or (member id, instance id)."""
        who = [Identity(*each) if isinstance(each, tuple) else Identity(each) for each in leaving]
        codes = self.coordinator.leave(GROUP, who, self.now_ms)
        self.work()
        return codes

    def commit(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        return self.coordinator.may_commit(
            GROUP, Identity(member_id, instance_id), generation, self.now_ms
        )

    @property
    def state(self) -> str:
        view = self.coordinator.view(GROUP)
        return "none" if view is None else view.state.value

    @property
    def members(self) -> list[str]:
        view = self.coordinator.view(GROUP)
        return [] if view is None else [each.member_id for each in view.members]

    # Shortcuts to a group in a state.

    def join_all(self, *wishes: dict[str, Any]) -> list[JoinAnswer]:
        """New members, one for each, through the first round."""
        tickets = [self.join(**wish) for wish in wishes]
        self.advance(DELAY_MS * (len(wishes) + 1))
        return [self.joined(ticket) for ticket in tickets]

    def stable(self, *wishes: dict[str, Any]) -> list[JoinAnswer]:
        """New members, each assigned the bytes of its place: `p0`, `p1`…"""
        told = self.join_all(*wishes)
        leader = next(each for each in told if each.leader_id == each.member_id)
        given = {each.member_id: b"p%d" % at for at, each in enumerate(told)}
        for each in told:
            instance_id = next(
                (m.instance_id for m in leader.members if m.member_id == each.member_id), None
            )
            is_leader = each is leader
            self.sync(
                each.member_id,
                each.generation,
                given if is_leader else None,
                instance_id=instance_id,
            )
        assert self.state == "Stable"
        return told

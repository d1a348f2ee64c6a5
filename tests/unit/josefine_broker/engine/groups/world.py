"""A group, its clients and its log in one made-up time, and what must hold whatever they do.

The world is the coordinator's host: records take a while to be stored, fail, or are in doubt (told
to have failed, and there all the same); another coordinator may begin at any moment with what is in
the log. `check` is called after every step; `calm` ends all trouble and wants the group whole.
"""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from random import Random

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.coordinator import GroupCoordinator, GroupView
from josefine_broker.engine.groups.records import decode_value, encode_value
from josefine_broker.engine.groups.states import GroupState
from josefine_broker.engine.groups.values import (
    Answer,
    GroupSettings,
    Identity,
    Join,
    JoinAnswer,
    Store,
    Sync,
)
from josefine_broker.engine.groups.values import Protocol as Offered
from tests.unit.josefine_broker.engine.groups.clients import PARTITIONS, Client

GROUP = "g"
DELAY_MS = 500
SESSION_MS_MAX = 9_000
REBALANCE_MS_MIN, REBALANCE_MS_MAX = 4_000, 10_000
"""The shortest is longer than between two heartbeats: a client must hear of a rebalance in time."""
WRITE_MS_MAX = 3_000
ANSWER_MS_MAX = REBALANCE_MS_MAX + 2 * WRITE_MS_MAX + DELAY_MS
"""No join and no sync waits longer: the longest rebalance timeout, and records on their way."""
CALM_MS = 90_000
NOT_COORDINATOR = ErrorCode.not_coordinator


class Record:
    """One entry of the log; committed: every coordinator to come has it."""

    def __init__(self, store: Store, is_committed: bool) -> None:
        self.value = encode_value(store.record, 0)
        self.is_committed = is_committed


class World:
    """Everything about one group."""

    def __init__(self) -> None:
        self.settings = GroupSettings(initial_rebalance_delay_ms=DELAY_MS)
        self.coordinator = GroupCoordinator(self.settings)
        self.now_ms = 0
        self.rng = Random(3)
        self.clients: list[Client] = []
        self.log: list[Record] = []
        self.writes: list[tuple[int, Store, str]] = []
        """(when it is settled, what, and how: kept, lost, doubt)."""
        self.write_plan: list[tuple[int, str]] = []
        self.waiting: dict[int, tuple[Client | None, int]] = {}
        """Ticket → whose it is (None: a stranger's) and since when."""
        self.under_way: list[tuple[int, Client, Answer]] = []
        """Answers, and when they reach their clients."""
        self._tickets = 0
        self.owners: dict[int, dict[int, str]] = defaultdict(dict)
        """Generation → partition → who was told that it is his."""
        self._begin_life()

    def _begin_life(self) -> None:
        """A coordinator's memory begins: what must hold within its life."""
        self.out: dict[str, str] = {}
        """Member ids that are none any more → why: left, fenced, told so, lost."""
        self.contacts: dict[str, int] = {}
        self.newest = -1

    # The clients' way.

    def join(self, client: Client) -> int:
        """As `clients.Way`."""
        return self.send_join(
            client,
            client.identity,
            protocols=client.protocols,
            session_ms=client.session_ms,
            rebalance_ms=client.rebalance_ms,
            topics=client.topics,
            takes_id_first=client.takes_id_first,
            may_skip_assignment=client.may_skip_assignment,
        )

    def send_join(
        self,
        client: Client | None,
        identity: Identity,
        *,
        protocols: tuple[str, ...] = ("range",),
        session_ms: int = 6_000,
        rebalance_ms: int = 10_000,
        topics: int = 0,
        takes_id_first: bool = False,
        may_skip_assignment: bool = False,
    ) -> int:
        ticket = self._ticket(client, identity)
        request = Join(
            member_id=identity.member_id,
            instance_id=identity.instance_id,
            client_id="c" if client is None else client.name,
            client_host="/h",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type="consumer",
            protocols=tuple(Offered(name, bytes([topics])) for name in protocols),
            takes_id_first=takes_id_first,
            may_skip_assignment=may_skip_assignment,
        )
        instances = self.instances()
        self.coordinator.join(GROUP, request, ticket, self.now_ms, self.rng)
        before = instances.get(identity.instance_id or "")
        if before is not None and before not in self.member_ids():
            self.out.setdefault(before, "fenced")
        return ticket

    def sync(self, client: Client | None, request: Sync) -> int:
        ticket = self._ticket(client, request.identity)
        self.coordinator.sync(GROUP, request, ticket, self.now_ms)
        return ticket

    def _ticket(self, client: Client | None, identity: Identity) -> int:
        self._tickets += 1
        self.waiting[self._tickets] = client, self.now_ms
        self.contacts[identity.member_id] = self.now_ms
        return self._tickets

    def heartbeat(self, client: Client) -> ErrorCode:
        return self.send_heartbeat(client.identity, client.generation)

    def send_heartbeat(self, identity: Identity, generation: int) -> ErrorCode:
        code = self.coordinator.heartbeat(GROUP, identity, generation, self.now_ms)
        if code in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            assert identity.member_id not in self.out, f"{self.out} heartbeats"
            self.contacts[identity.member_id] = self.now_ms
        return code

    def was_told(self, client: Client, partitions: tuple[int, ...]) -> None:
        """A partition has at most one owner per generation, as far as the broker says it."""
        owner = client.instance_id or client.member_id
        told = self.owners[client.generation]
        for partition in partitions:
            assert told.setdefault(partition, owner) == owner, (client.generation, partition)

    # What members do but heartbeat.

    def leave(self, identity: Identity) -> None:
        member_id = identity.member_id or self.instances().get(identity.instance_id or "", "")
        (code,) = self.coordinator.leave(GROUP, [identity], self.now_ms)
        if code is ErrorCode.none:
            self.out[member_id] = "left"
        self.work()

    def check_commits(self, instances: tuple[str | None, ...]) -> None:
        """A fenced, lost or unknown member commits nothing, nor does one of another generation:
        whoever it says it is. Asked of a copy, for a commit keeps its member alive."""
        copy = deepcopy(self.coordinator)
        view = copy.view(GROUP)
        for client in self.clients[-8:]:
            for instance_id in {client.instance_id, *instances}:
                for generation in {-1, client.generation, self.newest, self.newest + 1}:
                    identity = Identity(client.member_id, instance_id)
                    code = copy.may_commit(GROUP, identity, generation, self.now_ms)
                    if code is ErrorCode.none:
                        self._may(identity, generation, view)

    def _may(self, identity: Identity, generation: int, view: GroupView | None) -> None:
        if view is None or not view.members:
            assert generation < 0, "a member of a group that has none commits"
            return
        member_id, instance_id = identity
        assert member_id not in self.out, f"{member_id} {self.out[member_id]}, and commits"
        assert generation == self.newest, f"generation {generation} of {self.newest} commits"
        assert view.state is not GroupState.COMPLETING_REBALANCE
        assert instance_id is None or self.instances().get(instance_id) == member_id
        heard_ms = max(self.contacts.get(member_id, 0), self.contacts.get("everybody", 0))
        assert self.now_ms - heard_ms < SESSION_MS_MAX + ANSWER_MS_MAX, "a lost member commits"

    def commit(self, client: Client) -> ErrorCode:
        code = self.coordinator.may_commit(GROUP, client.identity, client.generation, self.now_ms)
        if code is ErrorCode.none:
            self.contacts[client.member_id] = self.now_ms
        return code

    # The host.

    def work(self) -> None:
        """Do what the coordinator wants; clients react at once."""
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Store):
                    self._write(effect)
                else:
                    self._deliver(effect)

    def _write(self, store: Store) -> None:
        delay_ms, how = self.write_plan[0] if self.write_plan else (0, "kept")
        self.write_plan = self.write_plan[1:] + self.write_plan[:1]
        if how == "refused":
            self._settle(store, how)
            return
        self.log.append(Record(store, is_committed=False))
        self.writes.append((self.now_ms + delay_ms, store, how))
        self.writes.sort(key=lambda each: each[0])
        if not delay_ms:
            self._settle_due()

    def _settle_due(self) -> None:
        while self.writes and self.writes[0][0] <= self.now_ms:
            _, store, how = self.writes.pop(0)
            self._settle(store, how)

    def _settle(self, store: Store, how: str) -> None:
        if how == "kept":
            value = encode_value(store.record, 0)
            at = max(i for i, each in enumerate(self.log) if each.value == value)
            for record in self.log[: at + 1]:
                record.is_committed = True
        error = ErrorCode.none if how == "kept" else ErrorCode.coordinator_not_available
        self.coordinator.stored(GROUP, store.write_id, error, self.now_ms, self.now_ms)

    def _deliver(self, effect: Answer) -> None:
        assert isinstance(effect.ticket, int)
        client, since_ms = self.waiting.pop(effect.ticket)
        assert self.now_ms - since_ms <= ANSWER_MS_MAX, f"waited {self.now_ms - since_ms} ms"
        answer = effect.answer
        if isinstance(answer, JoinAnswer):
            self.contacts[answer.member_id] = self.now_ms
            if answer.generation > self.newest:  # it renews everybody's session
                self.newest, self.contacts["everybody"] = answer.generation, self.now_ms
        if client is None:
            return
        self.contacts[client.member_id] = self.now_ms
        self.under_way.append((self.now_ms + client.lag_ms, client, effect))
        if not client.lag_ms:
            self._hand_over()

    def _hand_over(self) -> None:
        """Answers that have come to their clients."""
        due = [each for each in self.under_way if each[0] <= self.now_ms]
        self.under_way = [each for each in self.under_way if each[0] > self.now_ms]
        for _, client, (ticket, answer) in due:
            assert isinstance(ticket, int)
            client.heard(self, ticket, answer)

    def advance(self, ms: int) -> None:
        """Time passes: what is due is done, in order."""
        until_ms = self.now_ms + ms
        while True:
            times = [each.due_ms for each in self.clients if each.lives]
            times += [each[0] for each in (*self.writes, *self.under_way)]
            wake_ms = self.coordinator.wake_at_ms()
            times += [] if wake_ms is None else [wake_ms]
            at_ms = max(self.now_ms, min(times, default=until_ms + 1))
            if at_ms > until_ms:
                break
            self.now_ms = at_ms
            self._settle_due()
            self._hand_over()
            self.work()
            if wake_ms is not None and wake_ms <= at_ms:
                self.coordinator.tick(at_ms)
                self.work()
            for client in [each for each in self.clients if each.lives and each.due_ms <= at_ms]:
                client.due_ms = at_ms + 1
                client.act(self)
                self.work()
        self.now_ms = until_ms
        wake_ms = self.coordinator.wake_at_ms()
        assert wake_ms is None or wake_ms > until_ms, "it was woken, and is not done"
        self.check()

    def fail_over(self, kept: int) -> None:
        """Another coordinator, with what is committed and perhaps a little more of the log. What
        the former one wrote is not settled any more."""
        committed = [at for at, each in enumerate(self.log) if each.is_committed]
        least = committed[-1] + 1 if committed else 0
        self.log = self.log[: max(least, min(len(self.log), least + kept))]
        for record in self.log:
            record.is_committed = True
        self.coordinator.unload(lambda group_id: True)
        self.writes.clear()
        self.work()
        assert not self.waiting, "left waiting by a coordinator that is none any more"
        self._begin_life()
        self.coordinator = GroupCoordinator(self.settings)
        if self.log:
            stored = decode_value(self.log[-1].value)
            self.newest = stored.record.generation
            self.coordinator.load({GROUP: stored}, self.now_ms)
        self.contacts["everybody"] = self.now_ms
        self.work()

    # What is seen.

    def member_ids(self) -> set[str]:
        view = self.coordinator.view(GROUP)
        return set() if view is None else {each.member_id for each in view.members}

    def instances(self) -> dict[str, str]:
        view = self.coordinator.view(GROUP)
        members = () if view is None else view.members
        return {each.instance_id: each.member_id for each in members if each.instance_id}

    def check(self) -> None:
        """After every step."""
        late = {key: each for key, each in self.waiting.items() if self._is_late(each[1])}
        assert not late, f"not answered by now ({self.now_ms}): {late}"
        assert not self.out.keys() & self.member_ids(), "who is out is a member"

    def _is_late(self, since_ms: int) -> bool:
        return self.now_ms - since_ms > ANSWER_MS_MAX

    def calm(self) -> None:
        """No more trouble: every living client is in one stable generation, all is shared out."""
        self.write_plan = []
        for client in self.clients:
            client.lag_ms, client.is_busy = 0, False
        self.advance(CALM_MS)
        assert not self.waiting
        assert not self.writes
        living = [each for each in self.clients if each.lives]
        view = self.coordinator.view(GROUP)
        if not living:
            assert view is None or view.state is GroupState.EMPTY, view
            return
        assert view is not None
        assert view.state is GroupState.STABLE, view
        assert {each.phase for each in living} == {"stable"}, living
        assert {each.generation for each in living} == {self.newest}
        assert {each.member_id for each in living} == self.member_ids()
        owned = sorted(partition for each in living for partition in each.assigned)
        assert owned == list(range(PARTITIONS)), owned
        for each in living:
            assert self.commit(each) is ErrorCode.none

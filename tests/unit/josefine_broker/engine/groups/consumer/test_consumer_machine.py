"""The consumer protocol with clients that join, leave, die, stand still, revoke slowly and lose
answers, whose old joins arrive again; topics that come, grow and go; a log that refuses; other
coordinators.

What must hold whatever happens: no two clients ever have one partition, by what they were told and
have given up; the coordinator gives nothing to two; epochs never fall; the log is the group; a
stable group has shared out every partition, evenly. Once nobody makes trouble it becomes stable.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.replay import state_of
from josefine_broker.engine.groups.consumer.subscriptions import metadata_hash, reads
from josefine_broker.engine.groups.consumer.values import NO_PARTS, Beat, BeatAnswer, Parts
from tests.unit.josefine_broker.engine.groups.consumer.lab import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Lab,
)

CLIENTS_MAX = 5
BEAT_MS = 2_000
SUBSCRIPTIONS = (frozenset({"t"}), frozenset({"t", "u"}), frozenset({"u"}))
CALM_ROUNDS = 40

places = st.integers(0, CLIENTS_MAX - 1)


@dataclass
class Client:
    """One process. `has` is what it reads now."""

    name: str
    topics: frozenset[str]
    instance_id: str | None = None
    regex: str | None = None
    epoch: int = 0
    has: Parts = NO_PARTS
    told: Parts = NO_PARTS
    said: Parts | None = None
    """What it has by its last heartbeat that was answered."""
    is_sure: bool = False
    """Its last heartbeat was answered, so it need not say everything."""
    heard_ms: int = 0
    """When the last heartbeat left that was answered."""
    revokes_by_ms: int | None = None
    is_slow: bool = False
    """It gives up what it is told to a heartbeat later."""
    epochs: list[int] = field(default_factory=list)
    joins: list[Beat] = field(default_factory=list)
    """Those that it sent."""

    def lose_all(self) -> None:
        self.epoch, self.has, self.told, self.said = 0, NO_PARTS, NO_PARTS, None
        self.is_sure, self.revokes_by_ms, self.epochs = False, None, []

    def watch_itself(self, now_ms: int) -> None:
        """Who was not answered for a session, or is too slow, counts itself out in time."""
        is_late = self.revokes_by_ms is not None and now_ms >= self.revokes_by_ms
        if self.epoch and (now_ms >= self.heard_ms + SESSION_MS or is_late):
            self.lose_all()

    def next_beat(self) -> Beat:
        if self.epoch and self.is_sure:
            owned = None if self.said == self.has else self.has
            return Beat(member_id=self.name, epoch=self.epoch, owned=owned)
        return Beat(
            member_id=self.name,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=self.topics,
            regex=self.regex,
            owned=self.has,
        )

    def answered(self, beat: Beat, answer: BeatAnswer, sent_ms: int) -> None:
        assert answer.epoch >= max(self.epochs, default=0), "an epoch fell"
        self.epochs.append(answer.epoch)
        self.epoch, self.heard_ms, self.is_sure = answer.epoch, sent_ms, True
        if beat.owned is not None:
            self.said = beat.owned
        if answer.parts is not None:
            self.told = answer.parts
        if not self.has <= self.told and self.revokes_by_ms is None:
            self.revokes_by_ms = sent_ms + REBALANCE_MS
        if not self.is_slow:
            self.reconcile()

    def reconcile(self) -> None:
        self.has = self.told
        self.revokes_by_ms = None


class ConsumerMachine(RuleBasedStateMachine):
    """Rules are what may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = Lab(t=4, u=2)
        self.clients: list[Client] = []
        self.names = 0
        self.epoch = 0

    def client(self, place: int) -> Client | None:
        return self.clients[place % len(self.clients)] if self.clients else None

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.start(SUBSCRIPTIONS[0], None, False)

    @precondition(lambda self: len(self.clients) < CLIENTS_MAX)
    @rule(
        topics=st.sampled_from(SUBSCRIPTIONS),
        instance_id=st.sampled_from((None, None, "one")),
        is_slow=st.booleans(),
    )
    def start(self, topics: frozenset[str], instance_id: str | None, is_slow: bool) -> None:
        self.names += 1
        client = Client(f"c{self.names}", topics, instance_id=instance_id, is_slow=is_slow)
        self.clients.append(client)
        self.send(client)

    @rule(place=places, is_lost=st.booleans())
    def beat(self, place: int, is_lost: bool) -> None:
        client = self.client(place)
        if client is not None:
            self.send(client, is_lost=is_lost)

    @rule()
    def all_beat(self) -> None:
        for client in list(self.clients):
            self.send(client)

    def send(self, client: Client, *, is_lost: bool = False) -> None:
        """One heartbeat; the answer may be lost."""
        client.watch_itself(self.lab.now_ms)
        beat = client.next_beat()
        if not beat.epoch:
            client.joins.append(beat)
        try:
            answer = self.lab.beat(beat)
        except KafkaError as error:
            client.is_sure = False
            if not is_lost:
                self.refused(client, error.code)
            return
        if is_lost:
            client.is_sure = False
        else:
            client.answered(beat, answer, self.lab.now_ms)

    @rule(place=places)
    def old_join(self, place: int) -> None:
        """Of a connection that was given up; its answer, too, is heard by nobody."""
        client = self.client(place)
        if client is not None and client.joins:
            with suppress(KafkaError):
                self.lab.beat(client.joins[0])

    def refused(self, client: Client, code: ErrorCode) -> None:
        if code in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            client.lose_all()
        elif code in (ErrorCode.unreleased_instance_id, ErrorCode.fenced_instance_id):
            self.clients.remove(client)
        else:
            assert code is ErrorCode.coordinator_not_available

    @rule(place=places)
    def reconcile(self, place: int) -> None:
        """A slow one has done what it was told."""
        client = self.client(place)
        if client is not None:
            client.watch_itself(self.lab.now_ms)
            if client.epoch:
                client.reconcile()

    @precondition(lambda self: len(self.clients) > 1)
    @rule(place=places)
    def die(self, place: int) -> None:
        """It is gone, and what it had with it."""
        self.clients.remove(self.clients[place % len(self.clients)])

    @rule(place=places)
    def leave(self, place: int) -> None:
        """A static one goes for a while, and its next process comes sometimes."""
        client = self.client(place)
        if client is None or not client.epoch:
            return
        epoch = -1 if client.instance_id is None else -2
        self.clients.remove(client)
        try:
            self.lab.beat(Beat(member_id=client.name, epoch=epoch, instance_id=client.instance_id))
        except KafkaError:
            return

    @rule(place=places, topics=st.sampled_from(SUBSCRIPTIONS), is_regex=st.booleans())
    def subscribe(self, place: int, topics: frozenset[str], is_regex: bool) -> None:
        client = self.client(place)
        if client is not None:
            client.topics, client.regex = (frozenset(), "[tu]") if is_regex else (topics, "")
            client.is_sure = False
            self.send(client)

    @rule(ms=st.sampled_from((1, BEAT_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS)))
    def time(self, ms: int) -> None:
        """Clients look at their clocks before others are told anything."""
        until_ms = self.lab.now_ms + ms
        while self.lab.now_ms < until_ms:
            step_ms = min(until_ms - self.lab.now_ms, BEAT_MS)
            for client in self.clients:
                client.watch_itself(self.lab.now_ms + step_ms)
            self.lab.advance(step_ms)

    @rule(count=st.integers(1, 6))
    def grow(self, count: int) -> None:
        entry = self.lab.topics.get("u")
        if entry is None:
            self.lab.create("u", count)
        elif count > len(entry.partitions):
            self.lab.grow("u", count)
        else:
            self.lab.delete("u")

    @rule()
    def refuse(self) -> None:
        self.lab.refuses = not self.lab.refuses

    @rule()
    def fail_over(self) -> None:
        self.lab.fail_over()

    # What must hold.

    @invariant()
    def nobody_has_what_another_has(self) -> None:
        for at, one in enumerate(self.clients):
            for other in self.clients[at + 1 :]:
                assert not one.has & other.has, (one, other)

    @invariant()
    def nothing_is_given_twice(self) -> None:
        group = self.lab.groups.get(GROUP)
        for member_id in () if group is None else group.members:
            member = group.members[member_id]
            held = member.assigned | member.revoking
            assert not held & group.held_by_others(member_id)

    @invariant()
    def epochs_never_fall(self) -> None:
        group = self.lab.groups.get(GROUP)
        if group is not None:
            assert group.epoch >= self.epoch
            assert group.target_epoch <= group.epoch
            self.epoch = group.epoch

    @invariant()
    def the_log_is_the_group(self) -> None:
        group = self.lab.groups.get(GROUP)
        assert self.lab.replayed() == ({} if group is None else {GROUP: group})
        assert group is None or group.state is state_of(group)

    @invariant()
    def a_stable_group_has_shared_out_everything(self) -> None:
        group = self.lab.groups.get(GROUP)
        if group is None or group.state.value != "Stable":
            return
        assert {key: each.assigned for key, each in group.members.items()} == dict(group.target)
        read = reads(group.members, self.lab.topics)
        is_current = metadata_hash(group.members, self.lab.topics) == group.metadata_hash
        if is_current and len(set(read.values())) == 1:
            sizes = [len(each) for each in group.target.values()]
            assert max(sizes) - min(sizes) <= 1

    def teardown(self) -> None:
        """Nobody makes trouble any more: all is shared out among those that live."""
        self.lab.refuses = False
        for client in self.clients:
            client.is_slow = False
        for _ in range(CALM_ROUNDS):
            self.all_beat()
            self.time(BEAT_MS)
            self.nobody_has_what_another_has()
            self.nothing_is_given_twice()
        if self.clients:
            group = self.lab.group
            assert group.state.value == "Stable", group
            assert {each.name: each.has for each in self.clients} == dict(group.target)
            read = frozenset().union(*reads(group.members, self.lab.topics).values())
            names = [each.name for each in self.lab.topics.values() if each.topic_id in read]
            assert frozenset().union(*group.target.values()) == self.lab.every(*names)


Steps = tuple[tuple[str, dict[str, Any]], ...]
"""Rules by name, each with its arguments, in the order in which they are applied."""


def replay(machine: ConsumerMachine, steps: Steps) -> None:
    """One run of a machine that was found once, with everything that must hold after each step."""
    for name, arguments in steps:
        getattr(machine, name)(**arguments)
        machine.nobody_has_what_another_has()
        machine.nothing_is_given_twice()
        machine.epochs_never_fall()
        machine.the_log_is_the_group()
        machine.a_stable_group_has_shared_out_everything()
    machine.teardown()


def test_a_member_reads_all_of_its_target_after_an_old_join_in_its_epoch() -> None:
    steps: Steps = (
        ("begin", {"count": 2}),
        ("all_beat", {}),
        ("beat", {"place": 0, "is_lost": False}),
        ("old_join", {"place": 1}),
    )

    replay(ConsumerMachine(), steps)


TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)

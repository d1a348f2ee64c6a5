"""The consumer protocol's clients with some of the classic protocol among them, eager and
cooperative; all that may happen to the others may happen to these, and the same must hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.classic import ClassicJoin
from josefine_broker.engine.groups.consumer.values import NO_PARTS, Parts
from tests.unit.josefine_broker.engine.groups.consumer.mixed_lab import CALLED, Mixed
from tests.unit.josefine_broker.engine.groups.consumer.test_consumer_machine import (
    CLIENTS_MAX,
    SUBSCRIPTIONS,
    Client,
    ConsumerMachine,
    Steps,
    places,
    replay,
)

OUT = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation)
PASSING = (ErrorCode.coordinator_not_available, CALLED)


@dataclass
class ClassicClient(Client):
    """A process of the classic protocol."""

    is_cooperative: bool = False
    is_newcomer: bool = True
    must_join: bool = True
    joined_for: frozenset[str] | None = None
    old_joins: list[ClassicJoin] = field(default_factory=list)

    def lose_all(self) -> None:
        super().lose_all()
        self.must_join = True

    def given(self, parts: Parts, epoch: int, sent_ms: int) -> None:
        """An answer to its SyncGroup. Who has to give something up joins again without it."""
        self.epoch, self.heard_ms, self.told = epoch, sent_ms, parts
        self.must_join = not self.has <= parts
        self.reconcile()


class MixedMachine(ConsumerMachine):
    """Rules are what may happen besides."""

    def __init__(self) -> None:
        super().__init__()
        self.lab: Mixed = Mixed(t=4, u=2)

    @precondition(lambda self: len(self.clients) < CLIENTS_MAX)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS), is_cooperative=st.booleans())
    def start_classic(self, topics: frozenset[str], is_cooperative: bool) -> None:
        self.names += 1
        client = ClassicClient(f"c{self.names}", topics, is_cooperative=is_cooperative)
        self.clients.append(client)
        self.send(client)

    def send(self, client: Client, *, is_lost: bool = False) -> None:
        if not isinstance(client, ClassicClient):
            super().send(client, is_lost=is_lost)
            return
        client.watch_itself(self.lab.now_ms)
        try:
            if client.must_join or client.joined_for != client.topics:
                self.join(client, is_lost)
            elif self.lab.classic_beat(client.name, client.epoch) is CALLED and not is_lost:
                client.must_join = True
            client.heard_ms = client.heard_ms if is_lost else self.lab.now_ms
        except KafkaError as error:
            if not is_lost:
                self.told(client, error.code)

    def join(self, client: ClassicClient, is_lost: bool) -> None:
        """The answer to its SyncGroup may be lost."""
        if not client.is_cooperative:
            client.has = client.told = NO_PARTS
        topics = tuple(sorted(client.topics))
        try:
            joined = self.lab.classic_join(
                client.name, client.has, is_newcomer=client.is_newcomer, topics=topics
            )
        finally:
            client.old_joins.append(self.lab.joined)
        client.is_newcomer, client.must_join = False, True
        client.joined_for = client.topics
        parts = self.lab.classic_sync(client.name, joined.epoch)
        if not is_lost:
            client.given(parts, joined.epoch, self.lab.now_ms)

    def told(self, client: ClassicClient, code: ErrorCode) -> None:
        if code in OUT:
            client.lose_all()
            if code is ErrorCode.unknown_member_id:
                self.names += 1
                client.name, client.is_newcomer = f"c{self.names}", True
        else:
            assert code in PASSING
            client.must_join |= code is CALLED

    @rule(place=places, which=st.integers(0, 3))
    def old_classic_join(self, place: int, which: int) -> None:
        """One of its client's last joins arrives again, from a connection that was closed since.
        Nobody hears the answer."""
        client = self.client(place)
        if isinstance(client, ClassicClient) and client.old_joins:
            asked = client.old_joins[-1 - which % len(client.old_joins)]
            if asked.member_id in self.members:
                with suppress(KafkaError):
                    self.lab.take_join(asked)

    @property
    def members(self) -> frozenset[str]:
        group = self.lab.groups.get("g")
        return frozenset(() if group is None else group.members)


def test_an_old_join_of_a_newcomer_gives_away_nothing_of_its_member() -> None:
    steps: Steps = (
        ("begin", {"count": 1}),
        ("leave", {"place": 0}),
        ("start_classic", {"is_cooperative": False, "topics": frozenset({"t"})}),
        ("subscribe", {"is_regex": False, "place": 0, "topics": frozenset({"t", "u"})}),
        ("old_classic_join", {"place": 0, "which": 1}),
        ("start_classic", {"is_cooperative": False, "topics": frozenset({"t", "u"})}),
    )

    replay(MixedMachine(), steps)


def test_the_log_has_the_state_of_a_stable_group_after_an_old_join() -> None:
    steps: Steps = (
        ("begin", {"count": 1}),
        ("leave", {"place": 0}),
        ("start_classic", {"is_cooperative": False, "topics": frozenset({"t"})}),
        ("old_classic_join", {"place": 0, "which": 0}),
    )

    replay(MixedMachine(), steps)


TestMixedMachine = MixedMachine.TestCase
TestMixedMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)

"""The group coordinator with many clients, lost ones, strangers, slow records and other brokers.

What must hold is in world.py: a partition has one owner per generation; who is fenced, lost
or unknown commits nothing; every join and sync is answered by its deadline; and once nobody makes
trouble, a group whose members heartbeat is stable and shares out every partition.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from josefine_broker.engine.groups.values import Identity, Sync
from tests.unit.josefine_broker.engine.groups.clients import PARTITIONS, Client
from tests.unit.josefine_broker.engine.groups.world import (
    DELAY_MS,
    REBALANCE_MS_MAX,
    REBALANCE_MS_MIN,
    SESSION_MS_MAX,
    WRITE_MS_MAX,
    World,
)

CLIENTS_MAX = 6
INSTANCES = ("one", "two", None, None)
LAGS_MS = (0, 50, 1_500)
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"))

places = st.integers(0, CLIENTS_MAX - 1)


class GroupMachine(RuleBasedStateMachine):
    """Rules are what may happen; the world checks."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.names = 0

    @property
    def living(self) -> int:
        return sum(each.lives for each in self.world.clients)

    def client(self, place: int) -> Client | None:
        living = [each for each in self.world.clients if each.lives]
        return living[place % len(living)] if living else None

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.start(None, SESSION_MS_MAX, REBALANCE_MS_MAX, 0, True, True)

    @precondition(lambda self: self.living < CLIENTS_MAX)
    @rule(
        instance_id=st.sampled_from(INSTANCES),
        session_ms=st.sampled_from((6_000, SESSION_MS_MAX)),
        rebalance_ms=st.sampled_from((REBALANCE_MS_MIN, REBALANCE_MS_MAX)),
        offers=st.integers(0, len(PROTOCOLS) - 1),
        takes_id_first=st.booleans(),
        may_skip_assignment=st.booleans(),
        lag_ms=st.sampled_from(LAGS_MS),
    )
    def start(
        self,
        instance_id: str | None,
        session_ms: int,
        rebalance_ms: int,
        offers: int,
        takes_id_first: bool,
        may_skip_assignment: bool,
        lag_ms: int = 0,
    ) -> None:
        """A process starts; with the instance id of another one the two fight for it."""
        self.names += 1
        client = Client(
            name=f"c{self.names}",
            instance_id=instance_id,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
            protocols=PROTOCOLS[offers],
            takes_id_first=takes_id_first,
            may_skip_assignment=may_skip_assignment,
            lag_ms=lag_ms,
            due_ms=self.world.now_ms,
        )
        self.world.clients.append(client)
        self.world.advance(0)

    @precondition(lambda self: self.living > 2)
    @rule(place=places)
    def crash(self, place: int) -> None:
        """Nothing more is heard of it."""
        client = self.client(place)
        if client is not None:
            client.phase = "gone"

    @rule(place=places, lag_ms=st.sampled_from(LAGS_MS))
    def slow(self, place: int, lag_ms: int) -> None:
        """Answers take a while to reach it: much may happen in between."""
        client = self.client(place)
        if client is not None:
            client.lag_ms = lag_ms

    @rule(place=places)
    def busy(self, place: int) -> None:
        """It does nothing but heartbeat, or has done with that."""
        client = self.client(place)
        if client is not None:
            client.is_busy = not client.is_busy

    @precondition(lambda self: self.living > 2)
    @rule(place=places)
    def leave(self, place: int) -> None:
        client = self.client(place)
        if client is not None and client.member_id:
            client.phase = "gone"
            self.world.leave(client.identity)

    @rule(place=places)
    def subscribe_anew(self, place: int) -> None:
        client = self.client(place)
        if client is not None:
            client.topics = (client.topics + 1) % 3
            client.rejoin(self.world)
            self.world.work()

    @rule(ms=st.sampled_from((1, 60, DELAY_MS, 1_000, 2_000)))
    def short_time(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(ms=st.sampled_from((6_000, 20_000)))
    def long_time(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(
        plan=st.lists(
            st.tuples(
                st.sampled_from((0, 200, WRITE_MS_MAX)),
                st.sampled_from(("kept", "refused", "doubt")),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def records_are_slow(self, plan: list[tuple[int, str]]) -> None:
        """In this order, again and again."""
        self.world.write_plan = plan

    @rule(kept=st.integers(0, 2))
    def fail_over(self, kept: int) -> None:
        self.world.fail_over(kept)

    # Anybody may send anything: strangers, zombies, clients with a bug.

    def someone(self, place: int, instance: int) -> Identity:
        """The id of a client that is or was, with its instance id, another's, or none."""
        known = [each for each in self.world.clients if each.member_id]
        if not known:
            return Identity("nobody")
        client = known[-1 - place % len(known)]
        instances = (client.instance_id, client.instance_id, None, "one")
        return Identity(client.member_id, instances[instance])

    @rule(
        place=places,
        instance=st.integers(0, 3),
        off=st.integers(-1, 1),
        kind=st.sampled_from(("heartbeat", "sync", "leave")),
        forgets_id=st.booleans(),
    )
    def anybody_sends(
        self, place: int, instance: int, off: int, kind: str, forgets_id: bool
    ) -> None:
        who, generation = self.someone(place, instance), self.world.newest + off
        if kind == "heartbeat":
            self.world.send_heartbeat(who, generation)
        elif kind == "leave":
            self.world.leave(Identity("" if forgets_id else who.member_id, who.instance_id))
        else:
            # Perhaps as the leader, with an assignment of its own: the first one counts.
            all_of_it = ((who.member_id, bytes(range(PARTITIONS))),)
            sync = Sync(identity=who, generation=generation, assignments=all_of_it)
            self.world.sync(None, sync)
            self.world.work()

    @rule(
        place=places,
        instance=st.integers(0, 3),
        forgets_id=st.booleans(),
        wish=st.fixed_dictionaries(
            {
                "protocols": st.sampled_from((*PROTOCOLS, ("sticky",), ("other",), ())),
                "topics": st.integers(0, 2),
                "takes_id_first": st.booleans(),
                "rebalance_ms": st.sampled_from((-1, 0, 2_000)),
            }
        ),
    )
    def anybody_joins(
        self, place: int, instance: int, forgets_id: bool, wish: dict[str, Any]
    ) -> None:
        member_id, instance_id = self.someone(place, instance)
        who = Identity("" if forgets_id else member_id, instance_id)
        self.world.send_join(None, who, **wish)
        self.world.work()

    @rule()
    def calm(self) -> None:
        self.world.calm()

    @invariant()
    def holds(self) -> None:
        self.world.check()
        self.world.check_commits(INSTANCES)

    def teardown(self) -> None:
        self.world.calm()


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=100, stateful_step_count=50)

"""Who has room for its request and who waits, in made-up time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from josefine_broker.engine.limits.request_memory import BYTES_PER_MS, GRACE_MS, RequestMemory

BOUND = 100


def test_room_is_given_in_the_order_of_asking() -> None:
    """A small one does not overtake: else a large one would wait for ever."""
    memory = RequestMemory[str](BOUND)

    assert memory.ask("a", 60, 0)
    assert not memory.ask("large", 90, 1)
    assert not memory.ask("small", 10, 2)
    assert (memory.used, memory.waiting) == (60, 2)
    assert memory.release("a", 3) == ["large", "small"]
    assert memory.used == BOUND


def test_request_larger_than_the_bound_is_received_alone() -> None:
    memory = RequestMemory[str](BOUND)
    memory.ask("a", 1, 0)

    assert not memory.ask("huge", 10 * BOUND, 0)
    assert memory.release("a", 0) == ["huge"]
    assert not memory.ask("b", 1, 0)
    assert memory.release("huge", 0) == ["b"]


def test_who_keeps_its_room_is_overdue_only_while_others_wait() -> None:
    memory = RequestMemory[str](BOUND)
    memory.ask("slow", 50, 0)
    memory.ask("done", 50, 0)
    assert memory.overdue(100 * GRACE_MS) == []

    began = 100 * GRACE_MS
    memory.ask("next", 50, began)
    memory.ask("last", 50, began)
    memory.release("done", began)

    assert memory.overdue(began + GRACE_MS - 1) == []
    assert memory.overdue(began + GRACE_MS) == ["slow", "next"]
    assert memory.release("slow", began + GRACE_MS) == ["last"]
    assert memory.overdue(began + 2 * GRACE_MS) == []


def test_large_request_may_take_longer_than_a_small_one() -> None:
    size = 1_000 * BYTES_PER_MS
    memory = RequestMemory[str](2 * size)
    memory.ask("large", size, 0)
    memory.ask("small", 1, 0)
    memory.ask("next", 2 * size, 0)

    assert memory.overdue(GRACE_MS + 999) == ["small"]
    assert memory.overdue(GRACE_MS + 1_000) == ["large", "small"]


def test_who_gives_up_waiting_lets_those_behind_it_through() -> None:
    memory = RequestMemory[str](BOUND)
    memory.ask("a", 60, 0)
    memory.ask("large", 90, 0)
    memory.ask("small", 10, 0)

    assert memory.release("large", 0) == ["small"]


class Connections(RuleBasedStateMachine):
    """Connections that ask, finish and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = RequestMemory[int](BOUND)
        self.given: dict[int, int] = {}
        self.queue: list[tuple[int, int]] = []
        self.next = 0

    @rule(size=st.integers(1, 2 * BOUND))
    def begin(self, size: int) -> None:
        self.next += 1
        if self.memory.ask(self.next, size, 0):
            assert not self.queue
            self.given[self.next] = size
        else:
            self.queue.append((self.next, size))

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        there = [*self.given, *(who for who, _ in self.queue)]
        if not there:
            return
        who = data.draw(st.sampled_from(there))
        lucky = self.memory.release(who, 0)
        self.given.pop(who, None)
        self.queue = [each for each in self.queue if each[0] != who]
        assert lucky == [each for each, _ in self.queue[: len(lucky)]]
        self.given.update(self.queue[: len(lucky)])
        del self.queue[: len(lucky)]

    @invariant()
    def bound_holds_and_nobody_waits_for_nothing(self) -> None:
        assert self.memory.used == sum(self.given.values())
        assert self.memory.used <= BOUND or len(self.given) == 1
        assert self.memory.waiting == len(self.queue)
        if self.queue:
            assert self.given
            assert self.memory.used + self.queue[0][1] > BOUND


TestConnections = Connections.TestCase
TestConnections.settings = settings(max_examples=50, stateful_step_count=20)

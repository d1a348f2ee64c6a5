"""Parked requests: never lost, completed once."""

import gc
import weakref
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.purgatory.purgatory import Parked, ParkedRequests, PartitionKey

A, B = ("a", 0), ("b", 0)


class Waiting(Parked):
    """Completes at its `wakes_needed`-th wake-up, or with "late"."""

    def __init__(self, deadline_ms: int, wakes_needed: int = 1) -> None:
        super().__init__(deadline_ms)
        self.wakes_needed = wakes_needed
        self.answers: list[object] = []
        self.on_done = lambda parked: self.answers.append(parked.response)

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        self.wakes_needed -= 1
        if self.wakes_needed > 0:
            return False
        self.complete("woken")
        return True

    def expire(self, now_ms: int) -> None:
        self.complete("late")


def test_wake_completes_and_forgets() -> None:
    table = ParkedRequests()
    waiting = Waiting(100)
    table.park(waiting, partitions=[A, B])

    table.wake(B, 0)
    table.wake(A, 0)
    table.tick(1000)
    table.run_completed()

    assert waiting.answers == ["woken"]
    assert len(table) == 0


@pytest.mark.parametrize("is_sent", [True, False])
def test_an_urgent_answer_is_sent_from_within_the_event_or_else_later(is_sent: bool) -> None:
    table, order = ParkedRequests(), []
    waiting, other = Waiting(100), Waiting(100)

    def send_now(parked: Parked) -> bool:
        order.append(f"now, {parked.response}")
        return is_sent

    waiting.send_now = send_now
    waiting.on_done = lambda _: order.append("later")
    other.on_done = lambda _: order.append("the other")
    table.park(waiting, partitions=[A])
    table.park(other, partitions=[A])

    table.wake(A, 0)
    assert order == ["now, woken"]
    table.run_completed()

    assert order == ["now, woken", "the other"] if is_sent else ["now, woken", "later", "the other"]
    assert waiting.send_now is None


def test_an_answered_request_goes_without_the_collector() -> None:
    table = ParkedRequests()
    waiting = Waiting(100)
    # As its connection and its own code refer to it.
    waiting.on_done = lambda _parked, it=waiting: it.answers.append("heard")
    waiting.make_of(lambda answer, it=waiting: (it.deadline_ms, answer))
    table.park(waiting, partitions=[A])
    gone, answers = weakref.ref(waiting), waiting.answers
    gc.disable()
    try:
        del waiting
        table.tick(100)
        table.run_completed()

        assert answers == ["heard"]
        assert gone() is None
    finally:
        gc.enable()


def test_an_answered_request_does_not_stay_until_its_deadline() -> None:
    """Nor its answer, which may be large, after one that waits and is due earlier."""
    table = ParkedRequests()
    first, waiting = Waiting(50), Waiting(100)
    table.park(first, partitions=[B])
    table.park(waiting, partitions=[A])
    gone = weakref.ref(waiting)
    gc.disable()
    try:
        table.wake(A, 0)
        table.run_completed()
        assert waiting.answers == ["woken"]
        del waiting

        assert gone() is None
        assert table.next_deadline_ms() == 50
    finally:
        gc.enable()


def test_a_request_that_waits_again_has_its_new_deadline() -> None:
    table = ParkedRequests()
    waiting = Waiting(50)
    table.park(waiting)
    table.forget(waiting)
    waiting.deadline_ms = 100
    table.park(waiting)

    assert table.next_deadline_ms() == 100
    table.tick(50)
    assert not waiting.done
    table.tick(100)
    assert waiting.done


def test_wake_of_another_key_changes_nothing() -> None:
    table = ParkedRequests()
    waiting = Waiting(100)
    table.park(waiting, partitions=[A])

    table.wake(B, 0)

    assert waiting.answers == []
    assert table.next_deadline_ms() == 100


def test_an_event_of_a_share_group_concerns_its_own_requests_for_that_partition() -> None:
    table = ParkedRequests()
    mine, elsewhere, others, consumer = (Waiting(100) for _ in range(4))
    table.park(mine, partitions=[A, B], group_id="g")
    table.park(elsewhere, partitions=[B], group_id="g")
    table.park(others, partitions=[A], group_id="h")
    table.park(consumer, partitions=[A])

    table.wake_group("g", A, 0)
    table.run_completed()

    waiting = (mine, elsewhere, others, consumer)
    assert [each.answers for each in waiting] == [["woken"], [], [], []]
    # Events of the partition's log concern them all.
    table.wake(A, 0)
    table.run_completed()
    assert [each.answers for each in waiting] == [["woken"], [], ["woken"], ["woken"]]
    table.forget(elsewhere)
    table.wake_group("g", B, 0)
    assert (elsewhere.answers, len(table)) == ([], 0)


def test_an_event_concerns_whoever_waits_for_its_partition_and_followers_with_notes() -> None:
    table = ParkedRequests()
    waiting = Waiting(100)
    assert not table.awaits(A)

    table.park(waiting, partitions=[A])
    assert table.awaits(A)
    assert not table.awaits(B)

    table.wake(A, 0)
    assert not table.awaits(A)

    assert not table.followers.of(2)  # notes are kept for it from now on
    assert table.awaits(A)
    table.wake(A, 0)
    assert table.followers.of(2) == {A: None}


def test_news_for_a_follower_or_of_brokers_wakes_those_who_wait_for_that_and_no_others() -> None:
    table = ParkedRequests()
    by_partition, by_follower, by_brokers = (Waiting(100) for _ in range(3))
    table.park(by_partition, partitions=[("follower", 2), ("brokers", 0)])
    table.park(by_follower, follower=2)
    table.park(by_brokers, brokers=True)

    table.wake_follower(3, 0)
    table.wake(("follower", 3), 0)
    assert len(table) == 3
    table.wake_follower(2, 0)
    assert [each.done for each in (by_partition, by_follower, by_brokers)] == [False, True, False]
    table.wake_for_brokers(0)
    assert [each.done for each in (by_partition, by_brokers)] == [False, True]


def test_who_is_woken_hears_which_partition_it_was() -> None:
    table, heard = ParkedRequests(), []

    class Curious(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            heard.append(partition)
            return False

    table.park(Curious(100), partitions=[A, B], follower=2, brokers=True)
    table.wake(B, 0)
    table.wake_follower(2, 0)
    table.wake_for_brokers(0)

    assert heard == [B, None, None]


def test_deadline_completes_exactly_then() -> None:
    table = ParkedRequests()
    waiting = Waiting(100)
    table.park(waiting, partitions=[A])

    table.tick(99)
    assert waiting.answers == []
    table.tick(100)
    table.run_completed()

    assert waiting.answers == ["late"]
    assert table.next_deadline_ms() is None


def test_cancelled_request_is_never_answered() -> None:
    table = ParkedRequests()
    waiting = Waiting(100)
    table.park(waiting, partitions=[A])

    table.forget(waiting)
    table.forget(waiting)
    table.wake(A, 0)
    table.tick(1000)

    assert waiting.answers == []


def test_request_cancelled_by_the_answer_to_another_is_not_answered() -> None:
    """An answer may close the connection that the next one waits for."""
    table = ParkedRequests()
    first, second = Waiting(100), Waiting(100)

    def close_the_connection(parked: Parked) -> None:
        second.on_done = None
        table.forget(second)

    first.on_done = close_the_connection
    for waiting in (first, second):
        table.park(waiting, partitions=[A])

    table.wake(A, 0)
    table.run_completed()

    assert first.done
    assert second.answers == []


def test_completion_calls_nobody_until_the_host_lets_answers_run() -> None:
    table, told = ParkedRequests(), []
    table.on_completed = lambda: told.append("answers are due")
    waiting = [Waiting(100), Waiting(100)]
    for each in waiting:
        table.park(each, partitions=[A])

    table.wake(A, 0)
    assert [each.done for each in waiting] == [True, True]
    assert [each.answers for each in waiting] == [[], []]
    assert told == ["answers are due"]
    table.run_completed()

    assert [each.answers for each in waiting] == [["woken"], ["woken"]]
    assert not table.has_completed


def test_answers_never_run_within_a_look_or_within_another_answer() -> None:
    table = ParkedRequests()

    class Impatient(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            table.run_completed()
            return False

    impatient, nested = Impatient(100), Waiting(100)
    nested.on_done = lambda parked: table.run_completed()
    table.park(impatient, partitions=[A])
    table.park(nested, partitions=[B])

    with pytest.raises(AssertionError, match="an event is being handled"):
        table.wake(A, 0)
    table.forget(impatient)
    table.wake(B, 0)
    with pytest.raises(AssertionError, match="an answer is in progress"):
        table.run_completed()


def test_news_that_a_look_brings_is_looked_at_after_it_by_those_it_concerns() -> None:
    """A committed record of a coordinator makes it append the next one, which is news again."""
    table, looks = ParkedRequests(), []

    class Appending(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            looks.append(self.deadline_ms)
            table.wake(A, now_ms)
            assert looks == [self.deadline_ms], "the news ran within the look"
            return super().try_complete(partition, now_ms)

    class Counting(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            looks.append(self.deadline_ms)
            return super().try_complete(partition, now_ms)

    table.park(Appending(1), partitions=[A])
    table.park(Counting(2, wakes_needed=2), partitions=[A])

    table.wake(A, 0)

    assert looks == [1, 2, 2]
    assert len(table) == 0


def test_news_that_the_only_request_brings_is_looked_at_after_it_even_if_its_look_failed() -> None:
    table, looks = ParkedRequests(), []

    class Alone(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            table.wake(B, now_ms)
            looks.append("alone")
            if now_ms:
                raise ZeroDivisionError
            return super().try_complete(partition, now_ms)

    class Other(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            looks.append(f"other at {now_ms}")
            return super().try_complete(partition, now_ms)

    table.park(Alone(1, wakes_needed=2), partitions=[A])
    table.park(Other(2, wakes_needed=3), partitions=[B])

    table.wake(A, 0)
    assert looks == ["alone", "other at 0"]
    with pytest.raises(ZeroDivisionError):
        table.wake(A, 1)
    table.wake(B, 2)

    assert looks == ["alone", "other at 0", "alone", "other at 1", "other at 2"]
    assert len(table) == 1


def test_failure_of_one_request_keeps_the_news_for_the_others() -> None:
    table = ParkedRequests()

    class Broken(Waiting):
        def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
            raise ZeroDivisionError

    broken, behind, other = Broken(100), Waiting(100), Waiting(100)
    table.park(broken, partitions=[A])
    table.park(behind, partitions=[A])
    table.park(other, partitions=[B])

    with pytest.raises(ZeroDivisionError):
        table.wake(A, 0)
    table.wake(B, 0)

    assert behind.done
    assert other.done


def test_second_answer_is_fatal() -> None:
    waiting = Waiting(100)
    ParkedRequests().park(waiting, partitions=[A])
    waiting.complete(1)

    with pytest.raises(Fatal):
        waiting.complete(2)


def test_who_waits_for_a_request_that_was_never_parked_would_wait_for_ever() -> None:
    with pytest.raises(AssertionError, match="never parked"):
        Waiting(100).complete(1)


def test_deadlines_of_the_forgotten_do_not_pile_up() -> None:
    table = ParkedRequests()

    for _ in range(10_000):
        waiting = Waiting(100)
        table.park(waiting, partitions=[A])
        table.wake(A, 0)

    assert len(table._deadlines) < 200


actions = st.lists(
    st.one_of(
        st.tuples(st.just("park"), st.integers(0, 50), st.integers(1, 3), st.integers(0, 15)),
        st.tuples(st.just("wake"), st.integers(0, 3), st.just(0), st.just(0)),
        st.tuples(st.just("tick"), st.integers(0, 10), st.just(0), st.just(0)),
        st.tuples(st.just("forget"), st.integers(0, 20), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@given(actions)
def test_every_request_is_answered_once_or_was_cancelled(
    script: list[tuple[str, int, int, int]],
) -> None:
    table = ParkedRequests()
    wake_a, wake_b = partial(table.wake, A), partial(table.wake, B)
    wake_follower = partial(table.wake_follower, 2)
    everyone: list[Waiting] = []
    cancelled: set[Waiting] = set()
    now_ms = 0
    for action, first, second, third in script:
        if action == "park":
            waiting = Waiting(now_ms + first, second)
            everyone.append(waiting)
            table.park(
                waiting,
                partitions=[each for at, each in enumerate((A, B)) if third >> at & 1],
                follower=2 if third & 4 else None,
                brokers=bool(third & 8),
            )
        elif action == "wake":
            (wake_a, wake_b, wake_follower, table.wake_for_brokers)[first](now_ms)
        elif action == "tick":
            now_ms += first
            table.tick(now_ms)
        elif first < len(everyone) and not everyone[first].done:
            cancelled.add(everyone[first])
            table.forget(everyone[first])
        open_now = [w for w in everyone if not w.done and w not in cancelled]
        assert len(table) == len(open_now)
        assert table.next_deadline_ms() == min((w.deadline_ms for w in open_now), default=None)

    table.tick(now_ms + 1000)
    table.run_completed()

    for waiting in everyone:
        assert len(waiting.answers) == (0 if waiting in cancelled else 1)
    assert (table._for_partition, table._for_follower, table._for_group) == ({}, {}, {})


class Meddling(Waiting):
    """What it does as it looks and as it is answered is drawn: wake others, cancel one, park a new
    one, as coordinators and connections do."""

    def __init__(self, world: "MeddledWith", deadline_ms: int, wakes_needed: int) -> None:
        super().__init__(deadline_ms, wakes_needed)
        self.world = world
        self.on_done = self.answered

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        assert not self.done
        assert not self.world.is_looking, "a look within a look"
        self.world.is_looking = True
        self.world.meddle()
        self.world.is_looking = False
        return super().try_complete(partition, now_ms)

    def answered(self, parked: Parked) -> None:
        assert not self.world.is_looking, "an answer within a look"
        assert not self.world.is_answering, "an answer within an answer"
        self.world.is_answering = True
        self.answers.append(parked.response)
        self.world.meddle()
        self.world.is_answering = False


class MeddledWith:
    """The table, and what is drawn for those who wait in it."""

    def __init__(self, draws: list[int]) -> None:
        self.table = ParkedRequests()
        self.draws = draws
        self.everyone: list[Meddling] = []
        self.cancelled: set[Meddling] = set()
        self.is_looking = self.is_answering = False

    def draw(self, below: int) -> int:
        return self.draws.pop() % below if self.draws else 0

    def park(self) -> None:
        waiting = Meddling(self, 50 + self.draw(10), 1 + self.draw(3))
        self.everyone.append(waiting)
        self.table.park(waiting, partitions=[A, B][: 1 + self.draw(2)], follower=2, brokers=True)

    def meddle(self) -> None:
        if not self.draws:
            return
        match self.draw(6):
            case 0:
                self.table.wake(A, 0)
            case 1:
                self.table.wake_follower(2, 0)
            case 2:
                self.table.wake_for_brokers(0)
            case 3:
                self.park()
            case 4:
                self.cancel(self.draw(len(self.everyone)))
            case _ if not self.is_looking:
                self.table.tick(50 + self.draw(10))

    def cancel(self, at: int) -> None:
        waiting = self.everyone[at]
        if not waiting.answers:
            waiting.on_done = None  # type: ignore[assignment]
            self.cancelled.add(waiting)
            self.table.forget(waiting)


@given(st.lists(st.integers(0, 1 << 20), min_size=10, max_size=200))
def test_nobody_who_is_answered_or_looks_is_called_from_within_another(draws: list[int]) -> None:
    world = MeddledWith(draws)
    world.park()
    while world.draws:
        world.park()
        world.meddle()
        world.table.wake(A, 0)
        world.table.run_completed()
    world.table.tick(1000)
    world.table.run_completed()

    for waiting in world.everyone:
        assert len(waiting.answers) == (0 if waiting in world.cancelled else 1)
    assert len(world.table) == 0

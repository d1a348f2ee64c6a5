"""Promises are kept once, for who still waits; what waits for partitions is decided one by one."""

from josefine_broker.engine.purgatory.promises import AwaitEach, Promise
from josefine_broker.engine.purgatory.purgatory import ParkedRequests, PartitionKey

A, B = ("a", 0), ("b", 0)


class Batch:
    """Decided when a test says so."""

    def __init__(self, tp: PartitionKey) -> None:
        self.tp = tp
        self.is_ready = False
        self.looks = 0
        self.outcome = ""

    def decide(self) -> bool:
        self.looks += 1
        assert not self.outcome
        self.outcome = "decided" if self.is_ready else ""
        return self.is_ready

    def give_up(self) -> None:
        assert not self.outcome
        self.outcome = "given up"


def awaited(*batches: Batch, brokers: bool = False) -> tuple[ParkedRequests, AwaitEach]:
    """A request for these, whose answer is what became of each."""
    parked = ParkedRequests()
    return parked, AwaitEach(batches, 100, lambda: [each.outcome for each in batches]).park(
        parked, brokers=brokers
    )


def test_promise_is_kept_once_and_then_not_even_made() -> None:
    parked, made = ParkedRequests(), []
    promise = Promise(parked, 100, lambda: "late")

    promise.keep(lambda: made.append(1) or "kept")
    promise.keep(lambda: made.append(2) or "again")
    parked.tick(1000)

    assert (promise.response, made, len(parked)) == ("kept", [1], 0)


def test_promise_that_is_not_kept_is_late_at_its_deadline() -> None:
    parked = ParkedRequests()
    promise = Promise(parked, 100, lambda: "late")

    parked.tick(99)
    assert (promise.done, promise.is_wanted) == (False, True)
    parked.tick(100)
    promise.keep(lambda: "kept")

    assert (promise.response, promise.is_wanted) == ("late", False)


def test_nothing_is_made_for_a_client_that_is_gone() -> None:
    parked, made = ParkedRequests(), []
    promise = Promise(parked, 100, lambda: made.append("late"))

    parked.forget(promise)
    promise.keep(lambda: made.append("kept"))
    parked.tick(1000)

    assert (promise.done, made) == (False, [])


def test_promise_may_be_kept_while_others_are_late() -> None:
    """The late answer of one may be what another waits for."""
    parked = ParkedRequests()
    other = Promise(parked, 100, lambda: "late")

    def late() -> str:
        other.keep(lambda: "kept")
        return "late"

    first = Promise(parked, 99, late)
    parked.tick(1000)

    assert (first.response, other.response) == ("late", "kept")


def test_request_for_partitions_is_answered_once_each_is_decided() -> None:
    batches = Batch(A), Batch(B)
    parked, waiting = awaited(*batches)

    batches[0].is_ready = True
    parked.wake(A, 0)
    parked.wake(A, 0)
    assert not waiting.done
    batches[1].is_ready = True
    parked.wake(B, 0)

    assert (waiting.response, len(parked)) == (["decided", "decided"], 0)


def test_news_of_a_partition_is_a_look_at_that_one_alone() -> None:
    batches = Batch(A), Batch(B)
    parked, _ = awaited(*batches, brokers=True)

    parked.wake(A, 0)
    assert [each.looks for each in batches] == [1, 0]
    parked.wake_for_brokers(0)

    assert [each.looks for each in batches] == [2, 1]


def test_partition_that_is_named_twice_is_decided_twice() -> None:
    batches = Batch(A), Batch(A), Batch(A)
    parked, waiting = awaited(*batches)

    for ready in (1, 2, 0):
        batches[ready].is_ready = True
        assert not waiting.done
        parked.wake(A, 0)

    assert waiting.response == ["decided"] * 3


def test_deadline_gives_up_what_is_not_decided() -> None:
    batches = Batch(A), Batch(B)
    parked, waiting = awaited(*batches)
    batches[0].is_ready = True
    parked.wake(A, 0)

    parked.tick(100)

    assert waiting.response == ["decided", "given up"]

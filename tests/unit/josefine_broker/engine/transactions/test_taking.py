"""Who takes a transactional id while something of it is on its way: it waits, for clients ask again
after 100 ms; not for long, and not where waiting is of no use."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.transactions.requests import TAKING_MAX, TAKING_MS
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import (
    Init,
    Producer,
)
from tests.unit.josefine_broker.engine.transactions.desk import (
    CONCURRENT,
    FENCED,
    LAST,
    OK,
    A,
    B,
    Desk,
)

TIMEOUT_MS = 60_000


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def old(desk: Desk) -> Producer:
    """It has ended a transaction in A, which is not marked yet."""
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    desk.end(producer)
    return producer


def taken(desk: Desk) -> int:
    """The ticket of one more who takes the id."""
    desk.init()
    return desk.tickets


def mark(desk: Desk) -> None:
    desk.holds_marks = False
    desk.marked(desk.marks[-1])
    desk.settle()


def test_who_takes_the_id_waits_for_what_is_decided(desk: Desk, old: Producer) -> None:
    taking = taken(desk)
    assert taking not in desk.answers

    mark(desk)

    assert desk.answers[taking].producer == old._replace(epoch=old.epoch + 1)
    assert desk.end(old) is FENCED


def test_who_takes_the_id_waits_for_the_end_of_what_is_open(desk: Desk) -> None:
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    taking = taken(desk)
    assert desk.state() is TransactionState.PREPARE_ABORT

    mark(desk)

    assert desk.answers[taking].producer.epoch == producer.epoch + 2, "one is its marker's"


def test_of_two_who_take_the_id_the_second_has_it(desk: Desk, old: Producer) -> None:
    first, second = taken(desk), taken(desk)

    mark(desk)

    assert [desk.answers[each].producer.epoch for each in (first, second)] == [1, 2]
    assert desk.add(desk.answers[first].producer, A) is FENCED
    assert desk.add(desk.answers[second].producer, A) is OK


@pytest.mark.parametrize("takes_first", [True, False])
def test_who_takes_the_id_takes_it_from_who_waits_to_join(
    desk: Desk, old: Producer, takes_first: bool
) -> None:
    """Else that would begin what is aborted at once."""
    taking = taken(desk) if takes_first else 0
    desk.add(old, B)
    joining = desk.tickets
    taking = taking or taken(desk)

    mark(desk)

    assert desk.answers[taking].error is OK
    assert desk.answers[joining].error is FENCED
    assert desk.state() is TransactionState.EMPTY


def test_who_had_the_id_is_not_taken_for_one_that_asks_again_once_another_has_taken_it(
    desk: Desk, old: Producer
) -> None:
    """KIP-360. Else both had one epoch, and what either wrote was in the other's transaction."""
    taking = taken(desk)
    desk.init(claimed=old)
    asking_again = desk.tickets

    mark(desk)

    assert desk.answers[taking].producer == old._replace(epoch=old.epoch + 1)
    assert desk.answers[asking_again].error is FENCED
    assert desk.init(claimed=old).error is FENCED


@pytest.mark.parametrize("fails_over", [False, True])
def test_nor_where_the_other_was_given_a_new_id(desk: Desk, fails_over: bool) -> None:
    desk.load(LAST)
    assert desk.init().producer == Producer(ProducerId(101), ProducerEpoch(0))

    if fails_over:
        desk.fail_over()

    assert desk.init(claimed=LAST).error is FENCED


def test_who_joins_behind_one_who_takes_the_id_does_not_go_ahead(desk: Desk, old: Producer) -> None:
    desk.holds_stores = True
    desk.marked(desk.marks[-1])
    desk.settle()
    taking = taken(desk)
    desk.add(old, B)
    joining = desk.tickets
    (completion,) = desk.stores

    desk.holds_stores = False
    desk.stored(completion)
    desk.settle()

    assert (desk.answers[taking].error, desk.answers[joining].error) == (OK, FENCED)


def test_waiting_is_bounded_in_number_and_in_time(desk: Desk, old: Producer) -> None:
    waiting = [taken(desk) for _ in range(TAKING_MAX)]
    assert desk.init().error is CONCURRENT

    desk.tick(TAKING_MS)
    assert not desk.answers.keys() & set(waiting)
    desk.tick(1)

    assert {desk.answers[each].error for each in waiting} == {CONCURRENT}
    mark(desk)
    assert desk.state() is TransactionState.COMPLETE_COMMIT


def test_who_waits_is_to_ask_again_where_nothing_can_be_stored(desk: Desk) -> None:
    """Else it would abort what is open over and over."""
    desk.add(desk.init().producer, A)
    desk.holds_stores = True
    taking = taken(desk)

    desk.stored(desk.stores[0], ErrorCode.coordinator_not_available, is_written=False)
    desk.settle()

    assert desk.answers[taking].error is CONCURRENT
    assert (desk.stores, desk.state()) == ([], TransactionState.ONGOING)


@pytest.mark.parametrize("is_moved", [True, False])
def test_who_waits_is_told_when_the_id_goes(desk: Desk, is_moved: bool) -> None:
    desk.init()
    desk.now_ms += desk.coordinator.settings.id_expiration_ms + 1
    desk.holds_stores = True
    list(desk.coordinator.expire(desk.now))
    desk.settle()
    taking = taken(desk)

    if is_moved:
        desk.coordinator.unload(lambda _: True)
    else:
        desk.stored(desk.stores[0])
    desk.settle()

    assert desk.answers[taking].error is (ErrorCode.not_coordinator if is_moved else CONCURRENT)


def test_who_needs_a_new_id_and_there_is_none_at_hand_is_to_ask_again(desk: Desk) -> None:
    """Others took those that there were when it began to wait."""
    desk.load(LAST)

    desk.coordinator.init("t", Init(timeout_ms=TIMEOUT_MS), 77, desk.now, lambda: None)
    desk.settle()

    assert desk.answers[77].error is CONCURRENT
    assert desk.init().producer == Producer(ProducerId(101), ProducerEpoch(0))


def test_who_used_up_its_epochs_takes_the_id_again_before_it_was_told(desk: Desk) -> None:
    desk.load(LAST, A)
    desk.holds_marks = True
    following = desk.end_and_go_on(LAST).producer
    desk.init(LAST)
    taking = desk.tickets

    mark(desk)

    assert desk.answers[taking].producer == following

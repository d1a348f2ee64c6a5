"""Ends that raise the epoch (KIP-890): each transaction has one of its own, an end that is asked
again is told the same, one that comes late ends nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.transactions.ending import ENDS, End
from josefine_broker.engine.transactions.requests import WAITING_MAX
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    EPOCH_MAX,
    VERSION_2,
    Producer,
    TransactionAnswer,
    TransactionRecord,
)
from tests.unit.josefine_broker.engine.transactions.desk import (
    CONCURRENT,
    FENCED,
    OK,
    A,
    B,
    Desk,
)

MAPPING = ErrorCode.invalid_producer_id_mapping
WRONG = ErrorCode.invalid_txn_state


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def producer(desk: Desk) -> Producer:
    """It has a transaction open in A."""
    found = desk.init().producer
    assert desk.add(found, A, version=VERSION_2) is OK
    return found


def raised(producer: Producer, by: int = 1) -> Producer:
    return producer._replace(epoch=ProducerEpoch(producer.epoch + by))


def old(desk: Desk, epoch: int, state: TransactionState = TransactionState.ONGOING) -> Producer:
    """A producer of that epoch, as the log has it."""
    producer = Producer(ProducerId(7), ProducerEpoch(epoch))
    record = TransactionRecord(
        producer=producer,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({A}),
        updated_ms=0,
        version=VERSION_2,
    )
    desk.coordinator.load({"t": record}, desk.now)
    return producer


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_raises_the_epoch_and_its_markers_are_of_the_next(
    desk: Desk, producer: Producer, is_commit: bool
) -> None:
    answer = desk.end_and_go_on(producer, is_commit=is_commit)

    assert answer == TransactionAnswer(OK, raised(producer))
    (mark,) = desk.marks
    assert (mark.producer, mark.version) == (raised(producer), VERSION_2)
    assert desk.add(raised(producer), B, version=VERSION_2) is OK


def test_end_that_is_asked_again_is_told_the_same(desk: Desk, producer: Producer) -> None:
    desk.holds_marks = True
    answer = desk.end_and_go_on(producer)
    assert desk.end_and_go_on(producer).error is CONCURRENT, "not every marker is written"
    desk.marked(desk.marks[0])
    desk.settle()

    assert desk.end_and_go_on(producer) == answer
    assert desk.end_and_go_on(producer, is_commit=False).error is WRONG
    desk.fail_over()
    assert desk.end_and_go_on(producer) == answer, "also by the next coordinator"


def test_end_that_comes_late_does_not_end_the_next_transaction(
    desk: Desk, producer: Producer
) -> None:
    following = desk.end_and_go_on(producer).producer
    desk.add(following, A, version=VERSION_2)

    assert desk.end_and_go_on(producer).error is FENCED
    assert desk.end_and_go_on(producer, is_commit=False).error is FENCED
    assert desk.end(producer) is FENCED

    assert desk.state() is TransactionState.ONGOING


def test_partitions_of_a_late_batch_do_not_join_the_next_transaction(
    desk: Desk, producer: Producer
) -> None:
    following = desk.end_and_go_on(producer).producer

    assert desk.add(producer, B, version=VERSION_2) is FENCED
    assert desk.coordinator.verify("t", producer, [A]) == {A: FENCED}
    assert desk.coordinator.verify("t", following, [A]) == {A: ErrorCode.transaction_abortable}


def test_who_goes_on_waits_for_the_markers(desk: Desk, producer: Producer) -> None:
    desk.holds_marks = True
    following = desk.end_and_go_on(producer).producer
    desk.add(following, A, version=VERSION_2)
    desk.add(following, B, version=VERSION_2)
    first, second = desk.tickets - 1, desk.tickets
    assert first not in desk.answers

    desk.marked(desk.marks[0])
    desk.settle()

    assert [desk.answers[each].error for each in (first, second)] == [OK, OK]
    view = desk.coordinator.view("t")
    assert view is not None
    assert (view.record.state, view.record.partitions) == (TransactionState.ONGOING, {A, B})


def test_who_waits_is_bounded_and_told_when_the_coordinator_goes(
    desk: Desk, producer: Producer
) -> None:
    desk.holds_marks = True
    following = desk.end_and_go_on(producer).producer
    waiting = []
    for _ in range(WAITING_MAX):
        desk.add(following, A, version=VERSION_2)
        waiting.append(desk.tickets)

    assert desk.add(following, A, version=VERSION_2) is CONCURRENT
    desk.coordinator.unload(lambda _: True)
    desk.settle()

    assert {desk.answers[each].error for each in waiting} == {ErrorCode.not_coordinator}


@pytest.mark.parametrize("began", [True, False])
def test_nothing_can_be_aborted_but_not_committed(desk: Desk, began: bool) -> None:
    """What was sent and given up may come yet: it is fenced."""
    producer = desk.init().producer
    if began:
        desk.add(producer, A, version=VERSION_2)
        producer = desk.end_and_go_on(producer).producer

    assert desk.end_and_go_on(producer).error is WRONG
    assert desk.end_and_go_on(producer, is_commit=False) == TransactionAnswer(OK, raised(producer))

    assert desk.add(producer, B, version=VERSION_2) is FENCED
    assert desk.state() is TransactionState.COMPLETE_ABORT


def test_strangers_and_the_fenced_end_nothing(desk: Desk, producer: Producer) -> None:
    other = producer._replace(producer_id=ProducerId(producer.producer_id + 50))
    assert desk.end_and_go_on(other).error is MAPPING
    assert desk.end_and_go_on(producer, id_="nobody").error is MAPPING
    assert desk.end_and_go_on(raised(producer)).error is FENCED

    assert desk.state() is TransactionState.ONGOING


def test_producer_whose_time_is_over_is_not_taken_for_one_that_asks_again(
    desk: Desk, producer: Producer
) -> None:
    desk.tick(60_001)
    assert desk.state() is TransactionState.COMPLETE_ABORT

    assert desk.end_and_go_on(producer, is_commit=False).error is FENCED
    assert desk.end_and_go_on(producer).error is FENCED


def test_used_up_epochs_give_a_new_id(desk: Desk) -> None:
    producer = old(desk, EPOCH_LAST)
    desk.holds_marks = True

    answer = desk.end_and_go_on(producer)

    following = Producer(ProducerId(101), ProducerEpoch(0))
    assert answer == TransactionAnswer(OK, following)
    assert desk.marks[0].producer == raised(producer)
    desk.add(following, B, version=VERSION_2)
    joining = desk.tickets
    assert joining not in desk.answers, "it waits for the markers"
    assert desk.end_and_go_on(producer).error is CONCURRENT
    assert desk.end_and_go_on(following).error is CONCURRENT
    desk.fail_over()
    assert desk.answers[joining].error is ErrorCode.not_coordinator
    desk.marked(desk.marks[-1])
    desk.settle()
    assert desk.end_and_go_on(producer) == TransactionAnswer(OK, following), "asked again"
    view = desk.coordinator.view("t")
    assert view is not None
    assert (view.record.previous_id, view.record.next_id) == (producer.producer_id, -1)
    assert desk.add(producer, B, version=VERSION_2) is MAPPING
    assert desk.add(following, B, version=VERSION_2) is OK
    assert desk.end_and_go_on(producer).error is FENCED


def test_without_an_id_at_hand_the_end_is_asked_again(desk: Desk) -> None:
    producer = old(desk, EPOCH_LAST)
    desk.coordinator.end_and_go_on("t", producer, 0, desk.now, lambda: None, is_commit=True)
    desk.settle()

    assert desk.answers[0].error is CONCURRENT
    assert desk.state() is TransactionState.ONGOING


def test_producer_of_the_id_before_that_takes_it_again_is_given_the_new_one(desk: Desk) -> None:
    """Its last answer was lost (KIP-360)."""
    producer = old(desk, EPOCH_LAST)
    following = desk.end_and_go_on(producer).producer
    desk.fail_over()

    assert desk.init(producer).producer == following


@pytest.mark.parametrize("epoch", range(EPOCH_LAST - 3, EPOCH_MAX + 1))
def test_nobody_is_given_an_epoch_that_fencing_needs(desk: Desk, epoch: int) -> None:
    old(desk, epoch, TransactionState.COMPLETE_COMMIT)

    assert desk.init().producer.epoch <= EPOCH_LAST


def test_marker_of_who_is_fenced_at_the_last_epoch_is_above_it(desk: Desk) -> None:
    producer = old(desk, EPOCH_LAST)

    desk.init()

    assert desk.marks[0].producer.epoch == EPOCH_MAX
    assert desk.end_and_go_on(producer).error is MAPPING, "as with all that it asks for now"
    assert desk.init(producer).error is FENCED


def test_record_without_tags_is_completed_under_its_own_id(desk: Desk) -> None:
    """`transaction.version` was lowered in between: the new id is lost, the next takes another."""
    producer = old(desk, EPOCH_LAST)
    desk.holds_marks = True
    desk.end_and_go_on(producer)
    id_, record = desk.log.pop()
    assert record is not None
    desk.coordinator.load({id_: replace(record, next_id=-1, version=0)}, desk.now)
    desk.holds_marks = False
    desk.settle()

    assert desk.init().producer == Producer(ProducerId(102), ProducerEpoch(0))


def test_every_state_has_an_answer_for_every_end() -> None:
    states = set(TransactionState) - {TransactionState.DEAD}
    assert ENDS.keys() == {(state, end) for state in states for end in End}

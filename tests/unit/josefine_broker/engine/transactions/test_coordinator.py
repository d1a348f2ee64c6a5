"""The transaction coordinator: each answer, and a life of requests, crashes and lost words against
what the log says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.transactions.progress import RETRY_MS
from josefine_broker.engine.transactions.states import PREPARED, TransactionState
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    EPOCH_MAX,
    NOBODY,
    VERSION_1,
    VERSION_2,
    Mark,
    Producer,
    TransactionAnswer,
    TransactionRecord,
)
from tests.unit.josefine_broker.engine.transactions.desk import (
    CONCURRENT,
    FENCED,
    LAST,
    OK,
    TIMEOUT_MS,
    A,
    B,
    C,
    Desk,
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_transaction_is_decided_marked_and_complete(desk: Desk) -> None:
    producer = desk.init().producer
    assert producer == Producer(ProducerId(101), ProducerEpoch(0))
    assert desk.add(producer, A) is OK
    assert desk.add(producer, A, B) is OK
    desk.holds_marks = True

    assert desk.end(producer) is OK

    assert desk.state() is TransactionState.PREPARE_COMMIT
    (mark,) = desk.marks
    assert (mark.producer, mark.is_commit, mark.partitions) == (producer, True, {A, B})
    assert desk.end(producer) is CONCURRENT, "it is under way"
    assert desk.end(producer, is_commit=False) is ErrorCode.invalid_txn_state
    desk.marked(mark)
    desk.settle()
    assert desk.state() is TransactionState.COMPLETE_COMMIT
    assert desk.end(producer) is OK, "asked again, it is done"
    assert desk.end(producer, is_commit=False) is ErrorCode.invalid_txn_state


def test_who_begins_the_next_transaction_waits_for_the_markers_of_the_last(desk: Desk) -> None:
    """Clients ask again after 20 ms, and the markers take less."""
    producer = desk.init().producer
    assert desk.add(producer, A) is OK
    desk.holds_marks = True
    assert desk.end(producer) is OK
    desk.add(producer, B)
    joining = desk.tickets
    assert joining not in desk.answers

    (mark,) = desk.marks
    desk.marked(mark)
    desk.settle()

    assert desk.answers[joining].error is OK
    view = desk.coordinator.view("t")
    assert view is not None
    assert (view.record.state, view.unended) == (TransactionState.ONGOING, {B})
    assert view.record.version == VERSION_1


def states(desk: Desk) -> list[TransactionState]:
    """By the log."""
    return [record.state for _, record in desk.log if record is not None]


def test_who_waited_is_added_by_the_record_that_completes_the_last_transaction(desk: Desk) -> None:
    """Each record is a round to the replicas, and the next one waits for it."""
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    desk.end(producer)
    desk.add(producer, B)
    desk.add(producer, C)
    first, second = desk.tickets - 1, desk.tickets
    before = len(desk.log)
    desk.marked(desk.marks[0])
    desk.settle()

    assert states(desk)[before:] == [TransactionState.ONGOING]
    assert [desk.answers[each].error for each in (first, second)] == [OK, OK]
    desk.fail_over()
    desk.end(producer)
    assert desk.marks[-1].partitions == {B, C}


def test_who_waited_is_told_when_that_record_is_not_stored_and_the_last_is_completed_alone(
    desk: Desk,
) -> None:
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    desk.end(producer)
    desk.add(producer, B)
    joining = desk.tickets
    desk.holds_stores = True
    desk.marked(desk.marks[0])
    desk.settle()
    assert joining not in desk.answers

    desk.stored(desk.stores[0], ErrorCode.coordinator_not_available, is_written=False)
    desk.settle()

    assert desk.answers[joining].error is ErrorCode.coordinator_not_available
    assert desk.state() is TransactionState.PREPARE_COMMIT
    desk.holds_stores = False
    desk.tick()
    assert desk.state() is TransactionState.COMPLETE_COMMIT


@pytest.fixture
def completing(desk: Desk) -> Producer:
    """All is marked, and the record that says so is on its way."""
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    desk.end(producer)
    desk.holds_stores = True
    desk.marked(desk.marks[0])
    desk.settle()
    assert [each.record and each.record.state for each in desk.stores] == [
        TransactionState.COMPLETE_COMMIT
    ]
    return producer


@pytest.mark.parametrize("is_told", [True, False])
def test_who_joins_does_not_wait_for_a_completion_that_is_on_its_way(
    desk: Desk, completing: Producer, is_told: bool
) -> None:
    """Its record lies behind that in the log: it holds whatever is told of the first."""
    desk.add(completing, B)
    joining = desk.tickets
    first, second = desk.stores
    desk.stored(first, OK if is_told else ErrorCode.coordinator_not_available)
    desk.settle()
    assert joining not in desk.answers, "its own record is not stored yet"

    desk.stored(second)
    desk.settle()

    assert desk.answers[joining].error is OK
    assert states(desk)[-2:] == [TransactionState.COMPLETE_COMMIT, TransactionState.ONGOING]
    desk.holds_stores = False
    assert desk.end(completing) is OK
    assert desk.marks[-1].partitions == {B}


def test_completion_counts_only_with_what_went_out_behind_it(
    desk: Desk, completing: Producer
) -> None:
    desk.add(completing, B)
    joining = desk.tickets
    first, second = desk.stores
    desk.stored(first)
    desk.stored(second, ErrorCode.coordinator_not_available, is_written=False)
    desk.settle()

    assert desk.answers[joining].error is ErrorCode.coordinator_not_available
    assert desk.state() is TransactionState.PREPARE_COMMIT
    desk.holds_stores = False
    desk.tick()
    assert desk.state() is TransactionState.COMPLETE_COMMIT


def test_who_adds_nothing_leaves_the_completion_on_its_way(
    desk: Desk, completing: Producer
) -> None:
    desk.add(completing)
    assert desk.answers[desk.tickets].error is OK
    assert desk.end(completing) is CONCURRENT
    (store,) = desk.stores

    desk.stored(store)
    desk.settle()

    assert desk.state() is TransactionState.COMPLETE_COMMIT


def test_who_waited_and_is_not_the_producer_that_goes_on_adds_nothing(desk: Desk) -> None:
    """Its id's epochs are used up by this end."""
    desk.load(LAST, A)
    desk.holds_marks = True
    following = desk.end_and_go_on(LAST).producer
    assert following.producer_id != LAST.producer_id
    desk.add(Producer(ProducerId(7), ProducerEpoch(EPOCH_LAST + 1)), B, version=VERSION_2)
    stranger = desk.tickets

    desk.marked(desk.marks[0])
    desk.settle()

    assert desk.answers[stranger].error is ErrorCode.invalid_producer_id_mapping
    assert desk.state() is TransactionState.COMPLETE_COMMIT


def test_who_waits_and_is_fenced_meanwhile_adds_nothing(desk: Desk) -> None:
    producer = desk.init().producer
    assert desk.add(producer, A) is OK
    desk.holds_stores = True
    desk.add(producer, B)
    (store,) = desk.stores
    desk.add(producer, C)
    joining = desk.tickets
    desk.holds_stores = False
    desk.stored(store)
    desk.settle()
    assert desk.answers[joining].error is OK

    desk.holds_marks = True
    desk.init()
    taking = desk.tickets
    assert taking not in desk.answers, "it aborts what is open"
    assert desk.add(producer, C) is FENCED
    desk.marked(desk.marks[0])
    desk.settle()
    assert desk.answers[taking].error is OK


def test_next_producer_has_the_next_epoch_and_the_one_before_is_fenced(desk: Desk) -> None:
    old = desk.init().producer
    new = desk.init().producer

    assert new == old._replace(epoch=1)
    assert desk.add(old, A) is FENCED
    assert desk.end(old) is FENCED
    assert desk.add(new, A) is OK


def test_successor_aborts_what_is_open_under_an_epoch_of_its_own(desk: Desk) -> None:
    """What its producer still writes is refused by every partition that has the marker."""
    old = desk.init().producer
    desk.add(old, A)

    assert desk.init() == TransactionAnswer(producer=old._replace(epoch=2))

    (mark,) = desk.marks
    assert (mark.producer.epoch, mark.is_commit) == (old.epoch + 1, False)
    assert desk.end(old) is FENCED


def test_producer_that_asks_again_for_its_next_epoch_gets_it_once(desk: Desk) -> None:
    """KIP-360: its first answer was lost."""
    old = desk.init().producer
    new = desk.init(claimed=old).producer

    assert new == old._replace(epoch=1)
    assert desk.init(claimed=old).producer == new
    desk.init(claimed=new)
    assert desk.init(claimed=old).error is FENCED
    assert desk.init(claimed=Producer(ProducerId(9), ProducerEpoch(0))).error is FENCED


def test_epochs_that_are_used_up_give_a_new_id(desk: Desk) -> None:
    last = Producer(ProducerId(7), ProducerEpoch(EPOCH_MAX - 1))
    record = TransactionRecord(
        producer=last, timeout_ms=1, state=TransactionState.EMPTY, updated_ms=0
    )
    desk.coordinator.load({"t": record}, desk.now)

    assert desk.init().producer == Producer(ProducerId(101), ProducerEpoch(0))
    assert desk.add(last, A) is ErrorCode.invalid_producer_id_mapping


def test_transaction_that_is_overdue_is_aborted_and_its_producer_fenced(desk: Desk) -> None:
    producer = desk.init(timeout_ms=5_000).producer
    desk.add(producer, A)

    desk.tick(5_000)
    assert desk.state() is TransactionState.ONGOING
    desk.tick(1)

    assert desk.state() is TransactionState.COMPLETE_ABORT
    assert desk.end(producer) is FENCED


HOUR_MS = 3_600_000


@pytest.mark.parametrize("set_ms", [-HOUR_MS, HOUR_MS])
def test_transaction_lasts_as_long_as_it_may_wherever_the_wall_clock_is_set_to(
    desk: Desk, set_ms: int
) -> None:
    producer = desk.init(timeout_ms=5_000).producer
    desk.add(producer, A)
    desk.set_ms = set_ms

    desk.tick(5_000)
    assert desk.state() is TransactionState.ONGOING
    desk.tick(1)

    assert desk.state() is TransactionState.COMPLETE_ABORT


def test_transaction_of_a_former_coordinator_lasts_for_what_is_left_of_its_time(
    desk: Desk,
) -> None:
    desk.add(desk.init(timeout_ms=5_000).producer, A)
    desk.tick(3_000)
    desk.fail_over()

    desk.tick(2_000)
    assert desk.state() is TransactionState.ONGOING
    desk.tick(1)

    assert desk.state() is TransactionState.COMPLETE_ABORT


def test_transaction_of_a_former_coordinator_whose_clock_was_ahead_lasts_its_whole_time_at_most(
    desk: Desk,
) -> None:
    desk.add(desk.init(timeout_ms=5_000).producer, A)
    desk.set_ms = -HOUR_MS
    desk.fail_over()

    desk.tick(5_001)

    assert desk.state() is TransactionState.COMPLETE_ABORT


def test_what_failed_is_tried_again_though_the_wall_clock_was_set_back(desk: Desk) -> None:
    desk.add(desk.init(timeout_ms=5_000).producer, A)
    desk.holds_stores = True
    desk.tick(5_001)
    desk.set_ms = HOUR_MS
    desk.stored(desk.stores[0], ErrorCode.coordinator_not_available, is_written=False)
    desk.set_ms = -HOUR_MS
    desk.holds_stores = False

    desk.tick()

    assert desk.state() is TransactionState.COMPLETE_ABORT


def test_timeout_while_the_commit_is_on_its_way_changes_nothing(desk: Desk) -> None:
    producer = desk.init(timeout_ms=5_000).producer
    desk.add(producer, A)
    desk.holds_stores = True
    desk.end(producer)
    (store,) = desk.stores

    desk.tick(60_000)
    assert desk.stores == [store]
    desk.holds_stores = False
    desk.stored(store)
    desk.settle()

    assert desk.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeout_that_cannot_be_is_refused(desk: Desk, timeout_ms: int) -> None:
    assert desk.init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout
    assert len(desk.coordinator) == 0


def test_first_record_that_is_not_stored_leaves_nothing(desk: Desk) -> None:
    desk.holds_stores = True
    desk.init()
    assert desk.coordinator.view("t") is None
    assert desk.add(Producer(ProducerId(101), ProducerEpoch(0)), A) is (
        ErrorCode.invalid_producer_id_mapping
    )

    desk.stored(desk.stores[0], ErrorCode.coordinator_not_available, is_written=False)
    desk.settle()

    assert desk.answers[1].error is ErrorCode.coordinator_not_available
    assert len(desk.coordinator) == 0


def test_markers_are_asked_for_until_each_is_written(desk: Desk) -> None:
    producer = desk.init().producer
    desk.add(producer, A, B)
    desk.holds_marks = True
    desk.end(producer)
    (first,) = desk.marks
    desk.marked(first._replace(partitions=frozenset({A})))
    desk.marked(first._replace(partitions=frozenset({B})), is_written=False)

    desk.tick()

    assert [each.partitions for each in desk.marks] == [{A, B}, {B}]
    desk.tick()
    assert len(desk.marks) == 2, "it is asked for already"
    desk.marked(desk.marks[1])
    desk.settle()
    assert desk.state() is TransactionState.COMPLETE_COMMIT


def test_late_word_of_a_marker_does_not_end_the_next_transaction(desk: Desk) -> None:
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    desk.end(producer)
    (late,) = desk.marks
    desk.fail_over()
    desk.marked(desk.marks[1])
    desk.settle()
    desk.add(producer, A)
    desk.end(producer)

    desk.marked(late)
    desk.settle()

    assert desk.state() is TransactionState.PREPARE_COMMIT


def test_completion_that_is_not_stored_is_stored_again(desk: Desk) -> None:
    producer = desk.init().producer
    desk.add(producer, A)
    desk.holds_marks = True
    desk.end(producer)
    desk.holds_stores = True
    desk.marked(desk.marks[0])
    desk.settle()
    desk.stored(desk.stores[0], ErrorCode.coordinator_not_available, is_written=False)
    assert desk.state() is TransactionState.PREPARE_COMMIT

    desk.holds_stores = False
    desk.tick()

    assert desk.state() is TransactionState.COMPLETE_COMMIT


def test_who_waits_when_the_leadership_goes_is_sent_to_look(desk: Desk) -> None:
    producer = desk.init().producer
    desk.holds_stores = True
    desk.add(producer, A)

    desk.coordinator.unload(lambda _: True)
    desk.settle()

    assert desk.answers[2].error is ErrorCode.not_coordinator


def test_ids_that_nobody_uses_are_forgotten(desk: Desk) -> None:
    producer = desk.init().producer
    desk.init(id_="open")
    desk.add(desk.init(id_="open").producer, A, id_="open")
    desk.now_ms += desk.coordinator.settings.id_expiration_ms + 1

    list(desk.coordinator.expire(desk.now))
    desk.settle()

    assert [each.transactional_id for each in desk.coordinator.views()] == ["open"]
    assert desk.log[-1] == ("t", None)
    assert desk.end(producer) is ErrorCode.invalid_producer_id_mapping


@given(st.integers(0, 2**32))
def test_any_life_keeps_what_was_decided(seed: int) -> None:
    """Stores are late, lost, or written though they failed; marks too; coordinators die anywhere.

    A transaction that was told to be committed is never marked as aborted; no two ends of one
    transaction are marked; at the end nothing stays open or prepared.
    """
    rng, desk = Random(seed), Desk()
    desk.holds_stores = desk.holds_marks = True
    producer = NOBODY
    inits: list[int] = []
    open_marks: list[Mark] = []
    for _ in range(60):
        action = rng.randrange(8)
        if action == 0:
            desk.init()
            inits.append(desk.tickets)
        elif action == 1:
            desk.add(producer, rng.choice((A, B)), version=rng.choice((VERSION_1, VERSION_2)))
        elif action == 2 and rng.random() < 0.5:
            desk.end(producer, is_commit=rng.random() < 0.5)
        elif action == 2:
            desk.end_and_go_on(producer, is_commit=rng.random() < 0.5)
            inits.append(desk.tickets)
        elif action == 3 and desk.stores:
            if rng.random() < 0.7:
                desk.stored(desk.stores[0])
            else:
                failed = ErrorCode.coordinator_not_available
                desk.stored(desk.stores[0], failed, is_written=rng.random() < 0.5)
        elif action == 4 and open_marks:
            desk.marked(open_marks.pop(0), is_written=rng.random() < 0.5)
        elif action == 5:
            desk.tick(rng.choice((1, RETRY_MS, TIMEOUT_MS)))
        elif action == 6 and rng.random() < 0.2:
            desk.fail_over()
        desk.settle()
        open_marks += desk.marks
        desk.marks.clear()
        _check_marks(desk, open_marks)
        for each in inits:
            answer = desk.answers.get(each)
            if answer is not None and answer.error is OK:
                producer = answer.producer
    desk.holds_stores = desk.holds_marks = False
    for store in tuple(desk.stores):
        desk.stored(store)
    for mark in open_marks:
        desk.marked(mark)
    desk.settle()
    for _ in range(4):
        desk.tick(TIMEOUT_MS)
    view = desk.coordinator.view("t")
    assert view is None or view.record.state not in {TransactionState.ONGOING, *PREPARED}


def _check_marks(desk: Desk, marks: list[Mark]) -> None:
    """A marker is only asked for what the log has decided: its last prepared record."""
    for mark in marks[-1:]:
        decided = [record for _, record in desk.log if record and record.state in PREPARED]
        assert decided
        is_commit = {each.state is TransactionState.PREPARE_COMMIT for each in decided
                     if each.producer == mark.producer}  # fmt: skip
        assert mark.is_commit in is_commit

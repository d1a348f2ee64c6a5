"""Participants of a two-phase commit (KIP-939): what was prepared stays open until its producer's
next process ends it, is written to by nobody, and no longer open than the operator allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.transaction import Transaction
from josefine_broker.engine.transactions.values import (
    EPOCH_LAST,
    NOBODY,
    VERSION_1,
    VERSION_2,
    Init,
    Producer,
    TransactionAnswer,
    TransactionRecord,
    TransactionSettings,
)
from tests.unit.josefine_broker.engine.transactions.desk import (
    CONCURRENT,
    FENCED,
    OK,
    A,
    B,
    Desk,
)

BOUND_MS = 3_600_000
WRONG = ErrorCode.invalid_txn_state


class TwoPhaseDesk(Desk):
    """Its operator allows it."""

    def __init__(self, *, is_allowed: bool = True) -> None:
        super().__init__()
        self.coordinator.settings = TransactionSettings(
            two_phase_enable=is_allowed, two_phase_timeout_max_ms=BOUND_MS
        )

    def take(
        self,
        *,
        keeps: bool = False,
        two_phase: bool = True,
        claimed: Producer = NOBODY,
        timeout_ms: int = 0,
    ) -> TransactionAnswer:
        ticket = self._ticket()
        request = Init(timeout_ms=timeout_ms, claimed=claimed, two_phase=two_phase, keeps=keeps)
        self.coordinator.init("t", request, ticket, self.now, self.new_id)
        return self._told(ticket)

    @property
    def record(self) -> TransactionRecord:
        view = self.coordinator.view("t")
        assert view is not None
        return view.record


@pytest.fixture
def desk() -> TwoPhaseDesk:
    return TwoPhaseDesk()


@pytest.fixture
def wrote(desk: TwoPhaseDesk) -> Producer:
    """It prepared a transaction in A, and then was gone."""
    found = desk.take().producer
    assert desk.add(found, A, version=VERSION_2) is OK
    return found


def raised(producer: Producer, by: int = 1) -> Producer:
    return producer._replace(epoch=ProducerEpoch(producer.epoch + by))


@pytest.mark.parametrize("flags", [{"keeps": False}, {"keeps": True, "two_phase": False}])
def test_who_is_not_allowed_is_told_so_and_nothing_begins(flags: dict[str, bool]) -> None:
    desk = TwoPhaseDesk(is_allowed=False)

    assert desk.take(**flags).error is ErrorCode.transactional_id_authorization_failed
    assert desk.coordinator.view("t") is None


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_was_prepared_is_ended_by_the_next_process(
    desk: TwoPhaseDesk, wrote: Producer, is_commit: bool
) -> None:
    kept = desk.take(keeps=True)

    assert kept == TransactionAnswer(OK, raised(wrote), wrote)
    assert (desk.state(), desk.record.partitions) == (TransactionState.ONGOING, {A})
    told = desk.end_and_go_on(kept.producer, is_commit=is_commit)

    assert told == TransactionAnswer(OK, raised(wrote, 2))
    (mark,) = desk.marks
    assert (mark.producer, mark.is_commit) == (raised(wrote), is_commit), "fences who wrote it"
    assert desk.end_and_go_on(kept.producer, is_commit=is_commit) == told, "asked again"
    assert desk.add(told.producer, B, version=VERSION_2) is OK
    assert desk.end_and_go_on(told.producer).producer == raised(wrote, 3)


def test_nothing_to_keep_is_a_beginning(desk: TwoPhaseDesk) -> None:
    first = desk.take(keeps=True)
    second = desk.take(keeps=True)

    assert (first.ongoing, second) == (NOBODY, TransactionAnswer(OK, raised(first.producer)))


def test_who_wrote_it_can_end_it_no_more_and_nobody_writes_to_it(
    desk: TwoPhaseDesk, wrote: Producer
) -> None:
    kept = desk.take(keeps=True).producer

    assert desk.end_and_go_on(wrote).error is FENCED
    assert desk.add(wrote, B, version=VERSION_2) is FENCED
    for version in (VERSION_1, VERSION_2):
        assert desk.add(kept, A, version=version) is WRONG
    assert desk.end(kept) is WRONG, "an end of before, whose markers would not fence who wrote it"
    asked = desk.coordinator.verify("t", kept, [A]), desk.coordinator.verify("t", wrote, [A])
    assert asked == ({A: ErrorCode.transaction_abortable}, {A: FENCED})
    assert desk.end_and_go_on(kept).error is OK


def test_who_asks_again_keeps_it_too_and_is_told_the_same_writer(
    desk: TwoPhaseDesk, wrote: Producer
) -> None:
    """A process that died behind its question; its own epoch is over then."""
    first = desk.take(keeps=True)
    second = desk.take(keeps=True)
    third = desk.take(keeps=True, claimed=second.producer)

    assert {each.ongoing for each in (first, second, third)} == {wrote}
    assert third.producer == raised(wrote, 3)
    assert desk.take(keeps=True, claimed=first.producer).error is FENCED
    assert desk.end_and_go_on(second.producer).error is FENCED
    desk.holds_marks = True
    assert desk.end_and_go_on(third.producer).producer == raised(wrote, 4)
    assert desk.end_and_go_on(third.producer).error is CONCURRENT, "its markers are on their way"


def test_next_coordinator_knows_who_is_to_end_it(desk: TwoPhaseDesk, wrote: Producer) -> None:
    kept = desk.take(keeps=True).producer
    after = TwoPhaseDesk()
    after.next_id = 500
    after.coordinator.load({"t": desk.log[-1][1]}, after.now)  # type: ignore[dict-item]

    assert after.take(keeps=True).ongoing == wrote
    assert after.end_and_go_on(kept).error is FENCED
    assert after.end_and_go_on(raised(kept)).error is OK


def test_it_is_open_as_long_as_the_operator_allows(desk: TwoPhaseDesk, wrote: Producer) -> None:
    kept = desk.take(keeps=True).producer
    desk.now_ms += BOUND_MS
    desk.coordinator.tick(desk.now)
    desk.settle()
    assert desk.state() is TransactionState.ONGOING

    desk.now_ms += 1
    desk.coordinator.tick(desk.now)
    desk.settle()

    assert desk.state() is TransactionState.COMPLETE_ABORT
    assert desk.end_and_go_on(kept).error is FENCED
    assert desk.record.producer.epoch > kept.epoch
    assert desk.take().producer.epoch > desk.marks[-1].producer.epoch


def test_who_does_not_keep_aborts_it(desk: TwoPhaseDesk, wrote: Producer) -> None:
    kept = desk.take(keeps=True).producer

    assert desk.take().error is OK
    assert desk.state() is TransactionState.EMPTY
    assert not desk.marks[-1].is_commit
    assert desk.end_and_go_on(kept).error is FENCED


def test_timeout_of_who_takes_no_part_is_bounded_as_ever(desk: TwoPhaseDesk) -> None:
    asked = desk.coordinator.settings.timeout_max_ms + 1

    refused = desk.take(two_phase=False, timeout_ms=asked)
    assert refused.error is ErrorCode.invalid_transaction_timeout
    assert desk.take(timeout_ms=asked).error is OK
    assert desk.record.timeout_ms == BOUND_MS


@pytest.mark.parametrize("epoch", [EPOCH_LAST - 1, EPOCH_LAST])
def test_used_up_epochs_give_who_ends_it_a_new_id(desk: TwoPhaseDesk, epoch: int) -> None:
    wrote = Producer(ProducerId(7), ProducerEpoch(epoch))
    record = TransactionRecord(
        producer=wrote,
        timeout_ms=BOUND_MS,
        state=TransactionState.ONGOING,
        partitions=frozenset({A}),
        updated_ms=0,
        started_ms=0,
        version=VERSION_2,
    )
    desk.coordinator.load({"t": record}, desk.now)

    kept = [desk.take(keeps=True) for _ in range(3)]
    assert {each.ongoing for each in kept} == {wrote}
    told = desk.end_and_go_on(kept[-1].producer)

    assert told.error is OK
    (mark,) = desk.marks
    assert mark.producer == raised(wrote)
    assert told.producer.producer_id not in (7, NOBODY.producer_id)
    assert desk.record.producer == told.producer
    assert desk.end_and_go_on(kept[-1].producer) == told
    assert desk.add(told.producer, B, version=VERSION_2) is OK


def test_kept_is_only_what_is_open() -> None:
    record = TransactionRecord(
        producer=Producer(ProducerId(1), ProducerEpoch(3)),
        timeout_ms=1,
        state=TransactionState.ONGOING,
        updated_ms=0,
        next_id=ProducerId(1),
        next_epoch=ProducerEpoch(4),
    )

    assert record.is_kept
    assert not replace(record, state=TransactionState.PREPARE_COMMIT).is_kept
    assert Transaction("t", record).unmarked == frozenset()

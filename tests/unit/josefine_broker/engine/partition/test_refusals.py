"""Batches behind a refused one: no gap of the producer's, so no error that says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import SEQUENCE_MAX
from josefine_broker.engine.partition.refusals import (
    HELD_BACK_MAX,
    PARTITIONS_MAX,
    PRODUCERS_MAX,
    EarlyRefusals,
    Refusals,
)
from tests.unit.josefine_broker.engine.partition.test_partition import entry, opened
from tests.unit.josefine_broker.engine.partition.test_producers import batch

NOT_LEADER = ErrorCode.not_leader_or_follower
OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number


def asked(partition: Partition, sequence: int, *, epoch: int = 0, acks: int = -1) -> ErrorCode:
    """What a batch of one record is told; it is appended when that is nothing."""
    header = batch(sequence, epoch=epoch)
    try:
        if partition.check_append(header, acks) is None:
            partition.appended(header, 100 + sequence, 0)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def lead(partition: Partition, isr: tuple[int, ...] = (1, 2)) -> None:
    partition.lead(entry(partition.leader_epoch + 1, isr), 0, 0)


def test_batch_behind_one_that_met_no_leader_yet_waits_for_it() -> None:
    partition = opened()
    assert asked(partition, 0) is NOT_LEADER
    lead(partition)

    assert asked(partition, 1) is NOT_LEADER  # though nothing is known of the producer
    assert asked(partition, 2) is NOT_LEADER
    assert [asked(partition, n) for n in (0, 1, 2)] == [ErrorCode.none] * 3
    assert not partition.refusals


def test_batch_behind_one_that_met_too_few_replicas_waits_for_it() -> None:
    partition = opened()
    lead(partition, isr=(1,))
    assert asked(partition, 0) is ErrorCode.none
    partition.min_insync_replicas = 2
    assert asked(partition, 1) is ErrorCode.not_enough_replicas
    partition.min_insync_replicas = 1

    assert asked(partition, 2) is ErrorCode.not_enough_replicas
    assert [asked(partition, n) for n in (1, 2)] == [ErrorCode.none] * 2


def test_the_earliest_refused_batch_is_the_one_that_is_waited_for() -> None:
    partition = opened()
    for sequence in (3, 4, 2):
        assert asked(partition, sequence) is NOT_LEADER
    lead(partition)

    assert asked(partition, 3) is NOT_LEADER
    assert [asked(partition, n) for n in (2, 3, 4)] == [ErrorCode.none] * 3


def test_refused_batch_that_came_by_replication_holds_nothing_back() -> None:
    partition = opened()
    assert asked(partition, 1) is NOT_LEADER
    for sequence in range(8):
        partition.producers.record(batch(sequence), 100 + sequence, 0)
    lead(partition)

    assert asked(partition, 7) is ErrorCode.none  # a duplicate
    assert asked(partition, 8) is ErrorCode.none


def test_batch_refused_behind_one_that_is_here_already_is_waited_for() -> None:
    partition = opened()
    for sequence in (0, 1):  # stored before; the answers were lost, so they come again
        partition.producers.record(batch(sequence), 100 + sequence, 0)
    for sequence in (0, 1, 2, 3):
        assert asked(partition, sequence) is NOT_LEADER
    lead(partition)

    assert asked(partition, 4) is NOT_LEADER
    assert [asked(partition, n) for n in range(5)] == [ErrorCode.none] * 5
    assert not partition.refusals


def test_batch_held_back_is_waited_for_when_the_refused_one_came_by_replication() -> None:
    partition = opened()
    assert asked(partition, 0) is NOT_LEADER
    lead(partition)
    assert asked(partition, 1) is NOT_LEADER
    partition.producers.record(batch(0), 100, 0)

    assert asked(partition, 2) is NOT_LEADER
    assert [asked(partition, n) for n in range(3)] == [ErrorCode.none] * 3


def test_gap_behind_refused_batches_that_are_all_here_is_out_of_order() -> None:
    """Nothing that was refused is missing: the producer skipped one."""
    partition = opened()
    assert asked(partition, 1) is NOT_LEADER
    for sequence in range(3):
        partition.copied(batch(sequence)._replace(base_offset=sequence, leader_epoch=0), b"", 0)
    partition.lead(entry(1, (1, 2)), 3, 0)

    assert asked(partition, 4) is OUT_OF_ORDER
    assert not partition.refusals


def test_gap_that_no_refusal_explains_is_out_of_order() -> None:
    partition = opened()
    assert asked(partition, 1) is NOT_LEADER
    lead(partition)
    partition.producers.record(batch(0), 100, 0)
    assert asked(partition, 1) is ErrorCode.none

    assert asked(partition, 3) is OUT_OF_ORDER


def test_earlier_batch_than_the_refused_one_is_judged_by_its_sequence() -> None:
    partition = opened()
    partition.producers.record(batch(0), 100, 0)
    assert asked(partition, 1) is NOT_LEADER
    lead(partition)

    assert asked(partition, 0) is ErrorCode.none
    assert asked(partition, 2) is NOT_LEADER


def test_new_epoch_of_the_producer_owes_nothing() -> None:
    partition = opened()
    assert asked(partition, 5) is NOT_LEADER
    lead(partition)

    assert asked(partition, 0, epoch=1) is ErrorCode.none
    assert not partition.refusals


def test_producer_that_goes_on_without_the_refused_batch_is_told_of_the_gap_in_the_end() -> None:
    partition = opened()
    partition.producers.record(batch(0), 100, 0)
    assert asked(partition, 1) is NOT_LEADER
    lead(partition)

    answers = [asked(partition, 2) for _ in range(HELD_BACK_MAX + 1)]

    assert answers == [NOT_LEADER] * HELD_BACK_MAX + [OUT_OF_ORDER]


def test_each_batch_that_was_refused_is_waited_for_not_the_first_alone() -> None:
    """The first comes again over a new connection, one behind both over the old one."""
    partition = opened()
    lead(partition, isr=(1,))
    partition.min_insync_replicas = 2
    assert [asked(partition, n) for n in (0, 1)] == [ErrorCode.not_enough_replicas] * 2
    partition.min_insync_replicas = 1

    assert asked(partition, 0) is ErrorCode.none
    assert asked(partition, 2) is ErrorCode.not_enough_replicas
    assert [asked(partition, n) for n in (1, 2)] == [ErrorCode.none] * 2
    assert not partition.refusals


def test_producer_that_goes_on_without_the_refused_batch_stays_in_order() -> None:
    """An unclean election took what was confirmed to it; the one held back last is not first."""
    partition = opened()
    assert asked(partition, 0) is NOT_LEADER
    lead(partition)

    sent = [7 + n % 5 for n in range(HELD_BACK_MAX)]
    assert {asked(partition, n) for n in sent} == {NOT_LEADER}
    assert [asked(partition, n) for n in (8, 7, 8)] == [NOT_LEADER, ErrorCode.none, ErrorCode.none]


@pytest.mark.parametrize("known", [0, 1], ids=["nothing is left of it", "one batch is left"])
def test_batch_behind_one_that_was_cut_away_waits_for_it(known: int) -> None:
    """It was on its way to this leader, which was a follower for a moment, and leads again."""
    partition = opened()
    lead(partition)
    assert [asked(partition, n) for n in range(known + 1)] == [ErrorCode.none] * (known + 1)
    partition.follow(entry(partition.leader_epoch + 1), 101)
    partition.truncated(100 + known)
    partition.producers.clear()  # and read from the log again
    for n in range(known):
        partition.producers.record(batch(n), 100 + n, 0)
    lead(partition)

    assert asked(partition, known + 1) is NOT_LEADER
    assert [asked(partition, known + n) for n in (0, 1)] == [ErrorCode.none] * 2
    assert not partition.refusals


def test_batch_behind_a_confirmed_one_that_an_unclean_election_took_is_told_of_the_gap() -> None:
    """Its producer has the confirmation: what was confirmed does not come again."""
    partition = opened()
    lead(partition)
    assert [asked(partition, n) for n in (0, 1)] == [ErrorCode.none] * 2
    partition.follow_high_watermark(102, 102)
    partition.follow(entry(partition.leader_epoch + 1), 102)
    partition.truncated(101)
    partition.producers.clear()
    partition.producers.record(batch(0), 100, 0)
    lead(partition)

    assert asked(partition, 2) is OUT_OF_ORDER


def test_plain_producers_are_not_held_back() -> None:
    refusals = Refusals()

    refusals.note(batch(-1, producer_id=-1), NOT_LEADER)

    assert not refusals


def test_refused_producers_are_bounded() -> None:
    refusals = Refusals()
    for producer_id in range(PRODUCERS_MAX + 10):
        refusals.note(batch(0, producer_id=producer_id), NOT_LEADER)

    assert len(refusals) == PRODUCERS_MAX
    assert refusals.holding_back(batch(1, producer_id=9), None) is None
    assert refusals.holding_back(batch(1, producer_id=10), None) is NOT_LEADER


def test_partitions_that_are_not_here_are_bounded() -> None:
    early = EarlyRefusals()
    for partition in range(PARTITIONS_MAX + 1):
        early.note("orders", partition, batch(0))

    assert not early.take("orders", 0)
    assert early.take("orders", 1)
    assert not early.take("orders", 1)  # taken once


@pytest.mark.parametrize("first", [SEQUENCE_MAX - 1, SEQUENCE_MAX])
def test_sequences_wrap(first: int) -> None:
    partition = opened()
    assert asked(partition, first) is NOT_LEADER
    lead(partition)

    assert asked(partition, first - SEQUENCE_MAX + 1) is NOT_LEADER
    assert asked(partition, first) is ErrorCode.none


ROLES = st.lists(st.sampled_from(["lead", "follow", None]), min_size=5, max_size=5)


@given(st.lists(st.tuples(ROLES, st.booleans())))
def test_pipelining_producer_that_repeats_in_order_is_never_out_of_order(
    rounds: list[tuple[list[str | None], bool]],
) -> None:
    """Five batches a round; the leadership comes and goes between any two of them, and the
    connection may be gone before the answers, so that all five come again."""
    partition = opened()
    stored: list[int] = []
    acknowledged = 0
    for events, are_answers_lost in rounds:
        answers = []
        for sequence, event in enumerate(events, acknowledged):
            if event == "lead":
                lead(partition)
            elif event == "follow":
                partition.follow(entry(partition.leader_epoch + 1), 0)
            answers.append(asked(partition, sequence, acks=1))
            if answers[-1] is ErrorCode.none and sequence not in stored:
                stored.append(sequence)
        assert set(answers) <= {ErrorCode.none, NOT_LEADER}
        assert stored == list(range(len(stored)))
        if not are_answers_lost:
            acknowledged = len(stored)

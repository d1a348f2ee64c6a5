"""The sequence rules of idempotent producers (KIP-98, KIP-360, KIP-854)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.partition.producers import (
    EXPIRATION_MS,
    REMEMBERED_BATCHES,
    SEQUENCE_MAX,
    ProducerState,
)
from josefine_broker.records.batch import CONTROL_BIT, BatchHeader

NOW_MS = 1_000


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return BatchHeader(
        0, 49, -1, 2, 0, 0, count - 1, NOW_MS, NOW_MS, producer_id, epoch, sequence, count
    )


def store(state: ProducerState, header: BatchHeader, offset: int) -> None:
    assert state.check(header) is None
    state.record(header, offset, NOW_MS)


def code_of(state: ProducerState, header: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        state.check(header)
    return raised.value.code


def test_unknown_producer_may_start_at_any_sequence() -> None:
    """KIP-360: UNKNOWN_PRODUCER_ID is never sent."""
    assert ProducerState().check(batch(41)) is None


def test_next_sequence_is_accepted() -> None:
    state = ProducerState()
    store(state, batch(0, 3), 0)

    assert state.check(batch(3)) is None


@pytest.mark.parametrize("sequence", [1, 2, 4, 100])
def test_gap_or_overlap_is_out_of_order(sequence: int) -> None:
    state = ProducerState()
    store(state, batch(0, 3), 0)

    assert code_of(state, batch(sequence)) is ErrorCode.out_of_order_sequence_number


def test_each_of_the_last_five_batches_is_a_duplicate_at_its_offset() -> None:
    """Checklist row 24."""
    state = ProducerState()
    for n in range(7):
        store(state, batch(2 * n, 2), 100 + 2 * n)

    for n in range(2, 7):
        mark = state.check(batch(2 * n, 2))
        assert mark is not None
        assert mark.base_offset == 100 + 2 * n
    assert code_of(state, batch(2, 2)) is ErrorCode.out_of_order_sequence_number


def test_same_first_sequence_with_another_length_is_no_duplicate() -> None:
    state = ProducerState()
    store(state, batch(0, 3), 0)

    assert code_of(state, batch(0, 2)) is ErrorCode.out_of_order_sequence_number


def test_older_epoch_is_fenced() -> None:
    state = ProducerState()
    store(state, batch(0, epoch=3), 0)

    assert code_of(state, batch(0, epoch=2)) is ErrorCode.invalid_producer_epoch


def test_newer_epoch_starts_at_zero() -> None:
    state = ProducerState()
    store(state, batch(0, 5, epoch=0), 0)

    assert code_of(state, batch(5, epoch=1)) is ErrorCode.out_of_order_sequence_number
    store(state, batch(0, epoch=1), 5)
    assert state.check(batch(1, epoch=1)) is None


def test_duplicate_of_an_older_epoch_is_fenced_not_answered() -> None:
    state = ProducerState()
    store(state, batch(0, epoch=0), 0)
    store(state, batch(0, epoch=1), 1)

    assert code_of(state, batch(0, epoch=0)) is ErrorCode.invalid_producer_epoch


def test_batch_of_an_older_epoch_does_not_make_a_newer_one_a_duplicate() -> None:
    state = ProducerState()
    for sequence in range(3):
        store(state, batch(sequence, epoch=0), sequence)
    store(state, batch(0, epoch=1), 3)

    assert code_of(state, batch(2, epoch=1)) is ErrorCode.out_of_order_sequence_number


def test_sequence_wraps_after_two_to_the_31_minus_one() -> None:
    state = ProducerState()
    store(state, batch(SEQUENCE_MAX - 1, 2), 0)

    store(state, batch(0), 2)

    assert state.check(batch(1)) is None


def test_batch_may_span_the_wrap() -> None:
    state = ProducerState()
    spanning = batch(SEQUENCE_MAX, 3)
    store(state, spanning, 0)

    assert state.check(batch(2)) is None
    mark = state.check(spanning)
    assert mark is not None
    assert (mark.first_sequence, mark.last_sequence) == (SEQUENCE_MAX, 1)


def test_silent_producer_is_forgotten_after_a_day() -> None:
    state = ProducerState()
    store(state, batch(0), 0)

    assert state.expire(NOW_MS + EXPIRATION_MS - 1) == 0
    assert state.expire(NOW_MS + EXPIRATION_MS) == 1
    assert state.check(batch(9)) is None


def test_control_batch_and_batch_without_producer_leave_no_trace() -> None:
    state = ProducerState()

    state.record(batch(0)._replace(attributes=CONTROL_BIT), 0, NOW_MS)
    state.record(batch(-1, producer_id=-1), 1, NOW_MS)

    assert len(state) == 0


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # producer
        st.sampled_from(["next", "next", "next", "retry", "gap", "bump"]),
        st.integers(1, 4),  # records
        st.integers(0, 7),  # how far back a retry goes
    ),
    max_size=60,
)


@given(steps, st.sampled_from([0, SEQUENCE_MAX - 6]))
def test_state_agrees_with_a_list_of_all_accepted_batches(
    script: list[tuple[int, str, int, int]], first_sequence: int
) -> None:
    """Checklist row 24. The model keeps every batch; the state keeps five per producer."""
    state = ProducerState()
    accepted: dict[int, list[tuple[BatchHeader, int]]] = {}
    end_offset = 0
    for producer_id, action, count, back in script:
        history = accepted.setdefault(producer_id, [])
        header = _scripted(history, producer_id, action, count, back, first_sequence)
        kept = history[-REMEMBERED_BATCHES:]
        epoch = history[-1][0].producer_epoch if history else 0
        same = [offset for each, offset in kept if each == header and each.producer_epoch == epoch]
        if same:
            mark = state.check(header)
            assert mark is not None
            assert mark.base_offset in same
        elif action in ("next", "bump") or not history:
            assert state.check(header) is None
            state.record(header, end_offset, NOW_MS)
            history.append((header, end_offset))
            end_offset += count
        else:
            with pytest.raises(KafkaError):
                state.check(header)
        restored = ProducerState()
        restored.restore(state.snapshot())
        assert restored.snapshot() == state.snapshot()


def _scripted(
    history: list[tuple[BatchHeader, int]],
    producer_id: int,
    action: str,
    count: int,
    back: int,
    first_sequence: int,
) -> BatchHeader:
    if not history:
        return batch(first_sequence, count, producer_id=producer_id)
    last = history[-1][0]
    after = (last.last_sequence + 1) & SEQUENCE_MAX
    match action:
        case "next":
            return batch(after, count, epoch=last.producer_epoch, producer_id=producer_id)
        case "gap":
            sequence = (after + 1 + back) & SEQUENCE_MAX
            return batch(sequence, 9, epoch=last.producer_epoch, producer_id=producer_id)
        case "bump":
            return batch(0, count, epoch=last.producer_epoch + 1, producer_id=producer_id)
        case _:
            return history[max(0, len(history) - 1 - back)][0]


@pytest.mark.parametrize("cut", [1, 5, 7, 20, 30])
def test_cut_snapshot_is_corrupt(cut: int) -> None:
    state = ProducerState()
    store(state, batch(0), 0)

    with pytest.raises(CorruptData):
        ProducerState().restore(state.snapshot()[:-cut])


def test_snapshot_of_a_newer_version_is_refused_and_changes_nothing() -> None:
    state = ProducerState()
    store(state, batch(0), 0)

    with pytest.raises(CorruptData, match="version 3"):
        state.restore(b"\x00\x03" + state.snapshot()[2:])

    assert len(state) == 1

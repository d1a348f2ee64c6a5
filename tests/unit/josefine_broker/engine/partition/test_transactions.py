"""Open, ended and aborted transactions of a partition against a list of all that was written."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.partition.producers import (
    EXPIRATION_MS,
    PLAIN_VERSION,
    SNAPSHOT_VERSION,
    ProducerState,
)
from josefine_broker.engine.partition.transactions import AbortedRange, Transactions
from josefine_broker.records.batch import BatchHeader, parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.control import Marker, build_marker

NOW_MS = 1_000


class Written(NamedTuple):
    """A batch of the log, by its bytes."""

    header: BatchHeader
    batch: bytes


class Log:
    """All that was written, and what a partition makes of it."""

    def __init__(self) -> None:
        self.batches: list[Written] = []
        self.state = ProducerState()
        self.sequences: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].header.end_offset if self.batches else 0

    def data(self, producer_id: int, count: int = 1, *, transactional: bool = True) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        records = [Record(b"k", b"v")] * count
        self._add(
            build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=transactional,
            )
        )

    def marker(self, producer_id: int, *, is_commit: bool) -> None:
        self._add(build_marker(producer_id, 0, Marker(is_commit, 0), NOW_MS))

    def _add(self, batch: bytearray) -> None:
        stamp(batch, 0, self.end, 0)
        written = Written(parse_header(batch), bytes(batch))
        if not written.header.is_control:
            assert self.state.check(written.header) is None
        self.batches.append(written)
        self.state.take(*written, NOW_MS)

    def replayed(self, end: int, snapshot: tuple[int, bytes] | None = None) -> ProducerState:
        """As recovery, or a truncation, makes it."""
        state, begin = ProducerState(), 0
        if snapshot is not None:
            begin = snapshot[0]
            state.restore(snapshot[1])
        for header, batch in self.batches:
            if begin <= header.base_offset < end:
                state.take(header, batch, NOW_MS)
        return state


class Naive:
    """The same questions, answered by reading all of the log."""

    def __init__(self, batches: list[Written]) -> None:
        self.ranges: list[tuple[int, int, int | None, bool]] = []
        """(producer, first offset, marker or None, whether committed)."""
        firsts: dict[int, int] = {}
        for header, batch in batches:
            producer_id = header.producer_id
            if header.is_control:
                if producer_id in firsts:
                    is_commit = batch[61 + 8] == 1
                    first = firsts.pop(producer_id)
                    self.ranges.append((producer_id, first, header.base_offset, is_commit))
            elif header.is_transactional:
                firsts.setdefault(producer_id, header.base_offset)
        self.ranges += [(pid, first, None, False) for pid, first in firsts.items()]

    def stable_end(self, high_watermark: int) -> int:
        unsettled = [
            first
            for _, first, marker, _ in self.ranges
            if marker is None or marker >= high_watermark
        ]
        return min([high_watermark, *unsettled])

    def aborted(self, begin: int, end: int) -> set[AbortedRange]:
        return {
            AbortedRange(pid, first, marker)
            for pid, first, marker, is_commit in self.ranges
            if marker is not None and not is_commit and marker >= begin and first < end
        }


scripts = st.lists(
    st.tuples(
        st.integers(0, 3),  # producer
        st.sampled_from(["data", "data", "plain", "commit", "abort", "commit", "abort"]),
        st.integers(1, 3),  # records
    ),
    max_size=40,
)


def written(script: list[tuple[int, str, int]]) -> Log:
    log = Log()
    for producer_id, action, count in script:
        if action == "data":
            log.data(producer_id, count)
        elif action == "plain":
            log.data(100 + producer_id, count, transactional=False)
        else:
            log.marker(producer_id, is_commit=action == "commit")
    return log


@given(scripts, st.data())
def test_stable_end_and_aborted_are_those_of_the_whole_log(
    script: list[tuple[int, str, int]], data: st.DataObject
) -> None:
    """Checklist row 24."""
    log = written(script)
    naive = Naive(log.batches)
    watermarks = sorted(data.draw(st.lists(st.integers(0, log.end), max_size=4)))
    begin = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(begin, log.end))

    transactions = log.state.transactions
    assert set(transactions.aborted_between(begin, end)) == naive.aborted(begin, end)
    stable = []
    for watermark in watermarks:
        stable.append(transactions.stable_end(watermark))
        transactions.committed(watermark)
        assert transactions.stable_end(watermark) == stable[-1]
    assert stable == [naive.stable_end(each) for each in watermarks]
    assert stable == sorted(stable), "the last stable offset fell"
    transactions.committed(log.end)
    assert transactions.are_settled is (naive.stable_end(log.end) == log.end)


@given(scripts, st.data())
def test_recovery_and_truncation_make_the_same_state_anew(
    script: list[tuple[int, str, int]], data: st.DataObject
) -> None:
    """A partition that is cut below a marker has the transaction open again."""
    log = written(script)
    ends = [0, *(each.header.end_offset for each in log.batches)]
    at = data.draw(st.sampled_from(ends))
    cut = data.draw(st.sampled_from([each for each in ends if each >= at]))
    whole = log.replayed(cut)

    again = log.replayed(cut, (at, log.replayed(at).snapshot()))

    assert again.snapshot() == whole.snapshot()
    naive = Naive([each for each in log.batches if each.header.base_offset < cut])
    assert again.transactions.stable_end(cut) == naive.stable_end(cut)
    if not log.state.reaches(cut):
        # Nothing is made anew then: what is known must be what the shorter log says.
        assert log.state.snapshot() == whole.snapshot()


@given(scripts, st.integers(0, 60))
def test_what_is_behind_the_log_start_is_still_known(
    script: list[tuple[int, str, int]], log_start: int
) -> None:
    log = written(script)
    naive = Naive(log.batches)

    log.state.transactions.forget_before(log_start)

    found = set(log.state.transactions.aborted_between(log_start, log.end))
    assert found == naive.aborted(log_start, log.end)


def code_of(call: object, *args: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(KafkaError) as raised:
        call(*args)
    return raised.value.code


def test_producer_writes_nothing_outside_of_its_open_transaction() -> None:
    log = Log()
    log.data(1)
    plain = build_batch([Record()], producer_id=1, producer_epoch=0, base_sequence=1)

    assert code_of(log.state.check, parse_header(plain)) is ErrorCode.invalid_txn_state

    log.marker(1, is_commit=True)
    assert log.state.check(parse_header(plain)) is None


def test_marker_of_a_newer_epoch_fences_the_producer_and_begins_at_sequence_zero() -> None:
    """KIP-360: how a coordinator ends the transaction of one that is gone."""
    log = Log()
    log.data(1)
    log._add(build_marker(1, 1, Marker(False, 0), NOW_MS))

    late = build_batch([Record()], producer_id=1, producer_epoch=0, base_sequence=1)
    gap = build_batch([Record()], producer_id=1, producer_epoch=1, base_sequence=1)
    first = build_batch([Record()], producer_id=1, producer_epoch=1, base_sequence=0)
    assert code_of(log.state.check, parse_header(late)) is ErrorCode.invalid_producer_epoch
    assert code_of(log.state.check, parse_header(gap)) is ErrorCode.out_of_order_sequence_number
    assert log.state.check(parse_header(first)) is None
    restored = ProducerState()
    restored.restore(log.state.snapshot())
    assert code_of(restored.check, parse_header(late)) is ErrorCode.invalid_producer_epoch


def test_marker_of_an_older_producer_or_coordinator_is_fenced() -> None:
    log = Log()
    log._add(build_marker(1, 4, Marker(True, 9), NOW_MS))

    check = log.state.check_marker
    assert code_of(check, 1, 3, 9) is ErrorCode.invalid_producer_epoch
    assert code_of(check, 1, 4, 8) is ErrorCode.transaction_coordinator_fenced
    check(1, 4, 9)
    check(1, 5, 9)
    check(2, 0, 0)
    again = log.replayed(log.end, (log.end, log.state.snapshot()))
    assert code_of(again.check_marker, 1, 4, 8) is ErrorCode.transaction_coordinator_fenced


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    """Else the next one of its batches could begin anywhere, and its marker would end nothing."""
    log = Log()
    log.data(1)

    assert log.state.expire(NOW_MS + EXPIRATION_MS) == 0

    log.marker(1, is_commit=False)
    assert log.state.expire(NOW_MS + EXPIRATION_MS) == 1


def test_snapshot_without_a_transaction_is_read_by_brokers_of_before() -> None:
    log = Log()
    log.data(1, transactional=False)
    assert log.state.snapshot()[:2] == PLAIN_VERSION.to_bytes(2)

    log.data(2)
    assert log.state.snapshot()[:2] == SNAPSHOT_VERSION.to_bytes(2)


@pytest.mark.parametrize("cut", [1, 8, 24, 40])
def test_cut_snapshot_of_transactions_is_corrupt_and_changes_nothing(cut: int) -> None:
    log = Log()
    log.data(1)
    log.marker(1, is_commit=False)
    log.data(2)
    before = log.state.snapshot()

    with pytest.raises(CorruptData):
        log.state.restore(before[:-cut])

    assert log.state.snapshot() == before


def test_marker_written_twice_ends_nothing_the_second_time() -> None:
    log = Log()
    log.data(1)
    log.marker(1, is_commit=False)
    log.marker(1, is_commit=False)

    assert log.state.transactions.aborted_between(0, log.end) == [AbortedRange(1, 0, 1)]
    assert log.state.transactions.stable_end(log.end) == log.end


def test_nothing_is_known_of_a_log_begun_anew() -> None:
    transactions = Transactions()
    transactions.begin(1, 0, NOW_MS)
    transactions.end(1, 1, is_commit=False)

    transactions.clear()

    assert transactions.is_empty

"""How much a batch takes: within limits, all in the end, nobody starved; and which task what."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_spark.read.admission import (
    Admission,
    OffsetRange,
    limit_bytes,
    share_out,
    split_ranges,
)

PARTITIONS = [TopicPartition("t", number) for number in range(6)]
BACKLOGS = st.dictionaries(
    st.sampled_from(PARTITIONS), st.integers(min_value=0, max_value=10**7), min_size=1
)
T0, T1 = PARTITIONS[:2]


@settings(deadline=None)
@given(backlog=BACKLOGS, limit=st.integers(min_value=1, max_value=10**7))
def test_shares_add_up_to_the_limit_and_pass_no_backlog(
    backlog: dict[TopicPartition, int], limit: int
) -> None:
    shares = share_out(limit, backlog, dict.fromkeys(backlog, 0))

    assert sum(shares.values()) == min(limit, sum(backlog.values()))
    assert all(0 <= shares[tp] <= backlog[tp] for tp in backlog)


@settings(deadline=None)
@given(backlog=BACKLOGS, limit=st.integers(min_value=6, max_value=10**7))
def test_every_partition_with_records_gets_one_when_the_limit_allows(
    backlog: dict[TopicPartition, int], limit: int
) -> None:
    shares = share_out(limit, backlog, dict.fromkeys(backlog, 0))

    assert all(shares[tp] >= 1 for tp in backlog if backlog[tp])


def test_shares_are_in_proportion_to_the_backlog() -> None:
    shares = share_out(1_000, {T0: 9_000, T1: 1_000}, {T0: 0, T1: 0})

    assert abs(shares[T0] - 900) <= 2
    assert abs(shares[T1] - 100) <= 2


@settings(deadline=None)
@given(limit=st.integers(min_value=1, max_value=5))
def test_no_partition_waits_for_ever_under_a_limit_below_their_number(limit: int) -> None:
    positions = dict.fromkeys(PARTITIONS, 0)
    served = set()

    for _ in range(3 * len(PARTITIONS)):
        # New records keep coming everywhere: no partition is ever drained.
        shares = share_out(limit, dict.fromkeys(PARTITIONS, 1_000_000), positions)
        positions = {tp: positions[tp] + shares[tp] for tp in PARTITIONS}
        served |= {tp for tp in PARTITIONS if shares[tp]}

    assert served == set(PARTITIONS)


@settings(deadline=None)
@given(latest=BACKLOGS, limit=st.integers(min_value=1, max_value=10**6))
def test_batches_never_exceed_the_limit_and_cover_everything(
    latest: dict[TopicPartition, int], limit: int
) -> None:
    limit = max(limit, -(-sum(latest.values()) // 50))
    admission = Admission(offsets_max=limit)
    position = dict.fromkeys(latest, 0)

    for _ in range(60):
        ends = admission.admit(position, latest, 0, offsets_max=limit)
        assert sum(ends[tp] - position[tp] for tp in ends) <= limit
        position = ends

    assert position == latest


@settings(deadline=None)
@given(
    frozen=BACKLOGS,
    growth=st.integers(min_value=0, max_value=1000),
    limit=st.none() | st.integers(min_value=1000, max_value=10**7),
)
def test_available_now_ends_exactly_at_what_was_there_at_its_start(
    frozen: dict[TopicPartition, int], growth: int, limit: int | None
) -> None:
    admission = Admission()
    admission.freeze(frozen)
    position = dict.fromkeys(frozen, 0)
    found_later = TopicPartition("later", 0)
    batches = 0

    while True:
        latest = {tp: end + growth * batches for tp, end in frozen.items()} | {found_later: 50}
        start = position | {found_later: 0}
        ends = admission.admit(start, latest, 0, offsets_max=limit)
        if ends == position:
            break
        position, batches = ends, batches + 1

    assert position == frozen


def test_available_now_stays_where_it_is_when_the_checkpoint_is_past_its_target() -> None:
    admission = Admission()
    admission.freeze({T0: 10})

    assert admission.admit({T0: 12}, {T0: 20}, 0, offsets_max=None) == {T0: 12}


def test_an_end_is_never_below_its_start() -> None:
    assert Admission().admit({T0: 12}, {T0: 5}, 0, offsets_max=None) == {T0: 12}


def test_min_offsets_wait_for_enough_records_but_not_longer_than_the_delay() -> None:
    """Behind the first look, which waits for nothing."""
    admission = Admission(offsets_min=10, delay_ms_max=1_000)

    def admitted(end: int, now_ms: int) -> int:
        return admission.admit({T0: 0}, {T0: end}, now_ms, offsets_max=None)[T0]

    assert admitted(9, 0) == 9
    assert admitted(9, 5) == 0
    assert admitted(10, 10) == 10
    assert admitted(9, 20) == 0
    assert admitted(9, 1_009) == 0
    assert admitted(9, 1_010) == 9
    assert admitted(9, 1_011) == 0


def test_the_delay_of_min_offsets_begins_anew_where_nothing_was_there() -> None:
    """As in Spark's Kafka source, whose clock is that of its looks."""
    admission = Admission(offsets_min=10, delay_ms_max=1_000)
    for now_ms in (0, 999, 1_000):
        assert admission.admit({T0: 0}, {T0: 0}, now_ms, offsets_max=None) == {T0: 0}

    assert admission.admit({T0: 0}, {T0: 9}, 1_001, offsets_max=None) == {T0: 0}
    assert admission.admit({T0: 0}, {T0: 9}, 2_000, offsets_max=None) == {T0: 9}


def test_min_offsets_do_not_hold_back_an_available_now_run() -> None:
    admission = Admission(offsets_min=10, delay_ms_max=10**9)
    admission.freeze({T0: 3})

    assert admission.admit({T0: 0}, {T0: 3}, 0, offsets_max=2) == {T0: 2}
    assert admission.admit({T0: 2}, {T0: 3}, 1, offsets_max=2) == {T0: 3}


def ranges(sizes: list[int]) -> list[OffsetRange]:
    return [
        OffsetRange(partition=TopicPartition("t", n), topic_id="id", start=7, end=7 + size)
        for n, size in enumerate(sizes)
    ]


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(min_value=0, max_value=1000), max_size=5),
    partitions_min=st.none() | st.integers(min_value=1, max_value=20),
    records_max=st.none() | st.integers(min_value=1, max_value=300),
)
def test_split_ranges_cover_each_offset_once(
    sizes: list[int], partitions_min: int | None, records_max: int | None
) -> None:
    pieces = split_ranges(ranges(sizes), partitions_min=partitions_min, records_max=records_max)

    covered = [(p.partition.partition, n) for p in pieces for n in range(p.start, p.end)]
    assert covered == [(n, 7 + i) for n, size in enumerate(sizes) for i in range(size)]
    assert all(piece.size > 0 for piece in pieces)
    if records_max is not None:
        assert all(piece.size <= records_max for piece in pieces)


def test_large_partitions_are_split_to_reach_min_partitions() -> None:
    pieces = split_ranges(ranges([900, 100]), partitions_min=10)

    assert [piece.size for piece in pieces] == [100] * 10


def test_ranges_are_left_whole_when_there_are_enough() -> None:
    assert split_ranges(ranges([5, 0, 6]), partitions_min=2) == [
        ranges([5])[0],
        ranges([0, 0, 6])[2],
    ]


SIZES = st.floats(min_value=0.5, max_value=10**6)


@settings(deadline=None)
@given(backlog=BACKLOGS, bytes_max=st.integers(1, 10**9), sizes=st.lists(SIZES, min_size=6))
def test_a_byte_limit_is_kept_but_for_the_first_record_and_always_lets_one_pass(
    backlog: dict[TopicPartition, int], bytes_max: int, sizes: list[float]
) -> None:
    each = dict(zip(PARTITIONS, sizes, strict=False))
    begins = dict.fromkeys(backlog, 3)
    ends = {tp: 3 + count for tp, count in backlog.items()}

    limited = limit_bytes(bytes_max, begins, ends, each)

    assert limited.keys() == ends.keys()
    assert all(3 <= limited[tp] <= ends[tp] for tp in ends)
    taken = {tp: limited[tp] - 3 for tp in ends}
    assert any(taken.values()) == any(backlog.values())
    size = sum(count * each[tp] for tp, count in taken.items())
    assert size <= bytes_max * 1.000001 or sum(taken.values()) == 1


def test_bytes_are_shared_in_proportion_to_those_that_wait() -> None:
    ends = limit_bytes(1_000_000, {T0: 0, T1: 0}, {T0: 9_000, T1: 90}, {T0: 1_000.0, T1: 1e5})

    assert abs(ends[T0] - 500) <= 60
    assert abs(ends[T1] - 5) <= 1


def test_no_partition_waits_for_ever_under_a_byte_limit_below_one_record() -> None:
    position = dict.fromkeys(PARTITIONS, 0)
    served = set()

    for _ in range(3 * len(PARTITIONS)):
        ends = {tp: at + 1_000 for tp, at in position.items()}
        after = limit_bytes(1, position, ends, dict.fromkeys(PARTITIONS, 100.0))
        served |= {tp for tp in PARTITIONS if after[tp] > position[tp]}
        position = after

    assert served == set(PARTITIONS)


def test_small_partitions_are_served_beside_a_very_large_one() -> None:
    ends = limit_bytes(10_000, {T0: 0, T1: 0}, {T0: 10**9, T1: 1}, {T0: 100.0, T1: 100.0})

    assert ends[T1] == 1
    assert 90 <= ends[T0] <= 99


def test_a_run_that_stops_at_offsets_reads_up_to_them_and_nothing_that_they_do_not_name() -> None:
    admission = Admission()
    latest = {T0: 9, T1: 4, PARTITIONS[2]: 7}
    admission.freeze(latest, {T0: 5, T1: 6})

    assert admission.target == {T0: 5, T1: 4}
    more = {tp: end + 10 for tp, end in latest.items()}
    assert admission.admit(dict.fromkeys(latest, 0), more, 0, offsets_max=None) == {T0: 5, T1: 4}


def test_a_run_that_is_beyond_its_stop_reads_nothing_and_does_not_go_back() -> None:
    admission = Admission()
    admission.freeze({T0: 9}, {T0: 5})

    assert admission.admit({T0: 7}, {T0: 9}, 0, offsets_max=None) == {T0: 7}

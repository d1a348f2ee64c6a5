"""The decision on one batch, as a table: where it starts, where it ends, where the table is."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets, flat, nested
from pipelines.exactly_once.offset_chain import (
    Batch,
    Commit,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide,
    decide_by_offset,
)

A, B = ("t", 0), ("t", 1)


def tip(ends, ids=None, version=7):
    return Tip(reached=TopicOffsets(ends=ends, topic_ids=ids or {"t": "id1"}), txn_version=version)


def batch(start, end, first=None, ids=None):
    ids = ids or {"t": "id1"}
    return Batch(start=start, end=TopicOffsets(ends=end, first=first or {}, topic_ids=ids))


STOPS = [
    ("gap", {A: 5}, {A: 9}, {A: 3}, Verdict.GAP, (A,)),
    ("overlap", {A: 1}, {A: 9}, {A: 3}, Verdict.OVERLAP, (A,)),
    ("torn", {A: 1, B: 5}, {A: 9, B: 9}, {A: 3, B: 3}, Verdict.TORN, (A, B)),
    ("went back", {A: 5}, {A: 4}, {A: 5}, Verdict.WENT_BACK, (A,)),
    ("half there", {A: 0, B: 0}, {A: 5, B: 5}, {A: 5, B: 0}, Verdict.OVERLAP, (A,)),
    ("empty but elsewhere", {A: 5}, {A: 5}, {A: 3}, Verdict.GAP, (A,)),
    ("start unknown", {}, {A: 9}, {A: 3}, Verdict.GAP, (A,)),
]


@pytest.mark.parametrize(("start", "end", "table", "verdict", "where"), [c[1:] for c in STOPS],
                         ids=[c[0] for c in STOPS])  # fmt: skip
def test_a_batch_that_does_not_continue_the_table_stops(start, end, table, verdict, where):
    decision = decide(batch(start, end), tip(table))

    assert decision == Stop(verdict=verdict, partitions=where)


def test_a_batch_that_starts_at_the_tables_end_is_committed_with_the_next_version():
    decision = decide(batch({A: 3, B: 4}, {A: 9, B: 4}), tip({A: 3, B: 4}))

    assert isinstance(decision, Commit)
    assert (decision.start, decision.end.ends) == ({A: 3, B: 4}, {A: 9, B: 4})
    assert decision.txn_version == 8


def test_a_batch_that_the_table_has_is_skipped():
    assert decide(batch({A: 3}, {A: 9}), tip({A: 9})) == Skip()


def test_the_first_commit_of_a_table_starts_the_versions_at_one():
    decision = decide(batch({}, {A: 9}, first={A: 2}), None)

    assert isinstance(decision, Commit)
    assert (decision.start, decision.end.ends, decision.txn_version) == ({A: 2}, {A: 9}, 1)


def test_a_new_partition_starts_at_its_recorded_first_offset():
    decision = decide(batch({A: 3}, {A: 9, B: 6}, first={A: 0, B: 2}), tip({A: 3}))

    assert isinstance(decision, Commit)
    assert decision.start == {A: 3, B: 2}
    assert decision.end.ends == {A: 9, B: 6}


def test_a_new_partition_without_rows_is_recorded_all_the_same():
    decision = decide(batch({A: 3}, {A: 3, B: 0}, first={A: 0, B: 0}), tip({A: 3}))

    assert isinstance(decision, Commit)
    assert decision.end.ends == {A: 3, B: 0}


def test_a_topic_that_left_the_subscription_keeps_its_end():
    other = ("u", 0)

    decision = decide(batch({A: 3}, {A: 9}), tip({A: 3, other: 50}, {"t": "id1", "u": "id2"}))

    assert isinstance(decision, Commit)
    assert decision.end.ends == {A: 9, other: 50}
    assert decision.end.topic_ids == {"t": "id1", "u": "id2"}


def test_a_topic_that_comes_back_continues_where_the_table_left_it_or_stops():
    other = ("u", 0)
    ids = {"t": "id1", "u": "id2"}
    table = tip({A: 9, other: 50}, ids)

    goes_on = decide(batch({A: 9}, {A: 9, other: 60}, first={A: 0, other: 50}, ids=ids), table)
    again = decide(batch({A: 9}, {A: 9, other: 60}, first={A: 0, other: 0}, ids=ids), table)

    assert isinstance(goes_on, Commit)
    assert again == Stop(verdict=Verdict.OVERLAP, partitions=(other,))


def test_a_recreated_topic_stops_even_when_the_offsets_fit():
    decision = decide(batch({A: 3}, {A: 9}, ids={"t": "id2"}), tip({A: 3}))

    assert decision == Stop(verdict=Verdict.TOPIC_RECREATED, partitions=(A,))


def test_dead_letters_leave_out_what_the_table_has_instead_of_stopping():
    decision = decide_by_offset(batch({A: 1, B: 4}, {A: 9, B: 6}), tip({A: 3, B: 8}))

    assert isinstance(decision, Commit)
    assert decision.skip_below == {A: 3, B: 8}
    assert decision.end.ends == {A: 9, B: 8}


def test_dead_letters_stop_at_a_gap_and_skip_what_is_there():
    assert decide_by_offset(batch({A: 5}, {A: 9}), tip({A: 3})) == Stop(
        verdict=Verdict.GAP, partitions=(A,)
    )
    assert decide_by_offset(batch({A: 1}, {A: 9}), tip({A: 9})) == Skip()


def test_offsets_survive_json():
    ends = {A: 3, B: 4, ("u", 10): 0}

    assert nested(ends) == {"t": {"0": 3, "1": 4}, "u": {"10": 0}}
    assert flat(nested(ends)) == ends

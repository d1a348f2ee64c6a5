"""A lost range is in the table once, and the table's commits are a chain of their own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from pipelines.exactly_once.data_loss import LostRange, unrecorded
from pipelines.sinks.delta_commits import Link
from pipelines.sinks.loss_table import COLUMNS, commit_of, range_of, row_of

LINK = Link(pipeline="orders", sink="lake", run="r")
OFFSETS = st.integers(0, 2**63 - 2)
RANGES = st.builds(
    lambda topic, number, topic_id, ends: LostRange(
        partition=TopicPartition(topic, number), topic_id=topic_id, start=min(ends),
        end=max(ends) + 1,
    ),
    st.sampled_from(["a", "b"]), st.integers(0, 3), st.sampled_from(["", "id"]),
    st.tuples(OFFSETS, OFFSETS),
)  # fmt: skip


@given(st.lists(RANGES, max_size=4))
def test_what_was_recorded_is_not_recorded_again(lost):
    recorded = [range_of(row_of(LINK, each)) for each in lost]

    assert recorded == lost
    assert unrecorded(lost, recorded) == []


def test_a_row_names_its_sink_and_both_ends():
    lost = LostRange(partition=TopicPartition("t", 2), topic_id="id", start=3, end=9)

    assert dict(zip(COLUMNS, row_of(LINK, lost), strict=True)) == {
        "pipeline": "orders", "sink": "lake", "topic": "t", "topic_id": "id", "partition": 2,
        "start_offset": 3, "end_offset": 9,
    }  # fmt: skip


def test_the_commit_follows_the_last_one_and_reaches_the_ends():
    lost = LostRange(partition=TopicPartition("t", 2), topic_id="id", start=3, end=9)

    commit = commit_of([lost], 4)

    assert commit.txn_version == 5
    assert (dict(commit.start), dict(commit.end.ends)) == ({}, {TopicPartition("t", 2): 9})
    assert commit.end.topic_ids == {"t": "id"}

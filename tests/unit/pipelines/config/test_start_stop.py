"""Where a source starts, where it stops, and which partitions it reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from pipelines.config.start_stop import (
    Reads,
    end_of,
    offsets_of,
    partitions_of,
    start_of,
    stop_problems,
)
from pipelines.model.pipeline import End
from tests.unit.pipelines.config.sections import read, said, section
from tests.unit.pipelines.config.test_validate import GOOD

ORDERS = Reads(topics=("orders",))


@pytest.mark.parametrize(
    ("start", "option", "text"),
    [
        ("earliest", "startingOffsets", "earliest"),
        ("latest", "startingOffsets", "latest"),
        ("{ timestamp: 2026-01-01 }", "startingTimestamp", "1767225600000"),
        ("{ group: g }", "startingGroup", "g"),
        ("{ last: 10 }", "startingOffsets", "last 10"),
        ("{ ago: 10m }", "startingOffsets", "600000ms ago"),
        ("{ offsets: { orders: { 1: 7, 0: 5 } } }", "startingOffsets", '{"orders": {"0": 5, "1": '
         "7}}"),
    ],
)  # fmt: skip
def test_a_start_is_an_option_of_the_connector(start, option, text):
    reader = section(f"start: {start}", "source")

    found = start_of(reader, ORDERS)

    assert (found.option, found.text, said(reader)) == (option, text, [])


def test_a_start_by_the_table_is_looked_up_by_the_run():
    assert start_of(section("start: table", "source"), ORDERS).by_table
    assert not start_of(section("start: latest", "source"), ORDERS).by_table


def test_a_start_is_one_place():
    reader = section("start: { group: g, last: 3 }", "source")

    assert start_of(reader, ORDERS).text == "earliest"
    assert said(reader)[0].startswith("start: expected exactly one of ")


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b", "c-1"]), st.integers(0, 999)),
        st.integers(0, 2**63 - 1),
        min_size=1,
    )
)
def test_offsets_reach_the_connector_as_they_are_in_the_file(offsets):
    topics: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, {})[number] = offset
    reads = Reads(topics=tuple(topics))

    found = start_of(section(f"start: {{ offsets: {json.dumps(topics)} }}", "source"), reads)

    assert found.offsets == {TopicPartition(*p): offset for p, offset in offsets.items()}
    told = json.loads(found.text)
    assert {(t, int(n)): o for t, each in told.items() for n, o in each.items()} == offsets


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ("{ orders: { 0: -1 } }", "offsets.orders.0: "),
        ("{ orders: { x: 1 } }", "offsets.orders.x: expected a partition's number, from 0 on"),
        ("{ orders: {} }", "offsets.orders: expected a mapping of partition: offset"),
        ("{ ordres: { 0: 1 } }", "offsets.ordres: this source does not read topic `ordres`; did "
         "you mean `orders`?"),
    ],
)  # fmt: skip
def test_offsets_of_nothing_that_is_read_are_refused_at_their_place(offsets, why):
    reader = section(f"offsets: {offsets}", "start")

    offsets_of(reader, ORDERS)

    assert any(each.startswith(why) for each in said(reader))


def test_offsets_of_each_topic_are_expected():
    reader = section("offsets: { orders: { 0: 1 } }", "start")

    offsets_of(reader, Reads(topics=("orders", "events")))

    assert said(reader) == ["offsets: expected the offsets of each topic; missing: events"]


@pytest.mark.parametrize(("topic", "count"), [("orders", 0), ("events", 1)])
def test_a_pattern_decides_which_topics_have_offsets(topic, count):
    reader = section(f"offsets: {{ {topic}: {{ 0: 1 }} }}", "start")

    offsets_of(reader, Reads(pattern="ord.*"))

    assert len(reader.problems) == count


def test_a_partition_that_is_not_assigned_has_no_offset():
    reader = section("offsets: { orders: { 0: 1, 1: 2 } }", "start")

    offsets_of(reader, Reads(topics=("orders",), assigned=(TopicPartition("orders", 0),)))

    assert len(reader.problems) == 1
    assert said(reader)[0].endswith("it is not in `assign`")


def test_assigned_partitions_are_sorted_and_named_once():
    reader = section("assign: { b: [1, 0, 1], a: [2], c: [-1], d: 3 }", "source")

    assert partitions_of(reader) == (("a", 2), ("b", 0), ("b", 1))
    assert said(reader) == [
        "assign.b[2]: `1` is listed twice",
        "assign.c[0]: expected a partition's number, from 0 on; found `-1`",
        "assign.d: expected a list of partitions such as [0, 2]; found `3`",
    ]


@pytest.mark.parametrize(
    ("stop", "end"),
    [
        ("{ timestamp: 1970-01-01T00:00:01Z }", End(time_ms=1_000)),
        ("{ ago: 5s }", End(ago_ms=5_000)),
        ("{ group: g }", End(group="g")),
        ("{ offsets: { orders: { 0: 9 } } }", End(offsets={TopicPartition("orders", 0): 9})),
        ("latest", None),
    ],
)
def test_a_run_stops_at_one_place_or_at_the_end_that_it_starts_with(stop, end):
    assert end_of(section(f"stop: {stop}", "source"), ORDERS) == end


def test_a_run_without_an_end_has_no_stop():
    pipeline, nodes, _ = read(GOOD.replace("[orders]", "[orders]\n    stop: { ago: 5s }"))

    (problem,) = stop_problems(pipeline.sources, 1_000, nodes)
    assert problem.path == "sources.raw.stop"
    assert list(stop_problems(pipeline.sources, None, nodes)) == []

"""Where a sink without a commit begins and where a run ends, by offsets or by a group."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.read.offsets import Bounds
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.exactly_once.start_offsets import ends, named, no_table
from pipelines.model.pipeline import End, Start
from tests.unit.pipelines.config.test_validate import GOOD

A, B, NEW = (TopicPartition("orders", n) for n in range(3))
BOUNDS = {A: Bounds(10, 20), B: Bounds(0, 5)}
WIDER = {**BOUNDS, NEW: Bounds(7, 7)}
END = End(group="g1")
GROUP = Start(option="startingGroup", text="g1", group="g1")


def offsets(**of):
    return Start(
        option="", text="", offsets={{"a": A, "b": B, "new": NEW}[n]: o for n, o in of.items()}
    )


@pytest.mark.parametrize("begin", [{A: 10, B: 0}, {A: 15, B: 3}, {A: 20, B: 5}])
def test_each_partition_begins_where_it_is_said_from_its_first_offset_to_its_end(begin):
    assert named(GROUP, begin, BOUNDS) == begin
    assert named(Start(option="", text="", offsets=begin), {}, BOUNDS) == begin


def test_a_partition_without_records_need_not_be_named():
    bounds = {**BOUNDS, NEW: Bounds(7, 7)}

    assert named(GROUP, {A: 15, B: 3}, bounds) == {A: 15, B: 3, NEW: 7}
    assert named(offsets(a=15, b=3), {}, bounds) == {A: 15, B: 3, NEW: 7}


def test_a_group_may_know_partitions_that_are_not_read():
    assert named(GROUP, {A: 15, B: 3, NEW: 9}, BOUNDS) == {A: 15, B: 3}


@pytest.mark.parametrize(
    ("start", "committed", "wrong"),
    [
        (GROUP, {A: 15}, "group g1 has committed no offset for orders-1: commit one (`josefine "
         "groups reset-offsets g1`), or begin elsewhere"),
        (GROUP, {A: 9, B: 3},
         "group g1: offset 9 of orders-0 is gone: it has offsets [10, 20) now"),
        (GROUP, {A: 15, B: 6},
         "group g1: offset 6 of orders-1 is beyond its end: it has offsets [0, 5) now"),
        (offsets(a=15), {},
         "start.offsets: expected an offset of each partition; missing: orders-1"),
        (offsets(a=15, b=1, new=0), {}, "start.offsets: no partition orders-2 is read"),
        (offsets(a=9, b=1), {},
         "start.offsets: offset 9 of orders-0 is gone: it has offsets [10, 20) now"),
    ],
)  # fmt: skip
def test_what_cannot_be_begun_at_is_said_with_its_partition(start, committed, wrong):
    assert named(start, committed, BOUNDS) == wrong


def test_records_that_were_deleted_before_the_group_read_them_are_not_passed_over():
    """Also where no record is left."""
    assert "offset 3 of orders-0 is gone" in named(GROUP, {A: 3}, {A: Bounds(7, 7)})


def test_a_sink_without_a_commit_begins_nowhere_by_its_table():
    sink = validate(load(GOOD, "f.yaml", {})).sinks["lake"]

    assert no_table(sink) == (
        "sink `lake`: `start: table`, but /lake has no commit of this sink: a table that is new, "
        "or gone, is not filled; begin once with another `start`, such as earliest"
    )


@pytest.mark.parametrize("end", [End(time_ms=5), End(ago_ms=5)])
def test_a_time_ends_before_its_first_record_and_where_none_is_that_late_at_the_end(end):
    assert ends(end, {A: 12, B: -1}, WIDER) == {A: 12, B: 5, NEW: 7}


def test_offsets_and_groups_are_ends_also_before_the_first_record():
    assert ends(End(offsets={A: 3, B: 5}), {}, WIDER) == {A: 3, B: 5, NEW: 7}
    other = TopicPartition("more", 0)
    assert ends(END, {A: 11, B: 0, other: 9}, WIDER) == {A: 11, B: 0, NEW: 7}


@pytest.mark.parametrize(
    ("end", "committed", "wrong"),
    [
        (END, {A: 11}, "stop: group g1 has committed no offset for orders-1"),
        (
            End(offsets={A: 11}),
            {},
            "stop.offsets: expected an offset of each partition; missing: orders-1",
        ),
        (End(offsets={A: 11, B: 6}), {}, "stop.offsets: orders-1 ends at 5 now, before 6"),
        (END, {A: 21, B: 5}, "stop: group g1: orders-0 ends at 20 now, before 21"),
        (
            End(offsets={TopicPartition("orders", 9): 1}),
            {},
            "stop.offsets: no partition orders-9 is read",
        ),
    ],
)
def test_an_end_that_is_not_there_is_said_with_its_partition(end, committed, wrong):
    assert ends(end, committed, WIDER) == wrong

"""Where a sink without a commit begins, by offsets of the file or of a group."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.offsets import Bounds
from pipelines.beginning import named, no_table
from pipelines.loader import load
from pipelines.model import Start
from pipelines.validate import validate
from tests.unit.pipelines.test_validate import GOOD

A, B, NEW = (TopicPartition("orders", n) for n in range(3))
BOUNDS = {A: Bounds(10, 20), B: Bounds(0, 5)}
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

"""The shadow pipeline: which files have one, what it reads, and what others see of it."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.read.offsets import Bounds
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.deploy.shadow import (
    Span,
    begun_of,
    clamped,
    deploy_id,
    missing_rows,
    pairs_of,
    recreated,
    refusals,
    shadow_of,
    span_of,
)
from pipelines.sinks.delta_log import own_entry
from tests.unit.pipelines.deploy.test_change import FILE

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("new", 0)
DEAD = FILE.replace("on_error: fail", "on_error: dead_letter").replace(
    "trigger:", "dead_letter: { type: delta, path: /dead }\ntrigger:"
)


def pipeline(text=FILE):
    return validate(load(text, "f.yaml", {}))


REFUSED = [
    ("another name", ("name: orders", "name: sales"), "name was `orders`, is `sales`"),
    ("an object store", ("path: /lake", "path: s3a://bucket/lake"), "is not a folder of this"),
    ("a catalog", ("path: /lake", "table: lake.orders"), "expected `type: delta` with a `path`"),
    ("another table", ("path: /lake", "path: /pond"), "its table was /lake, is /pond"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_a_file_that_cannot_be_deployed_by_rows_is_refused_with_the_reason(change, why):
    found = [*refusals(pipeline(), pipeline(FILE.replace(*change)))]

    assert any(why in line for line in found), found


def test_the_same_two_files_have_the_same_id_and_others_another():
    other = pipeline(FILE.replace("n > 0", "n > 1"))

    assert deploy_id(pipeline(), other) == deploy_id(pipeline("# c\n" + FILE), other)
    assert deploy_id(pipeline(), other) != deploy_id(other, pipeline())
    assert [*refusals(pipeline(), other)] == []


def test_dead_letters_come_first_and_each_shadow_is_next_to_its_table():
    found = [(each.name.sink, each.live, each.shadow) for each in pairs_of(pipeline(DEAD), "ab12")]

    assert found == [
        ("dead_letter.raw", "/dead", "/dead__shadow_ab12"),
        ("lake", "/lake", "/lake__shadow_ab12"),
    ]


def test_the_shadow_writes_only_its_own_tables_and_checkpoints():
    spans = {"raw": Span(begins={A: 3}, ends={A: 9})}
    text = DEAD.replace("trigger:", 'metrics: { prometheus: "127.0.0.1:9404" }\ntrigger:')

    shadow = shadow_of(pipeline(text), "ab12", spans)

    assert shadow.sinks["lake"].path == "/lake__shadow_ab12"
    assert shadow.dead_letter_path == "/dead__shadow_ab12"
    assert shadow.checkpoint == "/ck/deploy_ab12"
    assert (shadow.metrics, shadow.every_ms) == (None, None)
    assert shadow.sources["raw"].start.offsets == {A: 3}
    assert shadow.sources["raw"].stop.offsets == {A: 9}


def test_a_chain_began_where_its_oldest_commit_of_each_partition_starts():
    entries = [
        own_entry("x", 3, {"start": {"t": {"0": 8, "1": 2}}}, 0),
        own_entry("x", 2, {"start": {"t": {"0": 5}}}, 0),
        own_entry("x", 1, {"start": {"t": {"0": 4}}}, 0),
        own_entry("x", 0, {}, 0),
    ]

    assert begun_of(entries) == {A: 4, B: 2}


def test_a_span_ends_where_the_live_table_is():
    bounds = {A: Bounds(0, 20), B: Bounds(6, 9), C: Bounds(1, 7)}

    span = span_of({A: 2}, {A: 10}, bounds)

    # B is new in a topic that the live table knows: left to the run after the swap.
    assert span == Span(begins={A: 2, B: 6, C: 1}, ends={A: 10, B: 6, C: 7})


def test_records_that_the_topic_lost_are_named_before_anything_is_done():
    bounds = {A: Bounds(5, 20), B: Bounds(12, 20)}
    span = Span(begins={A: 2, B: 0}, ends={A: 10, B: 8})

    assert missing_rows(span, bounds) == ["t-0 [2, 5): 3", "t-1 [0, 8): 8"]
    assert missing_rows(clamped(span, bounds), bounds) == []
    assert clamped(span, bounds) == Span(begins={A: 5, B: 12}, ends={A: 10, B: 12})


def test_a_topic_of_another_id_is_recreated():
    assert recreated({"t": "1", "u": "2", "v": ""}, {"t": "9", "u": "2", "v": "7"}) == ["t"]

"""What a source says becomes options that the connector understands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import BelowLocalStart
from josefine_spark.options.positions import Kind
from josefine_spark.read.source_options import source_options
from pipelines.config.loader import load
from pipelines.config.source import group_problems, source_of
from pipelines.config.validate import validate
from pipelines.model.pipeline import End
from pipelines.sources.josefine import batch_options_of, options_of
from tests.unit.pipelines.config.sections import read, said, section
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD


def source(words):
    text = GOOD.replace("topics: [orders]", f"topics: [orders]\n    {words}")
    return validate(load(text, "f.yaml", {})).sources["raw"]


def options(words):
    return source_options(options_of(source(words)), streaming=True)


def test_a_source_that_says_nothing_leaves_the_defaults():
    assert options_of(source("headers: false")) == {
        "bootstrapServers": "localhost:9092",
        "subscribe": "orders",
        "startingOffsets": "earliest",
    }


def test_each_word_has_its_option():
    found = options(
        "limit: { rows: 10, bytes: 64MiB, min_rows: 5, max_delay: 2m }\n"
        "    split: { rows: 3, min_tasks: 4 }\n    isolation: read_committed"
    )

    assert (found.max_offsets_per_trigger, found.max_bytes_per_trigger) == (10, 64 << 20)
    assert (found.min_offsets_per_trigger, found.max_trigger_delay_ms) == (5, 120_000)
    assert (found.max_records_per_partition, found.min_partitions) == (3, 4)
    assert found.read.read_committed
    assert not options("isolation: read_uncommitted").read.read_committed
    for word in ("auto", "broker", "off"):
        assert options(f"archive: {word}").read.archive is BelowLocalStart(word)
        of_batch = batch_options_of(source(f"archive: {word}"))
        assert source_options(of_batch, streaming=False).read.archive is BelowLocalStart(word)


@pytest.mark.parametrize(
    ("start", "kind", "field", "value"),
    [
        ("latest", Kind.LATEST, "ago_ms", -1),
        ("{ timestamp: 2026-01-01 }", Kind.TIMESTAMP, "timestamp_ms", 1_767_225_600_000),
        ("{ timestamp: 2026-01-01T01:00:00+01:00 }", Kind.TIMESTAMP, "timestamp_ms",
         1_767_225_600_000),
        ("{ ago: 10m }", Kind.AGO, "ago_ms", 600_000),
    ],
)  # fmt: skip
def test_a_source_begins_where_it_says(start, kind, field, value):
    starting = options(f"start: {start}").starting

    assert (starting.kind, getattr(starting, field)) == (kind, value)


def test_a_source_begins_some_records_before_the_end():
    assert options("start: { last: 7 }").starting.kind is Kind.LAST
    assert options_of(source("start: { last: 7 }"))["startingOffsets"] == "last 7"


def test_sources_without_a_group_are_no_matter():
    assert source("headers: true").commit_group is None
    assert source("commit_group: lag").commit_group == "lag"


def test_groups_offsets_and_tables_are_starts():
    group = options("start: { group: g1 }")
    offsets = options("start: { offsets: { orders: { 0: 5, 1: 7 } } }")

    assert (group.starting_group, group.starting_given) == ("g1", False)
    assert offsets.starting.values == {("orders", 0): 5, ("orders", 1): 7}
    assert source("start: { group: g1 }").start.is_by_offsets
    assert source("start: { offsets: { orders: { 0: 5 } } }").start.is_by_offsets
    assert source("start: table").start.by_table
    with pytest.raises(OptionError):
        options("start: table")  # it is the run's to know where the table ends


def test_brokers_of_either_name_are_read_alike():
    found = [
        validate(load(GOOD.replace("type: josefine", f"type: {kind}"), "f.yaml", {}))
        for kind in ("josefine", "kafka")
    ]

    assert found[0] == found[1]


def test_partitions_may_be_assigned():
    text = GOOD.replace("topics: [orders]", "assign: { orders: [2, 0], more: [1] }")
    found = validate(load(text, "f.yaml", {})).sources["raw"]
    said = source_options(options_of(found), streaming=True).subscription

    assert said.assigned == (("more", (1,)), ("orders", (0, 2)))
    assert (found.topics, found.told) == (("more", "orders"), "more-1, orders-0, orders-2")
    assert (said.topics, said.pattern) == ((), None)
    assert complaints(text) == []


@pytest.mark.parametrize(
    ("words", "stop"),
    [
        ("latest", None),
        ("null", None),
        ("{ timestamp: 2026-01-01 }", End(time_ms=1_767_225_600_000)),
        ("{ ago: 10m }", End(ago_ms=600_000)),
        ("{ group: g1 }", End(group="g1")),
        ("{ offsets: { orders: { 0: 5, 1: 7 } } }",
         End(offsets={TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7})),
    ],
)  # fmt: skip
def test_a_run_ends_where_the_source_says(words, stop):
    assert source(f"stop: {words}").stop == stop


def test_a_stream_is_told_an_end_when_its_offsets_are_known():
    assert options("stop: { offsets: { orders: { 0: 5 } } }").stops_at == {("orders", 0): 5}
    assert options("stop: { group: g1 }").stops_at is None
    assert options_of(replace(source("stop: { ago: 5m }"), stop=End()))["stopOffsets"] == "{}"


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("10b", 10), ("2k", 2048), ("64MiB", 64 << 20), ("64mb", 64 << 20), ("1G", 1 << 30)],
)
def test_sizes_are_by_powers_of_1024(text, size):
    assert source(f"limit: {{ bytes: {text} }}").limit.bytes == size


def problems_of(words: str) -> list[str]:
    reader = section(words, "source")
    source_of("raw", reader)
    return said(reader)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("limit: { rows: 5, min_rows: 6 }", "limit.min_rows: 6 is more than `rows`, 5: no batch "
         "can satisfy both"),
        ("limit: { max_delay: 5s }", "limit.max_delay: `min_rows` is missing, which it ends the "
         "waiting for"),
        ("topics: ['a b']", "topics: `a b` "),
        ("pattern: 'a('", "pattern: `a(` is not a valid regular expression"),
    ],
)  # fmt: skip
def test_what_no_batch_and_no_broker_can_satisfy_is_refused(words, wrong):
    more = "" if words.startswith(("topics", "pattern")) else "topics: [a]\n"

    (problem,) = problems_of(f"type: josefine\nbootstrap: 'b:1'\n{more}{words}")

    assert problem.startswith(wrong)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("type: file\npath: /a\nstart: latest", []),
        ("type: rate\nrows_per_second: 5\nstart: earliest",
         ["start: no `earliest` with type rate; expected one of: latest, last, ago, timestamp"]),
        ("type: file\npath: 's3a://b'",
         ["path: expected a folder or a pattern of files on this machine"]),
        ("type: file\npath: /a\nlimit: { rows: 3 }",
         ["limit.rows: no `rows` with type file; expected `bytes`"]),
        ("type: memory\nrecords: [{ value: a, offset: 3 }]",
         ["records[0].offset: offsets are counted: leave it out"]),
    ],
)  # fmt: skip
def test_a_source_without_a_broker_has_the_starts_and_limits_of_its_type(words, wrong):
    assert problems_of(words) == wrong


def test_assigned_partitions_name_the_topics():
    reader = section("type: kafka\nbootstrap: 'b:1'\nassign: { b: [0], a: [1, 0] }", "source")

    found = source_of("raw", reader)

    assert (found.topics, len(found.assigned), said(reader)) == (("a", "b"), 3, [])


def test_a_group_is_committed_by_one_source():
    group = "[orders]\n    commit_group: g"
    other = "  more: { type: josefine, bootstrap: 'b:1', topics: [x], commit_group: g }\n"
    text = GOOD.replace("[orders]", group).replace("transforms:\n", f"{other}transforms:\n")
    pipeline, tree, _ = read(text)

    (problem,) = group_problems(pipeline.sources, tree)

    assert problem.path == "sources.more.commit_group"
    assert problem.message == "`g` is the group of source `raw`: a group each"
    assert list(group_problems({"raw": pipeline.sources["raw"]}, tree)) == []

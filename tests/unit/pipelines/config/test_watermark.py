"""Watermarks of a file, and what a stateful stream excludes."""

from __future__ import annotations

import pytest

from pipelines.config.gaps import Gaps
from pipelines.config.watermark import watermark_problems, watermarks_of
from pipelines.model.watermark import Watermark
from tests.unit.pipelines.config.sections import read, said, section
from tests.unit.pipelines.config.test_validate import GOOD

MARK = "watermark: { raw: { column: at, delay: 10m } }"
STATEFUL = GOOD.replace("{ inputs: [raw], sql:", f"{{ inputs: [raw], {MARK}, sql:")
DEAD = "dead_letter: { type: delta, path: /d }\n"


def told(text: str, gaps: Gaps = Gaps()) -> list[str]:
    pipeline, nodes, _ = read(text)
    return [f"{p.path}: {p.message}" for p in watermark_problems(pipeline, nodes, gaps)]


def test_a_watermark_is_a_column_of_an_input_and_a_delay():
    (mark,) = watermarks_of(section(MARK, "transform"))

    assert (mark.input, mark.column, mark.delay_ms) == ("raw", "at", 600_000)
    assert mark.path.endswith("watermark.raw.column")


def test_a_watermark_without_its_delay_is_none():
    reader = section("watermark: { raw: { column: at } }", "transform")

    assert watermarks_of(reader) == ()
    assert len(said(reader)) == 1
    assert watermarks_of(section("sql: select 1", "transform")) == ()


def test_a_stateful_transform_of_one_source_is_good():
    assert told(STATEFUL) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{ raw: { column", "{ rwa: { column", "transforms.clean.watermark.rwa: `rwa` is not "
         "among the transform's inputs; did you mean `raw`?"),
        ("sql: select value.* from raw", "python: own.py:f", "transforms.clean.python: a function "
         "cannot be stateful: expected `sql` with `watermark`"),
        ("topics: [orders]", "topics: [orders]\n    on_data_loss: skip_and_record",
         "sources.raw.on_data_loss: expected fail: `clean` has state in the checkpoint, and "
         "recording a loss discards the checkpoint"),
    ],
)  # fmt: skip
def test_what_a_state_excludes_is_refused_by_name(old, new, why):
    assert why in told(STATEFUL.replace(old, new))


def test_a_second_state_after_a_state_is_refused():
    twice = STATEFUL.replace(
        "sinks:\n",
        "  more: { inputs: [clean], watermark: { clean: { column: at, delay: 1s } }, sql: select 1 "
        "from clean }\nsinks:\n",
    )

    assert (
        "transforms.more.watermark: a second stateful transform, after `clean`, is not supported "
        "yet" in told(twice)
    )


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ("on: raw, expr: a, action: warn", "checks.c.on: `raw` is upstream of `clean`"),
        ("on: clean, expr: a, action: dead_letter", "checks.c.action: a row of `clean` comes from "
         "many records"),
        ("on: clean, expr: a, action: drop", None),
    ],
)  # fmt: skip
def test_a_check_counts_rows_of_a_batch_and_sends_single_records(check, why):
    found = told(f"{STATEFUL}checks: {{ c: {{ {check} }} }}\n{DEAD}")

    assert [each.startswith(why or "") for each in found] == ([True] if why else [])


def test_sources_that_are_joined_by_a_state_are_read_by_topic():
    joined = STATEFUL.replace(
        "transforms:\n",
        "  other: { type: josefine, bootstrap: 'b:1', pattern: 'x.*' }\ntransforms:\n",
    ).replace("{ inputs: [raw], watermark: {", "{ inputs: [raw, other], watermark: { other: { "
              "column: at, delay: 1s },")  # fmt: skip

    assert told(joined) == ["sources.other.pattern: `clean` joins it: expected `topics`"]


def test_an_input_of_a_join_without_its_watermark_is_named():
    joined = STATEFUL.replace(
        "transforms:\n",
        "  other: { type: josefine, bootstrap: 'b:1', topics: [x] }\ntransforms:\n",
    ).replace("{ inputs: [raw], watermark", "{ inputs: [raw, other], watermark")

    assert told(joined) == [
        "transforms.clean.watermark: expected column and delay of each input; missing: other"
    ]


def test_a_watermark_that_could_not_be_read_is_one_complaint():
    wrong = STATEFUL.replace("{ raw: { column", "{ rwa: { column")

    assert told(wrong, Gaps(frozenset({"transforms.clean.watermark"}))) == []


def test_each_input_of_a_join_has_its_own_delay_in_the_order_of_the_file():
    marks = "watermark: { b: { column: at, delay: 1s }, a: { column: ts, delay: 2h } }"

    found = watermarks_of(section(marks, "transform"))

    assert [(m.input, m.column, m.delay_ms) for m in found] == [
        ("b", "at", 1_000), ("a", "ts", 7_200_000),
    ]  # fmt: skip
    assert all(isinstance(mark, Watermark) for mark in found)

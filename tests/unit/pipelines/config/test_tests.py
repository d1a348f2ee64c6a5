"""The tests of a pipeline file, as they are read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from pipelines.config.loader import load
from pipelines.config.section import Reader
from pipelines.config.tests import cases_of, topic_of
from pipelines.config.validate import validate
from pipelines.inspect.file_tests import Outcome, lines
from pipelines.model.test_case import Expectation, Record
from tests.unit.pipelines.config.sections import read, tree
from tests.unit.pipelines.config.test_validate import GOOD, complaint

TESTS = """\
tests:
  - name: one
    given:
      raw:
        - { key: a, value: { id: 1, tags: [x, null], deep: { at: 1.5 } } }
        - { value: not json, partition: 2, offset: 7, timestamp: 2026-01-02T03:04:05Z }
        - { topic: others, headers: { trace: t } }
    expect:
      clean: { rows: [ { id: 1, name: null } ], columns: subset }
      lake: { count: 0 }
"""


def case_of(text):
    (case,) = validate(load(GOOD + text, "f.yaml", {})).cases
    return case


def test_records_have_what_they_say_and_defaults_for_the_rest():
    first, second, third = case_of(TESTS).given["raw"]

    assert json.loads(first.value) == {"id": 1, "tags": ["x", None], "deep": {"at": 1.5}}
    assert (first.key, first.topic, first.partition, first.offset) == (b"a", "orders", 0, 0)
    assert first.timestamp == datetime(1970, 1, 1, tzinfo=UTC)
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert second == Record(
        key=None, value=b"not json", topic="orders", partition=2, offset=7, timestamp=moment
    )
    assert (third.value, third.topic, third.offset) == (None, "others", 2)
    assert third.headers == (("trace", b"t"),)


def test_only_a_file_with_a_class_and_its_state_knows_batches():
    text = GOOD + TESTS.replace("{ key: a,", "{ key: a, batch: 2,")

    assert "a Python class that has a `state` knows batches" in complaint(text)


def test_expectations_are_rows_or_a_number():
    clean, lake = case_of(TESTS).expected

    assert (clean.node, clean.rows, clean.is_subset) == (
        "clean",
        ({"id": 1, "name": None},),
        True,
    )
    assert (lake.rows, lake.count, lake.is_subset) == (None, 0, False)
    assert isinstance(lake, Expectation)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("      raw:", "      rwa:", "tests[0].given.rwa: no source `rwa`; did you mean `raw`?"),
        ("clean: {", "claen: {", "no sink, transform or check `claen`; did you mean `clean`?"),
        ("key: a", "kye: a", "unknown key `kye`; did you mean `key`?"),
        ("count: 0", "count: -1", "expected a whole number from 0 on; found `-1`"),
        ("{ count: 0 }", "{}", "tests[0].expect.lake: expected `rows` or `count`"),
        ("columns: subset", "columns: some", "expected all or subset; found `some`"),
        ("2026-01-02T03:04:05Z", "noon", "expected a time such as 2026-01-01T00:00:00Z; found `n"),
        ("[ { id: 1, name: null } ]", "[1]", "tests[0].expect.clean.rows[0]: expected a mapping; "),
        ("    given:", "    givn:", "tests[0].givn: unknown key `givn`; did you mean `given`?"),
        ("tests:\n  - name: one", "tests:\n  - name: one\n    given: {}\n    expect: {}\n"
         "  - name: one", "tests[1].name: `one` is listed twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_test_is_told_with_its_place(old, new, told):
    assert old in TESTS

    said = complaint(GOOD + TESTS.replace(old, new, 1))

    assert told in said
    assert said.startswith("f.yaml:")


def test_a_person_reads_what_failed_and_where():
    place = case_of(TESTS).place
    good = Outcome(name="one", place=place, complaints=())
    bad = Outcome(name="two", place=place, complaints=("clean: missing {}",))

    assert lines("f.yaml", [good, bad]) == [
        "f.yaml:",
        "  ok      one",
        "  FAILED  two",
        "      line 17: clean: missing {}",
    ]
    assert lines("f.yaml", []) == ["f.yaml: it has no tests"]


@pytest.mark.parametrize(
    ("old", "new", "topic"), [("x", "x", "orders"), ("topics: [orders]", "pattern: 'o.*'", "raw")]
)
def test_a_record_is_of_the_sources_first_topic_or_is_named_after_the_source(old, new, topic):
    pipeline, _, _ = read(GOOD.replace(old, new))

    assert topic_of(pipeline.sources["raw"]) == topic


def test_a_name_whose_definition_could_not_be_read_is_not_a_second_complaint():
    pipeline, _, _ = read(GOOD)
    top = Reader(tree(TESTS.replace("clean: {", "claen: {")), "", [])
    top.problem(top.table.place, "transforms.claen", "wrong")

    (case,) = cases_of(top, pipeline)

    assert [each.node for each in case.expected] == ["claen", "lake"]
    assert len(top.problems) == 1

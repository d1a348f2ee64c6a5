"""What could not be read of a file, so that no check complains of it a second time."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place, Problem
from pipelines.config.gaps import Gaps, gaps_of

HERE = Place(file="f.yaml", line=1, column=1)


def gap(*paths: str) -> Gaps:
    return gaps_of(Problem(place=HERE, path=path, message="wrong") for path in paths)


def test_a_value_is_covered_by_a_problem_of_itself_or_of_a_mapping_around_it():
    gaps = gap("sinks.a")

    assert gaps.covers("sinks.a")
    assert gaps.covers("sinks.a.keys[0]")
    assert gaps.covers("x", "sinks.a[1]")
    assert not gaps.covers("sinks.ab")
    assert not gaps.covers("sinks")


def test_a_value_is_touched_by_a_problem_of_a_part_too():
    gaps = gap("sinks.a.keys[1]")

    assert gaps.touches("sinks.a")
    assert gaps.touches("sinks.a.keys")
    assert not gaps.touches("sinks.a.key")
    assert not gaps.covers("sinks.a")


def test_a_name_may_be_in_a_section_that_could_not_be_read():
    assert gap("sources").has_name("raw", "sources", "transforms")
    assert gap("transforms.raw").has_name("raw", "sources", "transforms")
    assert not gap("transforms.other").has_name("raw", "sources", "transforms")


@pytest.mark.parametrize(
    ("path", "is_of_graph"),
    [
        *(("sources", True), ("sinks.a", True), ("transforms.a.inputs", True)),
        *(("transforms.a.inputs[2]", True), ("sinks.a.path", False), ("trigger", False)),
        ("checks.a", False),
    ],
)
def test_an_edge_of_the_graph_is_missing_with_a_node_or_its_inputs(path, is_of_graph):
    assert gap(path).of_graph is is_of_graph


@pytest.mark.parametrize("word", ["sql", "expr", "delete_when", "constraints"])
def test_sql_is_missing_with_its_keyword_or_with_a_node(word):
    assert gap(f"any.a.{word}").of_sql
    assert gap("sinks.a").of_sql
    assert not gap("sinks.a.path").of_sql


def test_a_problem_in_an_environment_is_of_the_value_that_it_replaces():
    assert gap("environments.dev.sinks.a.path") == Gaps(frozenset({"sinks.a.path"}))


def test_a_missing_value_counts_where_it_would_be():
    missing = Problem(place=HERE, path="sinks.a", message="missing", about="sinks.a.inputs")

    assert gaps_of([missing]) == Gaps(frozenset({"sinks.a.inputs"}))
    assert gap("") == Gaps()

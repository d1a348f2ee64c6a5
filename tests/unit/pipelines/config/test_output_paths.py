"""No folder that a pipeline writes is equal to another one or within it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from pipelines.config.loader import Scalar
from pipelines.config.output_paths import NO_HOME, folder, local_folder, path_problems, place_in
from pipelines.config.section import Reader
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.sections import read, said, section, tree
from tests.unit.pipelines.config.test_validate import GOOD


def told(text: str) -> list[str]:
    pipeline, nodes, _ = read(text)
    return [f"{each.path}: {each.message}" for each in path_problems(pipeline, nodes)]


def two(first: str, second: str) -> str:
    sinks = "".join(
        f"  {name}: {{ type: delta, inputs: [clean], path: '{path}', mode: append }}\n"
        for name, path in (("one", first), ("two", second))
    )
    return GOOD.replace(SINK, sinks)


@pytest.mark.parametrize(
    ("path", "local"),
    [
        *(("/a/b", "/a/b"), ("file:/a", "/a"), ("file:///a/", "/a"), ("/a//b/../c", "/a/c")),
        *(("file:/a%20b", "/a b"), ("s3a://b/x", None)),
    ],
)
def test_a_folder_of_this_machine_has_one_form(path, local):
    assert local_folder(path) == local


def test_a_relative_path_is_of_the_folder_of_the_command_and_a_uri_stays():
    assert folder("lake") == os.path.join(os.getcwd(), "lake")
    assert folder("s3a://b/x/") == "s3a://b/x"


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("/a", "/a", "sinks.two.path: the rows of sink `one` are written there already"),
        ("/a", "file:///a/", "sinks.two.path: the rows of sink `one` are written there already"),
        ("s3a://b/x", "s3a://b//x/", "sinks.two.path: the rows of sink `one` are written there "
         "already"),
        ("s3a://b/x", "s3://b/x", "sinks.two.path: the rows of sink `one` are written there "
         "already"),
        ("s3://b/x", "s3a://b/x/y", "sinks.two.path: this lies in the table of sink `one`, where "
         "VACUUM would delete it"),
        ("/a", "/a/b", "sinks.two.path: this lies in the table of sink `one`, where VACUUM would "
         "delete it"),
        ("/a/b", "/a", "sinks.two.path: the table of sink `one` lies in it, where VACUUM would "
         "delete it"),
    ],
)  # fmt: skip
def test_two_tables_in_one_folder_or_one_in_the_other_are_refused_at_the_later(first, second, why):
    assert told(two(first, second)) == [why]


def test_folders_whose_names_only_start_alike_are_apart():
    assert told(two("/a", "/ab")) == []


def test_a_checkpoint_in_a_table_is_a_warning_only_where_vacuum_leaves_it():
    deleted = read(GOOD.replace("/ck", "/lake/ck"))[2]
    hidden_file = GOOD.replace("/ck", "/lake/_ck")
    pipeline, nodes, _ = read(hidden_file)
    (hidden,) = path_problems(pipeline, nodes)

    assert deleted == [
        "spark.checkpoint: the checkpoint lies in the table of sink `lake`, where VACUUM would "
        "delete it; expected a folder next to the tables"
    ]
    assert not hidden.stops_run
    assert "goes when somebody deletes the table" in hidden.message


@pytest.mark.parametrize("path", ["/ck/orders.lake", "/ck/lake", "/ck/orders.lake/x"])
def test_a_table_in_a_sinks_checkpoint_is_refused_also_in_the_place_of_older_versions(path):
    (problem,) = told(GOOD.replace("path: /lake", f"path: {path}"))

    assert problem.startswith("sinks.lake.path: the checkpoint of sink `lake` is in /ck/")


def test_a_home_folder_that_nothing_expands_is_refused():
    assert told(GOOD.replace("path: /lake", "path: ~/lake")) == [f"sinks.lake.path: {NO_HOME}"]


def test_the_place_of_an_absent_value_is_that_of_the_nearest_mapping():
    nodes = tree(GOOD)

    assert place_in(nodes, "sinks", "lake", "path")[1] == "sinks.lake.path"
    assert place_in(nodes, "sinks", "lake", "table")[1] == "sinks.lake"
    assert place_in(nodes, "sinks", "none", "table")[1] == "sinks"


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        (("checkpoint: /ck", "checkpoint: 's3a:///ck'"), "spark.checkpoint"),
        (("trigger:", "dead_letter: { type: delta, path: 's3a:/dead' }\ntrigger:"),
         "dead_letter.path"),
        (("trigger:", "metrics: { table: 's3a:///m' }\ntrigger:"), "metrics.table"),
        (("transforms:", "  names: { type: delta, path: 's3a:///n', schema: id INT }\n"
          "transforms:"), "sources.names.path"),
        (("transforms:", "  rows: { type: delta, stream: true, path: 's3a:///n', schema: id INT }\n"
          "transforms:"), "sources.rows.path"),
        (("path: /lake", "path: 's3a:///{topic}'"), "sinks.lake.path"),
    ],
)  # fmt: skip
def test_a_malformed_url_is_a_problem_of_its_keyword(changed, path):
    _, _, problems = read(GOOD.replace(*changed))

    (found,) = (each for each in problems if "names no bucket" in each)
    assert found.startswith(f"{path}: `s3a:/")


def test_a_path_that_is_a_secret_is_not_in_its_problem():
    written = section("path: 's3a://'", "sink")
    node = written.table.nodes["path"]
    assert isinstance(node, Scalar)
    nodes = {"path": replace(node, is_secret=True)}
    reader = Reader(replace(written.table, nodes=nodes), "sink", [])

    reader.folder("path")

    assert said(reader) == ["path: it names no bucket: expected s3a://BUCKET/FOLDER"]

"""No folder that a pipeline writes is equal to another one or within it."""

from __future__ import annotations

import os

import pytest

from pipelines.config.output_paths import (
    NO_BUCKET,
    NO_HOME,
    folder,
    local_folder,
    path_problems,
    place_in,
)
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.sections import read, tree
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


@pytest.mark.parametrize("path", ["s3a://", "s3:///lake", "gs:////lake/", "abfss://"])
def test_a_path_of_a_store_without_a_bucket_is_refused(path):
    found = told(GOOD.replace("path: /lake", f'path: "{path}"'))
    assert found == [f"sinks.lake.path: {NO_BUCKET}"]


def test_the_place_of_an_absent_value_is_that_of_the_nearest_mapping():
    nodes = tree(GOOD)

    assert place_in(nodes, "sinks", "lake", "path")[1] == "sinks.lake.path"
    assert place_in(nodes, "sinks", "lake", "table")[1] == "sinks.lake"
    assert place_in(nodes, "sinks", "none", "table")[1] == "sinks"

"""One file, several places: what an environment replaces, and what is told of it."""

from __future__ import annotations

import pytest

from pipelines.base.errors import EXIT_USAGE, ConfigError, WrongUsageError
from pipelines.config.validate import read_pipeline
from pipelines.lint.lint import lint_file
from tests.unit.pipelines.config.bad_sinks import SINK_WORDS
from tests.unit.pipelines.config.test_validate import GOOD

ENVIRONMENTS = """\
environments:
  prod:
    spark: { master: "spark://there:7077", conf: { spark.sql.shuffle.partitions: 200 } }
    sources: { raw: { bootstrap: "${PROD_HOST}:9092", pattern: "orders_.*" } }
    sinks: { lake: { path: "s3a://lake/orders" } }
    trigger: { every: 5s }
  dev: {}
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(GOOD + ENVIRONMENTS)
    return file


def told(file, environment=None):
    problems = lint_file(file, {}, environment).problems
    return [str(problem).removeprefix(f"{file}:") for problem in problems]


def test_an_environment_replaces_what_it_says_and_leaves_the_rest(file):
    here = read_pipeline(file, {})
    there = read_pipeline(file, {"PROD_HOST": "h"}, "prod")

    assert (here.master, here.every_ms) == (None, None)
    assert there.master == "spark://there:7077"
    assert there.checkpoint == here.checkpoint
    assert there.conf == {"spark.sql.shuffle.partitions": "200"}
    assert there.sinks["lake"].path == "s3a://lake/orders"
    assert there.sinks["lake"].input == "clean"
    assert there.as_arguments == f"{file} --env prod"


def test_of_two_words_that_exclude_each_other_the_environments_wins(file):
    there = read_pipeline(file, {"PROD_HOST": "h"}, "prod")

    assert there.every_ms == 5_000
    assert (there.sources["raw"].topics, there.sources["raw"].pattern) == ((), "orders_.*")


def test_dead_letters_of_an_environment_are_in_the_catalog_instead_of_a_path(tmp_path):
    file = tmp_path / "f.yaml"
    letters = "dead_letter: { type: delta, path: /dead }\n"
    there = "environments: { prod: { dead_letter: { table: lake.dead } } }\n"
    file.write_text(GOOD + letters + there)

    here, prod = read_pipeline(file, {}), read_pipeline(file, {}, "prod")

    assert (here.dead_letter_path, here.dead_letter_table, here.dead_letters) == (
        "/dead", None, "/dead",
    )  # fmt: skip
    assert (prod.dead_letter_path, prod.dead_letter_table, prod.dead_letters) == (
        None, "lake.dead", "lake.dead",
    )  # fmt: skip


def test_lint_looks_at_every_environment_and_lets_only_the_asked_one_miss_variables(file):
    text = file.read_text()
    file.write_text(text.replace("every: 5s", "evry: 5s").replace('path: "s3a', 'pth: "s3a'))

    assert told(file) == [
        "20:22: environments.prod.sinks.lake.pth: unknown key `pth`; did you mean `path`? expected "
        f"one of: {SINK_WORDS}",
        "21:16: environments.prod.trigger.evry: unknown key `evry`; did you mean `every`? expected "
        "one of: available_now, once, every",
    ]
    assert told(file, "dev") == []
    assert told(file, "prod")[0] == (
        "19:35: environments.prod.sources.raw.bootstrap: ${PROD_HOST}: neither in `vars` nor in "
        "the environment, and without a default (${PROD_HOST:-…})"
    )


def test_a_place_in_an_environment_is_told_as_it_stands_there(file):
    with pytest.raises(ConfigError) as refused:
        read_pipeline(file, {"PROD_HOST": "a b"}, "prod")

    assert str(refused.value) == (
        f"{file}:19:34: environments.prod.sources.raw.bootstrap: expected host:port[,host:port]; "
        "found `a b:9092`"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prd", "no environment `prd`; did you mean `prod`?"),
        ("x", "no environment `x`; there are prod, dev"),
    ],
)
def test_an_environment_that_is_not_there_is_wrong_usage(file, name, message):
    with pytest.raises(WrongUsageError) as refused:
        read_pipeline(file, {}, name)

    assert str(refused.value) == message
    assert refused.value.exit_code == EXIT_USAGE


def test_variables_of_an_environment_are_seen_by_the_whole_file(tmp_path):
    file = tmp_path / "f.yaml"
    text = GOOD.replace("path: /lake", 'path: "${root}/lake"').replace(
        "name: orders", "name: orders\nvars: { root: /here }"
    )
    file.write_text(text + "environments: { prod: { vars: { root: /there } } }\n")

    assert read_pipeline(file, {}).sinks["lake"].path == "/here/lake"
    assert read_pipeline(file, {}, "prod").sinks["lake"].path == "/there/lake"

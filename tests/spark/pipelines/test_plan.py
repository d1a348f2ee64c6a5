"""What only Spark can say of a pipeline file: told with the file's line, before anything runs."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError, SetupError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.plan import plan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def planned(lab):
    return plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))


def test_the_plan_has_every_tables_columns(lab):
    rows, sums = planned(lab)

    assert rows.columns == (
        ("id", "int"),
        ("k", "string"),
        ("v", "int"),
        ("_topic", "string"),
        ("_partition", "int"),
        ("_offset", "bigint"),
    )
    assert [kind for _, kind in sums.columns] == [
        "string",
        "bigint",
        "bigint",
        "bigint",
        "int",
        "int",
    ]
    assert rows.dead_letters == lab.table("dead")
    assert sums.dead_letters is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "select value.*",
            "select value.*, nothing",
            r"lab.yaml:25:10: transforms.rows.sql: A column.*`nothing` cannot be resolved\. "
            r"Did you mean one of the following\? \[.*`value`.*\]$",
        ),
        (
            "select value.*",
            "selec value.*",
            r"lab.yaml:25:10: transforms.rows.sql: .*[Ss]yntax error",
        ),
        (
            "from events\n",
            "from elsewhere\n",
            r"transforms.rows.sql: no table `elsewhere`; there is `events`$",
        ),
        (
            "select value.*",
            "select value.vv",
            r"transforms.rows.sql: No such struct field `vv` in `id`, `k`, `v`$",
        ),
        (
            "id INT, k",
            "id INTEGERS, k",
            r"lab.yaml:21:38: sources.events.decode.value.schema: .*INTEGERS",
        ),
        (
            "id INT, k",
            "id INT, ID INT, k",
            r"lab.yaml:21:38: .*schema: `id` and `ID` are one column",
        ),
        (
            "topic as _topic",
            "topic as K",
            r"lab.yaml:25:10: transforms.rows.sql: column k is there ",
        ),
        ("where value.id >= 0", "group by all", r"GROUP BY needs more than one batch"),
        ("select value.*", "select distinct value.*", r"DISTINCT .* needs more than one batch"),
        ("from events\n", "from events limit 5 --\n", r"LIMIT needs more than one batch"),
        ("v_sum: sum(v)", "v_sum: sum(w)", r"sinks.sums: no column w in `rows`; it has: id, k, v"),
    ],
)
def test_what_spark_refuses_is_told_with_its_line(lab, old, new, message):
    text = lab.file.read_text()
    assert old in text
    lab.file.write_text(text.replace(old, new))

    with pytest.raises(ConfigError, match=message) as refused:
        planned(lab)

    for problem in refused.value.problems:
        assert not any(word in problem.message for word in ("JVM", "SQLSTATE", "DROP VIEW"))


def test_an_unreachable_broker_and_a_missing_topic_are_the_machines_fault(lab):
    lab.write_file(topics="topics: [none_such]")
    with pytest.raises(SetupError, match="topic none_such does not exist"):
        lab.run()

    lab.write_file(**{"${BOOTSTRAP}": "127.0.0.1:1"})
    with pytest.raises(SetupError, match=r"source `events` at 127\.0\.0\.1:1"):
        lab.run()

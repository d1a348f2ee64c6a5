"""What `lint` sees without Spark, beyond the words: literal complaints."""

from __future__ import annotations

import pytest

from pipelines.config.validate import read_pipeline
from pipelines.lint.lint import lint_file
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK, UPSERT
from tests.unit.pipelines.config.test_validate import GOOD

SQL = "sql: select value.* from raw }"
BLOCK = """\
  clean:
    inputs: [raw]
    sql: >-  # a note
      select value.*,

        topc  from raw
"""
CASES = {
    "a transform that nothing uses": (
        ("sinks:", "  idle: { inputs: [raw], sql: select topic from raw }\nsinks:"),
        ["13:3: transforms.idle: no sink uses it, directly or through a transform"],
    ),
    "a column to lie by that the table does not have": (
        ("mode: append", "mode: append, cluster_by: [ID, at]"),
        ["14:85: sinks.lake.cluster_by: no column `at` in the sink's table; it has: id"],
    ),
    "a column to lie by that is in the input alone": (
        (SINK, MERGE + "    cluster_by: [top, topic]\n"),
        ["21:23: sinks.lake.cluster_by: no column `topic` in the sink's table; it has: id, n, top"],
    ),
    "a source that nothing uses": (
        (
            "transforms:",
            "  idle: { type: josefine, bootstrap: h:1, topics: [x] }\ntransforms:",
        ),
        ["11:3: sources.idle: no sink uses it, directly or through a transform"],
    ),
    "a setting with a slip": (
        ("{ checkpoint: /ck }", "{ checkpoint: /ck, conf: { spark.sql.shufle.partitions: 2 } }"),
        [
            "3:35: spark.conf.spark.sql.shufle.partitions: Spark 4.2.0 and Delta 4.4.0 know no "
            "such setting; did you mean `spark.sql.shuffle.partitions`?"
        ],
    ),
    "a setting of Delta with a slip": (
        (
            "{ checkpoint: /ck }",
            "{ checkpoint: /ck, conf: { spark.databricks.delta.optimizeWrite.enable: true } }",
        ),
        [
            "3:35: spark.conf.spark.databricks.delta.optimizeWrite.enable: Spark 4.2.0 and Delta "
            "4.4.0 know no such setting; did you mean "
            "`spark.databricks.delta.optimizeWrite.enabled`?"
        ],
    ),
    "a field that the schema does not have": (
        (SQL, "sql: select value.idd from raw }"),
        ["12:45: transforms.clean.sql: `value` has no field `idd`; did you mean `id`?"],
    ),
    "a column in a folded text": (
        (SQL, "sql: 'select value.*,\n      topc\n    from raw' }"),
        ["13:7: transforms.clean.sql: no column `topc`; did you mean `topic`?"],
    ),
    "a column in quotes": (
        (SQL, 'sql: "select topc from raw" }'),
        ["12:40: transforms.clean.sql: no column `topc`; did you mean `topic`?"],
    ),
    "a column in a block": (
        (GOOD[GOOD.index("  clean:") : GOOD.index("sinks:")], BLOCK),
        ["17:9: transforms.clean.sql: no column `topc`; did you mean `topic`?"],
    ),
    "a table that is no input": (
        (SQL, "sql: select value.* from rwa }"),
        ["12:52: transforms.clean.sql: no table `rwa`; did you mean `raw`?"],
    ),
    "SQL that is none": (
        (SQL, "sql: select value.* form raw }"),
        ["12:52: transforms.clean.sql: SQL that cannot be read near `raw`"],
    ),
    "a key that is no column": (
        (SINK, MERGE.replace("[id]", "[idd]")),
        ["19:12: sinks.lake.keys[0]: no column `idd` in `clean`; did you mean `id`?"],
    ),
    "an aggregate of no column": (
        (SINK, MERGE.replace("max(id)", "max(x)")),
        ["20:36: sinks.lake.aggregate.top: no column `x` in `clean`; it has `id`"],
    ),
    "an order by no column": (
        (SINK, UPSERT),
        [
            "20:16: sinks.lake.order_by: no column `at` in `clean`; it has `id`",
            "20:20: sinks.lake.order_by: no column `_offset` in `clean`; it has `id`",
            "21:18: sinks.lake.delete_when: no column `op`; there is `id`",
        ],
    ),
    "a condition that cannot be read": (
        (SINK, UPSERT.replace("[at, _offset]", "top").replace("op = 'd'", "id = = 1")),
        [
            "20:15: sinks.lake.order_by: no column `top` in `clean`; it has `id`",
            "21:23: sinks.lake.delete_when: SQL that cannot be read near `=`",
        ],
    ),
    "a column twice": (
        (SQL, "sql: 'select value.*, value.id from raw' }"),
        ["14:3: sinks.lake.inputs: column `id` is there twice in `clean`"],
    ),
    "a value that is not decoded": (
        ('    decode:\n      value: { format: json, schema: "id INT", on_error: fail }\n', ""),
        ["10:39: transforms.clean.sql: `value` has no fields, so no `value.*`"],
    ),
}


def linted(tmp_path, text):
    file = tmp_path / "f.yaml"
    file.write_text(text)
    problems = sorted(lint_file(file, {}).problems, key=lambda p: (p.place.line, p.place.column))
    return [str(problem).removeprefix(f"{file}:") for problem in problems]


@pytest.mark.parametrize("name", CASES)
def test_lint_tells_it_with_its_place(name, tmp_path):
    (old, new), expected = CASES[name]
    assert old in GOOD

    assert linted(tmp_path, GOOD.replace(old, new, 1)) == expected


def test_problems_of_every_kind_are_told_in_one_go(tmp_path):
    text = GOOD.replace("version: 1", "version: 2").replace("localhost:9092", "${HOST}")
    text = text.replace(SQL, "sql: select value.idd from raw }").replace("/ck", "/lake/ck")

    assert [line.split(": ")[1] for line in linted(tmp_path, text)] == [
        "version", "spark.checkpoint", "sources.raw.bootstrap", "transforms.clean.sql",
    ]  # fmt: skip


def test_a_circle_ends_the_looking_for_columns(tmp_path):
    text = GOOD.replace("inputs: [raw]", "inputs: [raw, clean]")

    assert linted(tmp_path, text) == [
        "12:20: transforms.clean.inputs: `clean` is its own input, directly or through others"
    ]


def test_a_run_goes_on_with_what_harms_no_row(tmp_path):
    file = tmp_path / "f.yaml"
    old, new = CASES["a transform that nothing uses"][0]
    file.write_text(GOOD.replace(old, new))

    assert list(read_pipeline(file, {}).transforms) == ["clean", "idle"]


def test_headers_are_columns_where_the_source_has_them(tmp_path):
    text = GOOD.replace(SQL, "sql: 'select headers.key, headers.vaule from raw' }")

    assert linted(tmp_path, text.replace("topics:", "headers: true\n    topics:")) == [
        "13:61: transforms.clean.sql: `headers` has no field `vaule`; did you mean `value`?"
    ]

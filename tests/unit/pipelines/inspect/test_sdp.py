"""`pipeline export --sdp`: what is written is what Spark's API takes, what is missing is told."""

from __future__ import annotations

import ast
import json

import pytest
import yaml
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import Sink, StreamingTable, TemporaryView

from josefine_cli.main import run
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.sdp import CODE, SPEC, export
from tests.unit.pipelines.config.bad_sinks import SINK, UPSERT
from tests.unit.pipelines.config.test_validate import GOOD

FIELDS = {"name", "storage", "catalog", "database", "schema", "configuration", "libraries"}
"""What `spark-pipelines` takes (pyspark/pipelines/cli.py, 4.2.0), which imports only with gRPC."""
ALWAYS = (
    "sinks.lake: offsets are in `storage` alone: it starts at `start`, also where the table has "
    "the rows; a lost `storage` begins again"
)


class Registry(GraphElementRegistry):
    """Spark's own, which remembers in place of telling a server."""

    def __init__(self):
        self.outputs, self.flows = [], []

    def register_output(self, output):
        self.outputs.append(output)

    def register_flow(self, flow: Flow):
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow):
        raise AssertionError(flow)

    def register_sql(self, sql_text, file_path):
        raise AssertionError(sql_text)


def pipeline_of(text):
    return validate(load(text, "f.yaml", {}))


def graph_of(made, given=None):
    """What the file of Python registers, and its text."""
    (name,) = [name for name in made.files if name.startswith(CODE)]
    text = made.files[name]
    registry = Registry()
    with graph_element_registration_context(registry):
        exec(compile(text, name, "exec"), {"__name__": "transformations", **(given or {})})
    return registry, text


def kinds(registry):
    return [(type(each), each.name) for each in registry.outputs]


def test_a_file_becomes_views_and_a_sink_with_its_flow():
    made = export(pipeline_of(GOOD))
    registry, text = graph_of(made)

    assert kinds(registry) == [
        (TemporaryView, "raw"), (TemporaryView, "clean"), (Sink, "lake_sink"),
    ]  # fmt: skip
    assert [flow.target for flow in registry.flows] == ["raw", "clean", "lake_sink"]
    sink = registry.outputs[-1]
    assert (sink.format, sink.options) == ("delta", {"path": "/lake"})
    assert made.sinks == ("lake",)
    assert ast.get_docstring(ast.parse(text)).endswith("\n".join(f"- {m}" for m in made.missing))


def test_the_specification_has_sparks_fields_and_says_what_is_missing():
    conf = (
        "spark: { checkpoint: /ck, conf: { spark.sql.shuffle.partitions: 2, spark.x: 'a: \"b\"' } }"
    )
    made = export(pipeline_of(GOOD.replace("spark: { checkpoint: /ck }", conf)))
    text = made.files[SPEC]
    said = yaml.safe_load(text)

    assert said.keys() <= FIELDS
    assert said["storage"] == "file:///ck/orders.sdp"
    assert said["configuration"] == {"spark.sql.shuffle.partitions": "2", "spark.x": 'a: "b"'}
    assert said["libraries"] == [{"glob": {"include": f"{CODE}/**"}}]
    comments = [line[4:] for line in text.splitlines() if line.startswith("# - ")]
    assert comments == [*made.missing]


def test_a_table_of_the_catalog_is_one_of_the_graph():
    text = GOOD.replace("path: /lake", "table: db.lake, cluster_by: [id]")
    registry, _ = graph_of(export(pipeline_of(text)))

    table = registry.outputs[-1]
    assert (type(table), table.name, table.format) == (StreamingTable, "db.lake", "delta")
    assert table.cluster_by == ["id"]


def test_names_that_meet_in_the_graph_are_told_apart():
    """It has one space for views, tables and sinks; the SELECTs keep the file's names."""
    text = GOOD.replace("clean", "lake_sink").replace(
        SINK.replace("clean", "lake_sink"),
        SINK.replace("clean", "lake_sink")
        + "  raw: { type: delta, inputs: [raw], table: raw, mode: append }\n",
    )
    registry, code = graph_of(export(pipeline_of(text)))

    assert len({name for _, name in kinds(registry)}) == len(registry.outputs) == 4
    assert "WITH raw AS (SELECT * FROM STREAM(raw_))" in code
    assert [flow.target for flow in registry.flows] == ["raw_", "lake_sink", "lake_sink_", "raw"]


def test_texts_come_through_as_they_are():
    sql = "select value.id, 'it''s \\\"\\\"\\\" 😀 \\\\n' as t -- note\\n from raw;"
    registry, code = graph_of(
        export(pipeline_of(GOOD.replace("select value.* from raw", f'"{sql}"')))
    )
    literals = [n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)]

    (found,) = [each for each in literals if str(each).startswith("WITH")]
    assert found.endswith("select value.id, 'it''s \"\"\" 😀 \\n' as t -- note\n from raw\n)")
    assert len(registry.flows) == 3


MORE = """\
checks:
  seen: { on: clean, expr: id > 0, action: warn }
  kept: { on: clean, expr: id > 1, action: drop }
  sent: { on: raw, expr: value.id > 2, action: dead_letter }
  sure: { on: raw, expr: value.id > 3, action: fail }
dead_letter: { type: delta, path: /dead }
restart: { attempts: 2 }
metrics: { log: json }
tests:
  - { name: t, given: { raw: [] }, expect: { clean: { count: 0 } } }
"""


def test_what_does_less_than_in_a_run_is_told_by_its_name():
    text = GOOD.replace("topics: [orders]", "topics: [orders]\n    start: table\n"
                        "    on_data_loss: skip_and_record\n    commit_group: g")  # fmt: skip
    text = text.replace("on_error: fail", "strict: true, on_error: dead_letter")
    text = text.replace("available_now: true", "every: 5s").replace(
        "mode: append", "mode: append, schema_evolution: add, vacuum: { every: 9 batches }"
    )
    made = export(pipeline_of(text + MORE), has_secrets=True)

    assert made.missing == (
        "secrets of f.yaml: not written, the settings that have one are missing",
        "sources.raw.decode.value: bad records are left out, without a dead letter",
        "sources.raw.start: `table` is refused by the connector: write another one",
        "sources.raw.on_data_loss: does nothing",
        "sources.raw.commit_group: does nothing",
        "checks.seen: not counted",
        "checks.kept: its rows are left out and not counted",
        "checks.sent: its rows are left out, without a dead letter",
        "checks.sure: stops nothing",
        ALWAYS,
        "sinks.lake.schema_evolution: does nothing",
        "sinks.lake.vacuum: does nothing",
        "dead_letter: there are no dead letters",
        "trigger.every: each run reads what is there, then ends",
        "restart: who starts the run begins it again",
        "metrics: none",
        "tests: josefine pipeline test runs them",
    )
    _, code = graph_of(made)
    assert [f'rows.where("{expr}")' in code for expr in ("id > 1", "value.id > 2", "id > 0")] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (SINK, UPSERT, "mode upsert"),
        (
            "mode: append",
            "mode: append, deduplicate: { keys: [id] }",
            "`deduplicate` looks into the table",
        ),
        (SINK, "  lake: { type: josefine, inputs: [clean], topic: t }\n", "it writes a topic"),
        (
            '{ format: json, schema: "id INT", on_error: fail }',
            "{ format: avro, schema: '{type: record, name: r, fields: [{name: id, type: int}]}' }",
            "source `raw` is Avro",
        ),
        (
            "format: json, ",
            "format: csv, ",
            "source `raw` has CSV values: Spark's from_csv stores some otherwise",
        ),
        (
            "on_error: fail }",
            'on_error: fail }\n      key: { format: json, schema: "id INT" }',
            "source `raw` has JSON keys: Spark's from_json stores some otherwise",
        ),
        (
            "id INT",
            "id INT, more VARIANT",
            "source `raw` has a type that the connector does not decode",
        ),
        (
            "id INT",
            "id INT, code CHAR(3)",
            "source `raw` has a CHAR, a VARCHAR or a collation, which the connector does not know",
        ),
        (
            "on_error: fail }",
            "on_error: fail, registry: 'http://r' }",
            "source `raw` is in a registry's frame",
        ),
        (
            "on_error: fail }",
            "on_error: fail, explode: true }",
            "source `raw` has an array in each value",
        ),
        (
            "type: josefine\n    bootstrap: localhost:9092\n    topics: [orders]",
            "type: file\n    path: /in",
            "source `raw` is of type file",
        ),
    ],
)
def test_a_sink_that_has_no_counterpart_is_left_out_with_the_reason(old, new, why):
    assert old in GOOD
    new = new.replace("{type: record, name: r, fields: [{name: id, type: int}]}", json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}))  # fmt: skip
    made = export(pipeline_of(GOOD.replace(old, new)))

    assert (made.files, made.sinks) == ({}, ())
    assert made.missing[0] == f"sinks.lake is left out: {why}"


def test_the_command_writes_a_folder_once_and_says_what_is_missing(tmp_path, capsys):
    file, folder = tmp_path / "f.yaml", tmp_path / "sdp"
    file.write_text(GOOD)

    assert run(["pipeline", "export", str(file), "--sdp", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == [
        f"{folder}/spark-pipeline.yml: written", f"{folder}/transformations/orders.py: written",
    ]  # fmt: skip
    assert f"  {ALWAYS}\n" in said
    assert run(["pipeline", "export", str(file), "--sdp", str(folder)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_the_command_refuses_a_file_of_which_no_sink_maps(tmp_path, capsys):
    file, folder = tmp_path / "f.yaml", tmp_path / "sdp"
    file.write_text(GOOD.replace(SINK, UPSERT))

    assert run(["pipeline", "export", str(file), "--sdp", str(folder)]) == 1
    assert "sinks.lake is left out: mode upsert" in capsys.readouterr().err
    assert not folder.exists()


def test_a_secret_is_neither_asked_for_nor_written(tmp_path, capsys):
    file, folder = tmp_path / "f.yaml", tmp_path / "sdp"
    file.write_text(GOOD.replace("localhost:9092", "${secret:env:NOBODY_HAS_IT}"))

    assert run(["pipeline", "export", str(file), "--sdp", str(folder), "--json"]) == 0
    missing = json.loads(capsys.readouterr().out)["missing"]
    assert "sources.raw.bootstrap: a secret, write it into the file yourself" in missing
    assert not any("NOBODY_HAS_IT" in each.read_text() for each in folder.rglob("*.*"))

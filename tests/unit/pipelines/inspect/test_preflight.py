"""`josefine pipeline check`: each fact's one line, and the folders and tables of this machine."""

from __future__ import annotations

import json
import re

import pytest
from pyspark import SparkContext

from josefine_broker.base.ids import TopicPartition
from josefine_cli.main import run
from pipelines.base.finding import ABSENT, FORBIDDEN
from pipelines.config.validate import read_pipeline
from pipelines.inspect import preflight_probe
from pipelines.inspect.preflight import Facts, FolderFacts, SourceFacts, findings
from pipelines.inspect.writable_folders import folders
from tests.support.schema_registry import serving
from tests.unit.pipelines.config.test_validate import GOOD

LOCAL = GOOD.replace(
    """    type: josefine
    bootstrap: localhost:9092
    topics: [orders]
""",
    "    type: memory\n    records: [ { value: { id: 1 } } ]\n",
)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(GOOD.replace("/ck", f"{tmp_path}/ck").replace("/lake", f"{tmp_path}/lake"))
    return file


def lines(file, *, seen=None, folders=(), machine=""):
    pipeline = read_pipeline(file, {})
    seen = seen or SourceFacts(partitions={"orders": 3})
    facts = Facts(machine=machine, sources={"raw": seen}, folders=folders)
    return [str(each) for each in findings(pipeline, facts)]


def test_what_is_well_is_one_line_each(file):
    folder = FolderFacts(key="sinks.lake.path", path="/lake", is_table=True, version=7)

    assert lines(file, folders=(folder,)) == [
        "ok: this machine has PySpark, Delta and a Java that Spark takes",
        "ok: source `raw`: orders (3 partitions) can be read",
        "ok: sinks.lake.path: /lake can be written, its table read, at version 7",
    ]


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (
            SourceFacts(unreachable="localhost:9092: nobody there"),
            "error: source `raw`: localhost:9092: nobody there; start the brokers, or fix "
            "`bootstrap` at {file}:5:3",
        ),
        (
            SourceFacts(troubles={"orders": ABSENT}),
            "error: source `raw`: topic orders does not exist; "
            "josefine topics create orders -b localhost:9092",
        ),
        (
            SourceFacts(troubles={"orders": FORBIDDEN}),
            "error: source `raw`: no right to read topic orders; "
            "josefine acls add --user USER --operation read --topic orders -b localhost:9092",
        ),
        (
            SourceFacts(leaderless=(TopicPartition("orders", 2),)),
            "error: source `raw`: no broker leads orders-2; start a broker that has a replica",
        ),
        (
            SourceFacts(),
            "error: source `raw`: orders: nothing to read there; "
            "create it, or fix the source at {file}:5:3",
        ),
    ],
)
def test_a_source_that_cannot_be_read_says_why_and_what_to_do(file, seen, line):
    place = read_pipeline(file, {}).sources["raw"].place

    told = lines(file, seen=seen)[1]

    assert told == line.format(file=file).replace(f"{file}:5:3", str(place))


def test_a_group_that_may_not_be_read_is_a_warning_beside_the_topics(file):
    seen = SourceFacts(partitions={"orders": 1}, group_trouble={"orders.lake": "no right"})

    assert [line.split(":")[0] for line in lines(file, seen=seen)] == ["ok", "ok", "warning"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"cause": "/x is not a folder"}, "error: K: P cannot be written: /x is not a folder; let"),
        ({"table_trouble": "cut"}, "error: K: P cannot be read: cut; restore the table"),
        ({"is_local": False}, "skipped: K: only Spark reaches P"),
        ({"not_opened": "pip install x"}, "skipped: K: P can be written, its table was not opened"),
        ({"is_table": True}, "ok: K: P can be written; the run makes the table"),
        ({}, "ok: K: P can be written"),
    ],
)
def test_a_folder_says_whether_a_run_can_use_it(file, facts, words):
    (line,) = lines(file, folders=(FolderFacts(key="K", path="P", **facts),))[2:]

    assert line.startswith(words)


def test_tables_of_the_catalog_are_not_looked_at(file):
    text = re.sub(r"path: \S+/lake", "table: lake.rows", file.read_text())
    file.write_text(text + "dead_letter: { type: delta, table: lake.dead }\n")

    skipped = [line for line in lines(file) if line.startswith("skipped:")]
    assert skipped == [
        "skipped: sinks.lake.table: lake.rows: only Spark's catalog knows where it is",
        "skipped: dead_letter.table: lake.dead: only Spark's catalog knows where it is",
    ]


def log(folder, *actions, version=0):
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(action) for action in actions)
    (log / f"{version:020d}.json").write_text(text)


def empty_table(folder):
    column = {"name": "id", "type": "integer", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    made = {"id": "a", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    log(
        folder,
        {"protocol": protocol},
        {"metaData": {**made, "partitionColumns": [], "configuration": {}}},
    )


def table_facts(file):
    pipeline = read_pipeline(file, {})
    return [
        preflight_probe._folder(pipeline, each, {})
        for each in folders(pipeline, {})
        if each.is_table
    ]


def test_a_table_is_opened_by_delta_rs(file, tmp_path):
    empty_table(tmp_path / "lake")

    (seen,) = table_facts(file)

    assert (seen.version, seen.table_trouble, seen.not_opened) == (0, "", "")


def test_a_damaged_log_and_files_without_a_log_are_told(file, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "part-0.parquet").touch()
    (seen,) = table_facts(file)
    assert seen.table_trouble == "it has files (part-0.parquet) and no Delta log"

    log(tmp_path / "lake")
    (tmp_path / "lake/_delta_log" / f"{0:020d}.json").write_text('{"protocol": {"minRea')
    (seen,) = table_facts(file)
    assert seen.table_trouble
    assert "\n" not in seen.table_trouble


def test_a_log_before_its_first_commit_is_a_table_to_be_made(file, tmp_path):
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)

    (seen,) = table_facts(file)

    assert (seen.version, seen.table_trouble) == (None, "")


def test_a_check_without_brokers_says_so_and_starts_no_spark(file, tmp_path, capsys):
    gateway = SparkContext._gateway  # of other tests
    file.write_text(file.read_text().replace("localhost:9092", "127.0.0.1:1"))
    assert run(["pipeline", "check", str(file), "--json"]) == 79
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [each["level"] for each in told["findings"]][1:] == ["error", "ok", "ok"]

    text = LOCAL.replace("/ck", f"{tmp_path}/ck").replace("/lake", f"{tmp_path}/lake")
    file.write_text(text)
    assert run(["pipeline", "check", str(file)]) == 0
    assert "ok: source `raw`: raw (1 partition) can be read" in capsys.readouterr().out
    assert not (tmp_path / "lake").exists()
    assert SparkContext._gateway is gateway


def test_a_wrong_file_is_78(file):
    file.write_text("version: 1\n")

    assert run(["pipeline", "check", str(file)]) == 78


AVRO = """decode: { value: { format: avro, registry: "REGISTRY",
      schema: '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}' } }"""


def registries_of(file, registry, kind="type: file\n    path: /nowhere"):
    file.write_text(
        f"""version: 1
name: x
spark: {{ checkpoint: /ck }}
sources:
  raw:
    {kind}
    {AVRO.replace("REGISTRY", registry)}
transforms: {{ rows: {{ inputs: [raw], sql: "select value.id from raw" }} }}
sinks: {{ lake: {{ type: delta, inputs: [rows], path: /lake, mode: append }} }}
trigger: {{ available_now: true }}
"""
    )
    return preflight_probe.inquire(read_pipeline(file, {}), {}).sources["raw"].registries


def test_a_registry_is_asked_as_in_a_run_and_told_without_its_password(file):
    with serving({}) as server:
        url = server.url("me:hush")
        assert registries_of(file, url) == {server.url()[:-1]: ""}
        assert registries_of(file, url, "type: memory\n    records: [ { value: { id: 1 } } ]") == {}

    why = f"the schema registry {server.url()[:-1]} cannot be reached: Connection refused"
    assert registries_of(file, url) == {server.url()[:-1]: why}


def test_each_registry_is_one_line(file):
    seen = SourceFacts(partitions={"orders": 3}, registries={"http://a:1": "", "http://b:1": "no"})

    assert lines(file, seen=seen)[2:] == [
        "ok: source `raw`: the schema registry http://a:1 answers",
        f"error: source `raw`: no; start it, or fix `registry` below {file}:5:3",
    ]

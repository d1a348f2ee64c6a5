"""What a preview looks at and how it is told, without Spark."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_cli.main import run
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.preview import Preview, input_of, newest
from pipelines.sources.josefine import Topics
from pipelines.sources.local_records import Lines, Rate
from pipelines.sources.newest_records import local_rows
from tests.unit.pipelines.config.test_validate import GOOD

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_preview_begins_so_many_records_before_the_end_and_not_before_the_first():
    topics = Topics(earliest={A: 95, B: 0}, latest=TopicOffsets(ends={A: 100, B: 100}))

    assert newest(topics, 10) == {A: 95, B: 90}


def test_of_a_rate_the_newest_and_of_files_the_first_records_are_taken(tmp_path):
    (tmp_path / "a.jsonl").write_text("1\n22\n333\n")
    lines = Lines(path=str(tmp_path))
    rate = Rate(rows_per_second=10)

    assert [row[1] for row in local_rows(lines, lines.look(0).ends, 2)] == [b"1", b"22"]
    assert [row[4] for row in local_rows(rate, {TopicPartition("rate", 0): 70}, 3)] == [67, 68, 69]


def test_a_sinks_rows_are_those_of_its_input():
    pipeline = validate(load(GOOD, "f.yaml", {}))
    inputs = [input_of(pipeline, node) for node in ("raw", "clean", "lake")]

    assert inputs == ["raw", "clean", "clean"]


def test_a_node_that_is_not_there_is_wrong_usage_before_spark_starts(tmp_path, capsys):
    file = tmp_path / "f.yaml"
    file.write_text(GOOD)

    assert run(["pipeline", "preview", str(file), "cleen"]) == 2

    said = capsys.readouterr().err
    assert f"{file} has no source, transform or sink `cleen`; did you mean `clean`?" in said


def test_cells_are_texts_as_they_are_and_all_else_as_json():
    rows = ({"a": "x", "b": {"c": [1, None]}, "d": None},)
    shown = Preview(node="n", columns={"a": "", "b": "", "d": ""}, rows=rows, bad={})

    assert shown.cells() == [["x", '{"c": [1, null]}', "null"]]

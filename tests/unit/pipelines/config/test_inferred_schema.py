"""The schema of JSON records that were seen, and the file that is written from it."""

import json
from pathlib import Path

import pytest

from pipelines.config.inferred_schema import columns_of, ddl, pipeline_text
from pipelines.lint.lint import lint_file


def schema_of(*records: str) -> str:
    columns, _ = columns_of(each.encode() for each in records)
    return ddl(columns)


@pytest.mark.parametrize(
    ("records", "schema"),
    [
        (['{"a": 1}'], "a BIGINT"),
        (['{"a": 1}', '{"a": 2.5}'], "a DOUBLE"),
        (['{"a": true}', '{"a": 1}'], "a STRING"),
        (['{"a": null}', '{"a": false}'], "a BOOLEAN"),
        (['{"a": null}'], "a STRING"),
        (['{"a": 9223372036854775808}'], "a STRING"),
        (['{"a": "2026-01-01T00:00:00Z"}'], "a STRING"),
        (['{"a": 1}', '{"b": "x", "a": 3}'], "a BIGINT, b STRING"),
        (['{"a": [1, 2.5, null]}'], "a ARRAY<DOUBLE>"),
        (['{"a": []}'], "a ARRAY<STRING>"),
        (['{"a": []}', '{"a": [1]}'], "a ARRAY<BIGINT>"),
        (['{"a": {}}'], "a STRING"),
        (['{"a": {}}', '{"a": {"b": 1}}'], "a STRUCT<b: BIGINT>"),
        (['{"a": [[1], ["x"]]}'], "a ARRAY<ARRAY<STRING>>"),
        (['{"a": {"b": 1}}', '{"a": {"c d": "x"}}'], "a STRUCT<b: BIGINT, `c d`: STRING>"),
        (['{"a": {"b": 1}}', '{"a": "x"}'], "a STRING"),
        (['{"Id": 1, "id": 2}'], "Id BIGINT"),
        (['{"a`b": 1}'], "`a``b` BIGINT"),
        (["{}", '{"a": 1}'], "a BIGINT"),
        (["{" + '"a": {' * 20 + "}" * 21], "a " + "STRUCT<a: " * 15 + "STRING" + ">" * 15),
    ],
)
def test_a_column_is_of_the_narrowest_type_that_holds_every_value(
    records: list[str], schema: str
) -> None:
    assert schema_of(*records) == schema
    assert schema_of(*reversed(records)).count(" ") == schema.count(" ")


def test_values_that_are_no_objects_are_counted_and_left_out() -> None:
    columns, others = columns_of([b'{"a": 1}', None, b"", b"[1]", b"text", b"\xff", b"[" * 100_000])

    assert (ddl(columns), others) == ("a BIGINT", 6)


@pytest.mark.parametrize("topic", ["orders", "1.Orders-eu", "null", "__", "records", "rows"])
def test_the_written_file_is_good_whatever_the_topic_and_the_fields_are_called(
    topic: str, tmp_path: Path
) -> None:
    record = {"id": 1, "a b": "x", 'q"`': {"x-y": [1.5]}, "_offset": 3, "Ünï": None, "select": True}
    columns, _ = columns_of([json.dumps(record).encode()])
    file = tmp_path / "orders.yaml"
    file.write_text(pipeline_text(topic, "127.0.0.1:9092", columns, "one record"))

    examined = lint_file(file, {}, None)

    assert examined.problems == []
    (source,) = examined.pipeline.sources.values()
    assert [*source.topics] == [topic]
    assert "offset as _offset" not in file.read_text()
    assert "partition as _partition" in file.read_text()

"""Several types in one topic: rows of one, the others dead letters or counted, over real tables."""

from __future__ import annotations

import json

import pytest

from josefine_arrow.formats.confluent.framing import framed
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import replays
from pipelines.formats.decode import bad_rows
from pipelines.run.run import run_pipeline
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of
from tests.spark.pipelines.conftest import Quiet
from tests.support.schema_registry import serving

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TYPES = json.dumps(
    [
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]},
        {"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]},
    ]
)
FILE = """\
version: 1
name: types
spark: {{ checkpoint: "{lab}/ck" }}
sources:
  events:
    type: memory
    records: [{{ value: {{ id: 1 }} }}, {{ value: {{ page: x }} }}, {{ value: {{ id: 2 }} }}, {{ }},
              {{ value: not Avro }}]
    decode:
      value: {{ format: avro, schema: '{types}', type: Order, other_types: {others},
               on_error: dead_letter, tombstones: true }}
transforms: {{ orders: {{ inputs: [events], sql: "select value.id, offset as o from events" }} }}
sinks: {{ orders: {{ type: delta, inputs: [orders], path: "{lab}/orders", mode: append }} }}
dead_letter: {{ type: delta, path: "{lab}/dead" }}
trigger: {{ available_now: true }}
"""
ROWS = [(0, 1), (2, 2), (3, None)]
NOT_AVRO = (4, "the record: no type 55 in a union of 2")


JSON_FILE = """\
version: 1
name: types
spark: {{ checkpoint: /ck }}
sources:
  events:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    decode:
      value: {{ format: json, schema: "id INT, more VARIANT", registry: '{registry}', type: Order,
               other_types: {others}, on_error: dead_letter }}
transforms: {{ orders: {{ inputs: [events], sql: "select value.id, offset as o from events" }} }}
sinks: {{ orders: {{ type: delta, inputs: [orders], path: /orders, mode: append }} }}
dead_letter: {{ type: delta, path: /dead }}
trigger: {{ available_now: true }}
"""


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize("others", ["skip", "dead_letter"])
def test_framed_json_of_another_title_is_skipped_or_a_dead_letter_with_its_type(
    spark, tmp_path, others
):
    titled = {1: {"title": "Order"}, 2: {"$ref": "r.json"}, 3: {"$ref": "gone.json"}}
    schemas = {
        number: {"schemaType": "JSON", "schema": json.dumps(each), "references": [
            {"name": "r.json", "subject": "r", "version": 1}]}
        for number, each in titled.items()
    }  # fmt: skip
    refund = {"schemaType": "JSON", "schema": '{"title": "Refund"}'}
    sent = [framed(1, b'{"id": 5, "more": [1]}'), framed(2, b'{"id": 6}'), framed(3, b'{"id": 7}'),
            framed(1, b'{"id": "x"}'), b'{"id": 8}', None]  # fmt: skip
    file = tmp_path / "f.yaml"

    with serving(schemas, subjects={"r/versions/1": refund}) as registry:
        file.write_text(JSON_FILE.format(registry=registry.url(), others=others))
        source = read_pipeline(file, {}).sources["events"]
        reading = reading_of(source)
        wide = dataframes.empty_source(spark, source).schema
        records = [(None, data, "a", 0, offset, None, 0) for offset, data in enumerate(sent)]
        rows = dataframes.parse(spark.createDataFrame(records, wide).coalesce(1), reading)
        good = dataframes.good_rows(rows, reading)
        good = good.selectExpr("offset", "value.id", "to_json(value.more)").collect()
        bad = bad_rows(rows, reading, source.name).select("offset", "reason").collect()

    assert [tuple(row) for row in good] == [(0, 5, "[1]")]
    assert {row.offset: row.reason for row in bad} == {
        **({1: "a Refund, expected a Order"} if others == "dead_letter" else {}),
        2: "schema 3 refers to `gone.json`, which is in none of its references",
        3: "does not fit the schema: id INT",
        4: "begins with 0x7b, expected 0x00 and a schema's number",
        5: "the value is null",
    }


def pipeline(lab, others):
    file = lab / "types.yaml"
    file.write_text(FILE.format(lab=lab, types=TYPES, others=others))
    return read_pipeline(file, {})


def rows(spark, path, offset, *columns):
    """In the order of their offsets."""
    found = spark.read.format("delta").load(str(path)).orderBy(offset).select(offset, *columns)
    return [tuple(row) for row in found.collect()]


def test_records_of_other_types_are_skipped_and_counted(spark, tmp_path):
    result = run_pipeline(spark, pipeline(tmp_path, "skip"), Quiet())

    totals = result.sinks["orders"]
    assert (totals.records, totals.rows, totals.skipped, totals.dead_letters) == (5, 3, 1, 1)
    assert rows(spark, tmp_path / "orders", "o", "id") == ROWS
    assert rows(spark, tmp_path / "dead", "offset", "reason") == [NOT_AVRO]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_dead_letters_of_other_types_name_theirs_and_a_replay_with_skip_makes_no_row(
    spark, tmp_path
):
    run_pipeline(spark, pipeline(tmp_path, "dead_letter"), Quiet())
    assert rows(spark, tmp_path / "dead", "offset", "reason") == [
        (1, "a Visit, expected a Order"), NOT_AVRO,
    ]  # fmt: skip

    (outlook,) = replays(spark, pipeline(tmp_path, "skip"), (), lambda replay: replay.run())

    assert [letter.offset for letter in outlook.planned] == [1]
    assert rows(spark, tmp_path / "orders", "o", "id") == ROWS

"""Values and keys of every format: what is taken, what becomes of the rest, in a file's tests."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException

from josefine_arrow.formats.avro.schema import parse_record
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent.framing import framed
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.formats.decode import bad_rows
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from pipelines.model.retry_policy import AWAY, restart_of
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of
from tests.support.schema_registry import serving
from tests.unit.josefine_arrow.formats.debezium.test_envelope import envelope
from tests.unit.josefine_arrow.formats.protobuf.test_decoder import descriptors

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = r'''
version: 1
name: formats
spark: { checkpoint: /ck }
sources:
  lines:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    decode:
      key: { format: json, schema: "zone STRING" }
      value: { format: csv, schema: "id INT, price DECIMAL(6,2), name STRING", separator: ";",
               on_error: dead_letter, tombstones: true }
  words:
    type: josefine
    bootstrap: nowhere:1
    topics: [b]
    decode: { value: { format: string, on_error: "null" }, key: { format: string } }
  events:
    type: josefine
    bootstrap: nowhere:1
    topics: [c]
    decode:
      value: { format: avro, schema: event.avsc, on_error: dead_letter, tombstones: true }
      key: { format: avro, schema: event.avsc, registry: "http://nowhere:1" }
  orders:
    type: josefine
    bootstrap: nowhere:1
    topics: [d]
    decode:
      value: { format: protobuf, schema: shop.desc, message: shop.Order, on_error: dead_letter }
transforms:
  ordered: { inputs: [orders], sql: "select value.*, offset as o from orders" }
  rows:
    inputs: [lines]
    sql: select key.zone as zone, value.*, value is null as gone, offset as o from lines
  happened: { inputs: [events], sql: "select value.*, key.id as key, offset as o from events" }
  spoken: { inputs: [words], sql: "select upper(value) as word, key, offset as o from words" }
sinks:
  rows: { type: delta, inputs: [rows], path: /t/rows, mode: append }
  spoken: { type: delta, inputs: [spoken], path: /t/spoken, mode: append }
  happened: { type: delta, inputs: [happened], path: /t/events, mode: append }
  ordered: { type: delta, inputs: [ordered], path: /t/ordered, mode: append }
dead_letter: { type: delta, path: /t/dead }
trigger: { available_now: true }
tests:
  - name: messages
    given:
      orders:
        - { value: { id: 1, kind: SALE, at: "2026-01-01T00:00:00Z", lines: [ { sku: a } ] } }
        - { value: "no message" }
        - { value: "" }
    expect:
      ordered:
        columns: subset
        rows:
          - { id: 1, kind: SALE, at: 2026-01-01T00:00:00Z, lines: [ { sku: a } ], big: 0, o: 0 }
          - { id: 0, kind: UNKNOWN, lines: [], big: 0, o: 2 }
      dead_letter:
        columns: subset
        rows: [ { offset: 1, value: no message } ]
  - name: lines
    given:
      lines:
        - { key: '{"zone": "a"}', value: "1;2.5;x" }
        - { value: '2;;"say ""y;es"""' }
        - { value: "3;1e2;\n" }
        - { key: '{"zone": "b"}' }
        - { value: "4;2.5" }
        - { value: "four;2,5;x" }
        - { value: "" }
        - { value: '5;1;"x' }
        - { key: '{"zone": 1', value: "6;1;x" }
        - { key: "zone", value: "x" }
        - { value: "1;2;x\n2;3;y" }
    expect:
      rows:
        rows:
          - { zone: a, id: 1, price: 2.5, name: x, gone: false, o: 0 }
          - { id: 2, name: 'say "y;es"', gone: false, o: 1 }
          - { id: 3, price: 100, gone: false, o: 2 }
          - { zone: b, gone: true, o: 3 }
      dead_letter:
        columns: subset
        rows:
          - { offset: 4, reason: not a line of 3 fields }
          - { offset: 5, reason: "does not fit the schema: id INT, price DECIMAL(6,2) has a comma" }
          - { offset: 6, reason: not a line of 3 fields }
          - { offset: 7, reason: a quote is not closed }
          - { offset: 8, reason: "key: not JSON" }
          - { offset: 9, reason: "not a line of 3 fields; key: not JSON" }
          - { offset: 10, reason: not a line of 3 fields }
  - name: words
    given: { words: [ { value: one, key: k }, {} ] }
    expect:
      spoken: { rows: [ { word: ONE, key: k, o: 0 }, { o: 1 } ] }
      dead_letter: { count: 0 }
  - name: records
    given:
      events:
        - { value: { id: 1, at: 2026-01-01T00:00:00Z, price: 2.5, tags: [a], by: { x: 1 } } }
        - { value: { id: 2, inner: { name: n } }, key: { id: 7 } }
        - { key: { id: 8 } }
        - { value: "no record" }
        - { value: { id: 3 }, key: text }
    expect:
      happened:
        rows:
          - { id: 1, at: 2026-01-01T00:00:00Z, price: 2.5, tags: [a], by: { x: 1 }, o: 0 }
          - { id: 2, tags: [], by: {}, inner: { name: n }, key: 7, o: 1 }
          - { key: 8, o: 2 }
      dead_letter:
        columns: subset
        rows:
          - { offset: 3, reason: "field `inner`: no type -56 in a union of 2" }
          - { offset: 4, reason: "key: begins with 0x74, expected 0x00 and a schema's number" }
'''

SCHEMA = """{"type": "record", "name": "event", "fields": [
  {"name": "id", "type": "int"},
  {"name": "inner", "default": null, "type": ["null",
    {"type": "record", "name": "inner", "fields": [{"name": "name", "type": "string"}]}]},
  {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    "default": null},
  {"name": "price", "default": null,
    "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}]},
  {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
  {"name": "by", "type": {"type": "map", "values": "long"}, "default": {}}
]}"""


def test_given_records_of_every_format_become_their_rows_and_letters(spark, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(FILE)
    (tmp_path / "event.avsc").write_text(SCHEMA)
    (tmp_path / "shop.desc").write_bytes(descriptors())
    pipeline = read_pipeline(file, {})

    outcomes = run_cases(spark, pipeline)

    assert {each.name: each.complaints for each in outcomes if each.complaints} == {}
    assert len(outcomes) == 4
    rows, spoken, events, ordered = plan(spark, pipeline)
    assert rows.columns == (
        ("zone", "string"), ("id", "int"), ("price", "decimal(6,2)"), ("name", "string"),
        ("gone", "boolean"), ("o", "bigint"),
    )  # fmt: skip
    assert events.columns[:2] == (("id", "int"), ("inner", "struct<name:string>"))
    assert spoken.columns == (("word", "string"), ("key", "string"), ("o", "bigint"))
    assert ordered.columns[4:7] == (
        ("counts", "map<int,bigint>"), ("at", "timestamp"), ("big", "decimal(20,0)"),
    )  # fmt: skip


def schema(*fields):
    listed = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return json.dumps({"type": "record", "name": "r", "fields": listed})


OLD = schema(("id", "int"))
NEW = schema(
    ("id", "long"), ("more", "bytes"), ("at", {"type": "long", "logicalType": "timestamp-millis"})
)
WANTED = schema(
    ("id", "long"),
    ("at", ["null", {"type": "long", "logicalType": "timestamp-micros"}], None),
)
FRAMED = """
version: 1
name: framed
spark: {{ checkpoint: /ck }}
sources:
  raw:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    decode: {{ value: {{ format: avro, schema: '{schema}', registry: '{registry}' }} }}
transforms: {{ rows: {{ inputs: [raw], sql: "select value.*, offset as o from raw" }} }}
sinks: {{ rows: {{ type: delta, inputs: [rows], path: /t/rows, mode: append }} }}
trigger: {{ available_now: true }}
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_records_of_several_schemas_are_read_by_their_registry(spark, tmp_path):
    records = [
        framed(1, encoded(parse_record(OLD), {"id": 1})),
        framed(2, encoded(parse_record(NEW), {"id": 2, "more": "x", "at": "2026-01-01T00:00:00Z"})),
        framed(3, b""),
        framed(2, b"\x02"),
    ]
    file = tmp_path / "f.yaml"
    with serving({1: OLD, 2: NEW}) as registry:
        file.write_text(FRAMED.format(schema=WANTED, registry=registry.url("me:hush")))
        source = read_pipeline(file, {}).sources["raw"]
        reading = reading_of(source)
        rows = [(None, data, "a", 0, offset, None, 0) for offset, data in enumerate(records)]
        given = spark.createDataFrame(rows, dataframes.empty_source(spark, source).schema)
        parsed = dataframes.parse(given.coalesce(1), reading)

        good = dataframes.good_rows(parsed, reading).selectExpr(
            "offset", "value.id", "unix_micros(value.at)"
        )
        bad = bad_rows(parsed, reading, source.name).select("offset", "reason")
        assert [tuple(row) for row in good.collect()] == [
            (0, 1, None),
            (1, 2, 1_767_225_600_000_000),
        ]
        assert [tuple(row) for row in bad.collect()] == [
            (2, "schema 3: the registry does not know it"),
            (3, "the bytes end within the record"),
        ]
        spare = [(None, framed(4, b""), "a", 0, 0, None, 0)]
        other = dataframes.parse(spark.createDataFrame(spare, given.schema), reading)

    with pytest.raises(PySparkException) as away:
        other.collect()

    told = clear_reason(away.value)
    assert (
        told == f"the schema registry {registry.url()[:-1]} cannot be reached: Connection refused"
    )
    assert restart_of(away.value, skips_losses=False) == AWAY


CHANGES = """
version: 1
name: changes
spark: {{ checkpoint: /ck }}
sources:
  plain:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    decode: {{ value: {{ format: debezium, schema: "id BIGINT, name STRING" }} }}
  avro:
    type: josefine
    bootstrap: nowhere:1
    topics: [b]
    decode: {{ value: {{ format: debezium, schema: '{schema}', registry: '{registry}' }} }}
  framed:
    type: josefine
    bootstrap: nowhere:1
    topics: [c]
    decode:
      value: {{ format: debezium, schema: "id BIGINT", registry: '{registry}', tombstones: true }}
  json:
    type: josefine
    bootstrap: nowhere:1
    topics: [d]
    decode: {{ value: {{ format: json, schema: "id BIGINT", registry: '{registry}' }} }}
sinks:
  plain: {{ type: delta, inputs: [plain], path: /t/a, mode: append }}
  avro: {{ type: delta, inputs: [avro], path: /t/b, mode: append }}
  framed: {{ type: delta, inputs: [framed], path: /t/c, mode: append }}
  json: {{ type: delta, inputs: [json], path: /t/d, mode: append }}
trigger: {{ available_now: true }}
"""

# As Debezium 3 writes a row of PostgreSQL, with and without schemas.enable.
INSERT = {
    "before": None,
    "after": {"id": 1, "name": "ann", "born": 20454},
    "source": {
        "version": "3.0.5.Final", "connector": "postgresql", "name": "shop", "ts_ms": 17,
        "snapshot": "false", "db": "shop", "sequence": '[null,"240"]', "schema": "public",
        "table": "customers", "txId": 555, "lsn": 240, "xmin": None,
    },
    "transaction": None,
    "op": "c",
    "ts_ms": 18,
}  # fmt: skip
SCHEMA_OF_CONNECT = {"type": "struct", "name": "shop.public.customers.Envelope", "fields": []}
DELETE = {"before": {"id": 1}, "after": None, "source": {"lsn": 241}, "op": "d", "ts_ms": 19}


def as_json(said):
    return None if said is None else json.dumps(said).encode()


def read_all(spark, source, values):
    """({offset: row's id, name, deleted, op, lsn}, {offset: reason})."""
    reading = reading_of(source)
    rows = [(None, data, "a", 0, offset, None, 0) for offset, data in enumerate(values)]
    given = spark.createDataFrame(rows, dataframes.empty_source(spark, source).schema)
    parsed = dataframes.parse(given.coalesce(1), reading)
    good, bad = dataframes.good_rows(parsed, reading), bad_rows(parsed, reading, source.name)
    return (
        {row.offset: row.value and row.value.asDict(recursive=True) for row in good.collect()},
        {row.offset: row.reason for row in bad.collect()},
    )


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_changes_of_a_database_become_their_rows_and_the_rest_letters(spark, tmp_path):
    wide = envelope(transaction=["null", "string"])
    written = parse_record(wide)
    file = tmp_path / "f.yaml"
    with serving({3: wide}) as registry:
        file.write_text(CHANGES.format(schema=envelope(), registry=registry.url()))
        sources = read_pipeline(file, {}).sources
        plain, letters = read_all(
            spark,
            sources["plain"],
            [
                as_json(INSERT),
                as_json({"schema": SCHEMA_OF_CONNECT, "payload": INSERT}),
                as_json({"schema": SCHEMA_OF_CONNECT, "payload": DELETE}),
                None,
                as_json({"op": "t", "source": {}, "ts_ms": 1}),
                as_json({"schema": SCHEMA_OF_CONNECT, "payload": {**DELETE, "op": "x"}}),
                as_json({**DELETE, "before": None}),
                as_json({**INSERT, "after": None}),
                as_json({"id": 1}),
                as_json(
                    {"schema": SCHEMA_OF_CONNECT, "payload": {"op": "c", "after": {"id": "x"}}}
                ),
                as_json(INSERT) + b" rubbish",
            ],
        )
        source = {"lsn": 7}
        avro, refused = read_all(
            spark,
            sources["avro"],
            [
                framed(3, encoded(written, {"op": "r", "source": source, "after": {"id": 1}})),
                framed(3, encoded(written, {"op": "d", "source": source, "before": {"id": 2}})),
                None,
                framed(3, encoded(written, {"op": "t", "source": source})),
                framed(4, b""),
            ],
        )
        changes, misframed = read_all(
            spark,
            sources["framed"],
            [framed(1, as_json(INSERT)), None, as_json(INSERT), b"", b"\0\0\0"],
        )
        objects, others = read_all(
            spark, sources["json"], [framed(9, b'{"id": 1}'), b'{"id": 1}', framed(9, b"x"), None]
        )
        assert {path for path, _ in registry.seen} == {"/api/schemas/ids/3", "/api/schemas/ids/4"}

    shown = {n: (r["row"]["id"], r["row"]["name"], r["deleted"], r["op"]) for n, r in plain.items()}
    assert shown == {
        0: (1, "ann", False, "c"), 1: (1, "ann", False, "c"), 2: (1, None, True, "d"),
    }  # fmt: skip
    assert plain[1]["source"]["lsn"] == 240
    assert plain[1]["source"]["txId"] == "555"
    assert letters == {
        4: "op t: a truncate is of no row",
        5: "op x: expected c, r, u or d",
        6: "op d without `before`",
        7: "op c without `after`",
        8: "no envelope of Debezium: it has no `op`",
        9: "does not fit the schema: after.id BIGINT",
        10: "not JSON",
    }
    assert {n: (row["row"]["id"], row["deleted"]) for n, row in avro.items()} == {
        0: (1, False), 1: (2, True),
    }  # fmt: skip
    assert refused == {
        3: "op t: a truncate is of no row",
        4: "schema 4: the registry does not know it",
    }
    assert {n: row and row["row"]["id"] for n, row in changes.items()} == {0: 1, 1: None}
    assert misframed == {
        2: "begins with 0x7b, expected 0x00 and a schema's number",
        3: "no bytes, expected a schema's number",
        4: "ends within the schema's number: 3 of 5 bytes",
    }
    assert objects == {0: {"id": 1}}
    assert others == {
        1: "begins with 0x7b, expected 0x00 and a schema's number",
        2: "not JSON",
        3: "the value is null",
    }

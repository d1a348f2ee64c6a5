"""Values and keys of every format: what is taken, what becomes of the rest, in a file's tests."""

from __future__ import annotations

import pytest

from pipelines.plan import plan
from pipelines.trial import run_cases
from pipelines.validate import read_pipeline

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
transforms:
  rows:
    inputs: [lines]
    sql: select key.zone as zone, value.*, value is null as gone, offset as o from lines
  spoken: { inputs: [words], sql: "select upper(value) as word, key, offset as o from words" }
sinks:
  rows: { type: delta, inputs: [rows], path: /t/rows, mode: append }
  spoken: { type: delta, inputs: [spoken], path: /t/spoken, mode: append }
dead_letter: { type: delta, path: /t/dead }
trigger: { available_now: true }
tests:
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
          - { offset: 5, reason: "does not fit the schema: id INT, price DECIMAL(6,2)" }
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
'''


def test_given_records_of_every_format_become_their_rows_and_letters(spark, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(FILE)
    pipeline = read_pipeline(file, {})

    outcomes = run_cases(spark, pipeline)

    assert {each.name: each.complaints for each in outcomes} == {"lines": (), "words": ()}
    rows, spoken = plan(spark, pipeline)
    assert rows.columns == (
        ("zone", "string"), ("id", "int"), ("price", "decimal(6,2)"), ("name", "string"),
        ("gone", "boolean"), ("o", "bigint"),
    )  # fmt: skip
    assert spoken.columns == (("word", "string"), ("key", "string"), ("o", "bigint"))

"""The tests of a pipeline file, run: those of the example pass, and what is wrong is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.config.example import EXAMPLE
from pipelines.config.validate import read_pipeline
from pipelines.inspect.file_tests import run_cases

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """\
version: 1
name: trial
spark: { checkpoint: /ck }
sources:
  raw:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    headers: true
    decode:
      value:
        format: json
        schema: "id INT, at TIMESTAMP, price DECIMAL(6,2), m MAP<STRING, INT>"
        on_error: dead_letter
        tombstones: true
transforms:
  rows:
    inputs: [raw]
    sql: >
      select cast(key as string) as k, value.*, value is null as gone, offset as _offset,
      get(headers, 0).value as trace from raw
sinks:
  all: { type: delta, inputs: [rows], path: /t/all, mode: append }
  latest:
    { type: delta, inputs: [rows], path: /t/latest, mode: upsert, keys: [k], order_by: _offset,
      delete_when: gone }
  sums:
    { type: delta, inputs: [rows], path: /t/sums, mode: merge, keys: [k],
      aggregate: { n: count(*), top: max(price) } }
dead_letter: { type: delta, path: /t/dead }
trigger: { available_now: true }
tests:
  - name: all of it
    given:
      raw:
        - key: a
          value: { id: 1, at: 2026-01-01T00:00:00Z, price: 2.5, m: { x: 1 } }
          headers: { trace: t1 }
        - { key: a, value: { id: 2 } }
        - { key: b, value: { id: 3 } }
        - { key: b }
        - { key: c, value: { id: text } }
    expect:
      rows: { count: 4 }
      all:
        rows:
          - { k: b, gone: true, _offset: 3 }
          - { k: b, id: 3, gone: false, _offset: 2 }
          - { k: a, id: 2, gone: false, _offset: 1 }
          - { k: a, id: 1, at: 2026-01-01T00:00:00Z, price: 2.5, m: { x: 1 }, gone: false,
              _offset: 0, trace: t1 }
      latest: { rows: [ { k: a, id: 2 } ], columns: subset }
      sums: { rows: [ { k: a, n: 2, top: 2.5 }, { k: b, n: 2 } ] }
      dead_letter:
        { rows: [ { key: c, reason: "does not fit the schema: id INT" } ], columns: subset }
  - name: wrong
    given: { raw: [ { key: a, value: { id: 1 } } ] }
    expect:
      rows: { rows: [ { id: 2 } ], columns: subset, count: 2 }
      all: { rows: [ { idd: 2 } ], columns: subset }
      latest: { rows: [ { id: text } ], columns: subset }
      dead_letter: { count: 1 }
"""


def test_given_records_become_the_rows_that_are_expected_or_it_is_told(spark, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(FILE)

    good, wrong = run_cases(spark, read_pipeline(file, {}))

    assert good.complaints == ()
    columns = "k, id, at, price, m, gone, _offset, trace"
    assert wrong.complaints == (
        "rows: expected 2 rows, found 1",
        'rows: missing {"id":2}',
        'rows: unexpected {"id":1}',
        f"all: no column idd; it has {columns}",
        'latest: expected {"id": "text"} does not fit the columns id int',
        "dead_letter: expected 1 row, found 0",
    )


FOLDERS = ("conf/pipelines", "docs/examples")
SHIPPED = [EXAMPLE, *(file for each in FOLDERS for file in sorted(Path(each).glob("*.yaml")))]


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_tests_of_what_ships_pass(spark, file):
    outcomes = run_cases(spark, read_pipeline(file, {}))

    assert outcomes != []
    assert {each.name: each.complaints for each in outcomes if each.complaints} == {}


EXACT = """\
version: 1
name: exact
spark: { checkpoint: /ck }
sources:
  raw:
    type: memory
    records: [{ value: { id: 1 } }]
    decode: { value: { format: json, schema: "at TIMESTAMP, d DECIMAL(38,18)" } }
transforms:
  rows: { inputs: [raw], sql: select value.* from raw }
sinks:
  table: { type: delta, inputs: [rows], path: /t/table, mode: append }
  out: { type: josefine, inputs: [rows], topic: out, bootstrap: "nowhere:1" }
trigger: { available_now: true }
tests:
  - name: equal
    given: &given
      raw: [{ value: { at: "2026-01-01T00:00:00.000001Z", d: 12345678901234567890.123456789012345678 } }]
    expect:
      table: { rows: [{ at: "2026-01-01T00:00:00.000001Z", d: 12345678901234567890.123456789012345678 }] }
      out: { rows: [{ value: { at: "2026-01-01T00:00:00.000001Z", d: 12345678901234567890.123456789012345678 } }] }
  - name: another
    given: *given
    expect:
      table: { rows: [{ at: "2026-01-01T00:00:00.000002Z", d: 12345678901234567890.123456789012345679 }] }
      out: { rows: [{ value: { at: "2026-01-01T00:00:00.000001Z", d: 12345678901234567890.123456789012345679 } }] }
"""  # noqa: E501


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_times_are_compared_to_the_microsecond_and_decimals_to_the_last_digit(spark, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(EXACT)

    equal, another = run_cases(spark, read_pipeline(file, {}))

    assert equal.complaints == ()
    assert [each.partition(" {")[0] for each in another.complaints] == [
        "table: missing", "table: unexpected", "out: missing", "out: unexpected",
    ]  # fmt: skip
    assert "00.000002Z" in another.complaints[0]
    assert "345679" in another.complaints[0]

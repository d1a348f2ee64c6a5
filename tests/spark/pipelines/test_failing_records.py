"""`on_error: dead_letter` of a sink: a record for which an expression fails is a dead letter of it,
all others are rows, whatever is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.base.errors import RunError
from pipelines.dead_letters.replay import Replay, replays
from pipelines.dead_letters.summary import newest, waiting
from pipelines.inspect.dead_letter_reader import read_summary
from pipelines.inspect.file_tests import run_cases
from pipelines.run import failed_record
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
version: 1
name: lab
spark: { master: "local[1]", checkpoint: "${LAB}/ck" }
trigger: { available_now: true }
sources:
  ev:
    type: file
    path: ${LAB}/ev
    decode: { value: { format: json, schema: "id INT, n STRING, d INT", on_error: dead_letter } }
transforms:
  first: { inputs: [ev], sql: "select value.*, topic, partition, offset from ev" }
  second: { inputs: [first], sql: "select id, topic, partition, offset, %(sql)s from first" }
sinks:
  lake: { type: delta, inputs: [second], path: "${LAB}/lake", mode: append, on_error: dead_letter }
%(more)s
dead_letter: { type: delta, path: "${LAB}/dead" }
"""

RAW = """
  raw: { type: delta, inputs: [first], path: "${LAB}/raw", mode: append }
checks:
  small: { on: second, expr: out < 900, action: dead_letter }
"""
SUMS = """
  sums:
    { type: delta, inputs: [first], path: "${LAB}/sums", mode: merge, keys: [d], on_error: POLICY,
      aggregate: { total: sum(amount), many: count(*) } }
"""
AMOUNTS = FILE.replace("value.*", "value.id, value.d, value.n, bigint(value.n) as amount")


PLACE = "topic STRING, partition INT, offset BIGINT"


def lab_of(spark: SparkSession, folder: Path, sql: str, more: str = "") -> FilesLab:
    lab = FilesLab(spark, folder, FILE % {"sql": sql, "more": more}, ["ev"])
    lab.bytes = 1_000_000
    return lab


def records(count: int, bad: dict[int, dict[str, Any]], first: int = 0) -> list[str]:
    """Records of numbers in a row; those in `bad` have other values."""
    return [
        json.dumps({"id": n, "n": str(n), "d": n % 3} | bad.get(n, {}))
        for n in range(first, first + count)
    ]


def ids(lab: FilesLab, name: str = "lake") -> list[int]:
    return sorted(row.id for row in lab.table(name).select("id").collect())


def letters(lab: FilesLab) -> list[tuple[Any, ...]]:
    rows = lab.table("dead").orderBy("offset", "sink").collect()
    return [(json.loads(row.value)["id"], row.sink, row.stage, row.reason) for row in rows]


def test_each_kind_of_error_makes_a_dead_letter_of_its_record_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    kinds: dict[int, tuple[dict[str, Any], str]] = {
        1: ({"n": "abc"}, "`cast(n as int)`: The value 'abc' of the type"),
        4: ({"d": 5}, "`1 / (d - 5)`: Division by zero"),
        5: ({"d": 99}, "column `small`: "),
        7: ({"d": 50}, "too large"),
    }
    sql = (
        "cast(n as int) as a, 1 / (d - 5) as b, cast(d * 2 as tinyint) as small, "
        "if(d = 50, raise_error('too large'), 1) as e"
    )
    lab = lab_of(spark, tmp_path, sql)
    lab.add("ev", *records(8, {n: bad for n, (bad, _) in kinds.items()}))
    lab.add("ev", '{"id": "no number"}')

    totals = lab.run().sinks["lake"]

    assert ids(lab) == [n for n in range(8) if n not in kinds]
    *own, other = letters(lab)
    assert other == ("no number", None, "decode", "does not fit the schema: id INT")
    assert [each[:3] for each in own] == [(n, "lake", "transform") for n in kinds]
    for (*_, reason), (_, expected) in zip(own, kinds.values(), strict=True):
        assert reason.startswith("transforms.second.sql: ")
        assert expected in reason
    assert (totals.rows, totals.dead_letters) == (4, 5)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_one_sink_leaves_a_record_out_and_gets_it_by_a_replay_of_the_corrected_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Another sink has it all the while. A check that cannot be computed for it sends another. The
    tables are of a version before `sink` and `stage`."""
    lab = lab_of(spark, tmp_path, "int(n) as out", RAW)
    columns = (
        f"source STRING, {PLACE}, timestamp TIMESTAMP, reason STRING, key BINARY, value BINARY"
    )
    spark.sql(f"create table delta.`{tmp_path}/dead` ({columns}) using delta")
    before = f"replay BIGINT, {PLACE}, sinks ARRAY<STRING>, timestamp TIMESTAMP"
    columns = f"pipeline STRING, source STRING, {before}, replayed_at TIMESTAMP"
    spark.sql(f"create table delta.`{tmp_path}/dead_replayed` ({columns}) using delta")
    lab.add("ev", *records(6, {4: {"n": "x"}, 5: {"n": "999"}}))
    lab.run()
    assert (ids(lab), ids(lab, "raw")) == ([0, 1, 2, 3], [*range(6)])
    assert [each[:3] for each in letters(lab)] == [(4, "lake", "transform"), (5, None, "check")]
    shown = read_summary(lab.read(), 9, every=False, env={})
    assert shown is not None
    assert list(shown.counts) == waiting(spark, lab.read(), every=False)
    assert [*shown.newest] == newest(spark, lab.read(), 9, every=False)
    assert {each[1].partition(": ")[0] for each in shown.counts} == {"sink lake", "check small"}
    assert {each["sink"]: each["stage"] for each in shown.newest} == {
        "lake": "transform",
        None: "check",
    }

    lab.write(FILE % {"sql": "coalesce(try_cast(n as int), -1) as out", "more": RAW})
    (done,) = replays(spark, lab.read(), (), Replay.run)
    (none,) = replays(spark, lab.read(), (), Replay.look)

    assert done.rows == {"lake": 1}
    assert (none.planned, none.letters) == ({}, 1)
    assert (ids(lab), ids(lab, "raw")) == ([0, 1, 2, 3, 4], [*range(6)])


@pytest.mark.slow
def test_a_kill_between_dead_letters_and_rows_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One record of thousands."""
    lab = lab_of(spark, tmp_path, "int(n) as out")
    lab.add("ev", *records(3_000, {1700: {"n": "x"}}))

    lab.die("mid_commit:1@2")
    assert [each[0] for each in letters(lab)] == [1700]
    assert ids(lab) == []
    lab.run()

    assert ids(lab) == [n for n in range(3_000) if n != 1700]
    assert [each[0] for each in letters(lab)] == [1700]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_the_arithmetic_of_a_merge_names_the_record_that_breaks_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The sum of the table with that of a batch. The sink stops, or leaves the record out."""
    huge = str(6 * 10**18)

    def file(policy: str) -> str:
        return AMOUNTS % {"sql": "1 as one", "more": SUMS.replace("POLICY", policy)}

    lab = FilesLab(spark, tmp_path, file("fail"), ["ev"])
    lab.bytes = 1_000_000
    lab.add("ev", *records(6, {3: {"n": huge}}))
    lab.run()
    lab.add("ev", *records(6, {6: {"n": huge}}, first=6))

    with pytest.raises(RunError, match=r"sinks\.sums\.aggregate: column `total` fails for ev"):
        lab.run()
    lab.write(file("dead_letter"))
    lab.run()

    assert [each[:3] for each in letters(lab)] == [(6, "sums", "merge")]
    rows = {row.d: (row.total, row.many) for row in lab.collected("sums")}
    assert rows == {0: (6 * 10**18 + 9, 3), 1: (22, 4), 2: (26, 4)}


@pytest.mark.slow
def test_more_failing_records_than_the_limit_stop_the_sink_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_record, "RECORDS_MAX", 2)
    lab = lab_of(spark, tmp_path, "int(n) as out")
    lab.add("ev", *records(4, {n: {"n": "x"} for n in (0, 1, 2)}))

    with pytest.raises(RunError) as stopped:
        lab.run()

    assert "an expression fails for more than 2 records of this batch (the first one is ev.jsonl-0 "
    assert "`on_error: dead_letter` leaves out no more: correct" in str(stopped.value)
    assert (ids(lab), letters(lab)) == ([], [])


TESTS = """
tests:
  - name: a number and none
    given:
      ev: [{ value: { id: 1, n: "5" } }, { value: { id: 2, n: x } }]
    expect:
      lake: { rows: [{ id: 1, out: 5 }], columns: subset }
      dead_letter: { rows: [{ sink: lake, offset: 1 }], columns: subset }
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_test_of_the_file_leaves_out_what_a_run_does(spark: SparkSession, tmp_path: Path) -> None:
    lab = lab_of(spark, tmp_path, "int(n) as out", TESTS)

    (outcome,) = run_cases(spark, lab.read())

    assert outcome.complaints == ()

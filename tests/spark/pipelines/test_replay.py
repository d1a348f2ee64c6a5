"""Dead letters after a fix: each in the tables that had left it out, once, whatever is killed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.base.errors import ChainError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import Replay, replays
from pipelines.dead_letters.summary import newest, waiting
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import DiedError, Quiet, dying

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DEATHS = ("mid_replay:1", "mid_replay:3")

FILE = """\
version: 1
name: dead
spark: { checkpoint: "${LAB}/ck" }
sources:
  events:
    type: memory
    headers: true
    records:
%(records)s
    decode:
      value:
        { format: json, schema: "n INT, d DECIMAL(4,1)", strict: %(strict)s, on_error: dead_letter }
transforms:
  rows:
    inputs: [events]
    sql: select value.n, key, size(headers) as h, topic, partition, offset from events
  raw: { inputs: [events], sql: "select value.n from events" }
checks:
  positive: { on: rows, expr: "%(check)s", action: dead_letter }
sinks:
  rows: { type: delta, inputs: [rows], path: "${LAB}/rows", mode: append }
  raw: { type: delta, inputs: [raw], path: "${LAB}/raw", mode: append }
  sums:
    { type: delta, inputs: [rows], path: "${LAB}/sums", mode: merge, keys: [topic],
      aggregate: { n: sum(n), rows: count(*) } }
dead_letter: { type: delta, path: "${LAB}/dead" }
trigger: { available_now: true }
"""
ROUNDED = "false, accept: [rounded_decimals]"
"""Without strict mode, and with decimals rounded."""
RECORDS = [
    "{ value: { n: 1 } }",
    "{ value: { n: -2 }, headers: { a: b } }",
    "{ value: { n: 3, d: 1.25 }, key: k }",
    "{ value: not json }",
    "{ value: { n: 5 } }",
    "{ value: { n: -6 } }",
]


def file(lab: Path, *, records: list[str], check: str, strict: str):
    path = lab / "dead.yaml"
    words = {"records": "\n".join(f"      - {one}" for one in records), "check": check}
    path.write_text(FILE % {**words, "strict": strict})
    return read_pipeline(path, {"LAB": str(lab)})


def numbers(spark, lab: Path, name: str) -> list[int]:
    return sorted(row.n for row in spark.read.format("delta").load(f"{lab}/{name}").collect())


def tables(spark, lab: Path) -> dict[str, object]:
    (sums,) = spark.read.format("delta").load(f"{lab}/sums").collect()
    return {
        "rows": numbers(spark, lab, "rows"),
        "raw": numbers(spark, lab, "raw"),
        "sums": (sums.n, sums.rows),
    }


def die(spark, pipeline, fail: str) -> None:
    with dying(fail), pytest.raises(DiedError):
        replays(spark, pipeline, (), Replay.run)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize(
    "deaths",
    [DEATHS, pytest.param(("mid_replay:0", *DEATHS), marks=pytest.mark.slow)],
    ids=["some", "every"],
)
def test_letters_come_in_once_after_a_fix_whatever_is_killed(spark, tmp_path, deaths):
    broken = file(tmp_path, records=RECORDS, check="n > 0", strict="true")
    run_pipeline(spark, broken, Quiet())
    assert tables(spark, tmp_path) == {
        "rows": [1, 5],
        "raw": [-6, -2, 1, 5],
        "sums": (6, 2),
    }
    (same,) = replays(spark, broken, (), Replay.run)
    assert (same.letters, same.planned, same.held.total()) == (4, {}, 4)

    fixed = file(tmp_path, records=RECORDS, check="n > -5", strict=ROUNDED)
    (seen,) = replays(spark, fixed, (), Replay.look)
    assert seen.sinks() == {"rows": 2, "sums": 2, "raw": 1}
    assert not Path(f"{tmp_path}/dead_replayed").exists()
    for fail in deaths:
        die(spark, fixed, fail)
    again = file(
        tmp_path, records=[*RECORDS, "{ value: { n: 7 } }"], check="n > -5", strict=ROUNDED
    )
    run_pipeline(spark, again, Quiet())
    (done,) = replays(spark, again, (), Replay.run)

    assert tables(spark, tmp_path) == {
        "rows": [-2, 1, 3, 5, 7],
        "raw": [-6, -2, 1, 3, 5, 7],
        "sums": (14, 5),
    }
    rows = spark.read.format("delta").load(f"{tmp_path}/rows").where("n in (-2, 3)").collect()
    assert {row.n: (row.key, row.h, row.offset) for row in rows} == {
        -2: (None, 1, 1),
        3: (b"k", 0, 2),
    }
    assert (done.letters, done.planned, done.rows) == (2, {}, {})
    assert waiting(spark, again, every=False) == [
        ("events", "check positive: n > 0", 1),
        ("events", "not JSON", 1),
    ]
    assert len(newest(spark, again, 10, every=True)) == 4

    shutil.rmtree(f"{tmp_path}/dead_replayed")
    with pytest.raises(
        RunError, match=r"has replay 1 of source `events`, but .*_replayed ends at 0"
    ):
        replays(spark, again, (), Replay.look)


@pytest.mark.slow
def test_letters_in_the_catalog_are_found_replayed_and_missed_by_their_name(spark, tmp_path):
    database = f"letters_{tmp_path.name.replace('-', '_')}"
    spark.sql(f"CREATE DATABASE {database}")

    def named(check: str):
        broken = file(tmp_path, records=RECORDS[:3], check=check, strict=ROUNDED)
        only = {"rows": broken.sinks["rows"]}
        name = f"{database}.dead"
        return replace(broken, sinks=only, dead_letter_path=None, dead_letter_table=name)

    assert waiting(spark, named("n > 0"), every=False) == []
    assert replays(spark, named("n > 0"), (), Replay.run) == []
    run_pipeline(spark, named("n > 0"), Quiet())
    fixed = named("n > -5")
    run_pipeline(spark, fixed, Quiet())
    assert waiting(spark, fixed, every=False) == [("events", "check positive: n > 0", 1)]
    replays(spark, fixed, (), Replay.run)
    replays(spark, fixed, (), Replay.run)

    assert numbers(spark, tmp_path, "rows") == [-2, 1, 3]
    assert waiting(spark, fixed, every=False) == []
    assert spark.table(f"{database}.dead_replayed").count() == 1
    spark.sql(f"DROP TABLE {database}.dead")
    with pytest.raises(ChainError, match="it was deleted or restored"):
        run_pipeline(spark, fixed, Quiet())


@pytest.mark.slow
def test_a_sink_that_read_a_letter_after_the_fix_gets_it_only_when_it_is_named(spark, tmp_path):
    run_pipeline(spark, file(tmp_path, records=RECORDS, check="n > 0", strict="true"), Quiet())
    fixed = file(tmp_path, records=RECORDS, check="n > -5", strict=ROUNDED)
    for name in ("raw", "rows"):
        shutil.rmtree(tmp_path / name)
        shutil.rmtree(tmp_path / "ck" / f"dead.{name}")
    run_pipeline(spark, fixed, Quiet())
    last = file(tmp_path, records=RECORDS, check="n > -7", strict=ROUNDED)

    (seen,) = replays(spark, fixed, (), Replay.run)
    (held,) = replays(spark, last, (), Replay.look)
    (done,) = replays(spark, last, ["rows"], Replay.run)

    assert seen.sinks() == {"sums": 2}
    assert held.held == {
        "still: not JSON": 1,
        "whether sink `rows` has its rows is not known: name its sinks": 1,
    }
    assert done.rows == {"rows": 1}
    assert tables(spark, tmp_path) == {
        "rows": [-6, -2, 1, 3, 5],
        "raw": [-6, -2, 1, 3, 5],
        "sums": (7, 4),
    }

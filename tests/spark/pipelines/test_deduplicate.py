"""Copies of rows: one of them is in the table, however batches are cut and whatever is killed."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ConfigError, Place
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.offset_chain import Commit
from pipelines.inspect.plan import plan
from pipelines.model.pipeline import Deduplicate
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import ensure_table
from pipelines.transforms.deduplicate import new_rows, span_of, without_copies

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = "id STRING, part INT, at TIMESTAMP, offset BIGINT, more MAP<STRING, INT>"
PLACE = Place(file="f", line=1, column=1)
BEGIN = datetime(2026, 1, 1)
SINKS = """\
sinks:
  rows:
    { type: delta, inputs: [rows], path: "${LAB}/tables/rows", mode: append,
      deduplicate: { keys: [k] } }
  sums:
    { type: delta, inputs: [rows], path: "${LAB}/tables/sums", mode: merge, keys: [k],
      aggregate: { records: count(*) } }
"""


def how(within_ms: int | None) -> Deduplicate:
    return Deduplicate(
        keys=("id", "part"),
        key_places=(PLACE, PLACE),
        time="at" if within_ms else None,
        time_place=PLACE,
        within_ms=within_ms,
    )


def write(spark, path: str, deduplicate: Deduplicate, batches: list[list[Any]]) -> list[Any]:
    """The log entries of the batches' commits."""
    chain = DeltaChain(spark, path, Link(pipeline="p", sink="s", run="r"))
    ensure_table(spark, path, None, spark.createDataFrame([], SCHEMA).schema)
    chain.load()
    return [put(spark, chain, deduplicate, rows, n) for n, rows in enumerate(batches, 1)]


def put(spark, chain: DeltaChain, deduplicate: Deduplicate, rows: list[Any], number: int) -> Any:
    frame = spark.createDataFrame(rows, SCHEMA)
    out = without_copies(frame, deduplicate)
    merge = new_rows(deduplicate, out.schema, span_of(frame, deduplicate))
    reached = TopicOffsets(ends={("t", 0): number})
    commit = Commit(start={("t", 0): number - 1}, end=reached, txn_version=number)
    return chain.merge(out, merge, commit, number)


def found(spark, path: str) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(path).select("id", "part", "at", "offset").collect()
    return sorted((tuple(row) for row in rows), key=str)


def test_the_table_is_the_same_however_batches_are_cut(spark, tmp_path):
    """Events have copies up to an hour later; their keys come again two hours later, and then it is
    another event. Rows without a key or a time stay."""
    rng = Random(4)
    rows, expected = [], []
    for event, hour in itertools.product("abcde", (0, 3, 6)):
        for minutes in (0, *sorted(rng.sample(range(1, 60), 2))):
            at = BEGIN + timedelta(hours=hour, minutes=minutes)
            rows.append((event, 1, at, hour * 60 + minutes, {"x": minutes}))
            if minutes == 0:
                expected.append(rows[-1][:4])
    for n in (0, 400):  # in different batches
        rows += [(None, 1, BEGIN, n, None), ("a", None, BEGIN, n, None), ("a", 1, None, n, None)]
    expected += [row[:4] for row in rows[-6:]]
    rows.sort(key=lambda row: row[3])

    for cuts in ([0, 51], [0, 5, 5, 20, 33, 51]):
        path = str(tmp_path / f"t{len(cuts)}")
        batches = [rows[start:end] for start, end in itertools.pairwise(cuts)]
        assert len(rows) == 51
        entries = write(spark, path, how(3_600_000), batches)
        assert found(spark, path) == sorted(expected, key=str)
        assert len(entries) == len(batches)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_without_a_time_a_key_is_there_once_for_ever(spark, tmp_path):
    path = str(tmp_path / "t")
    one, other = ("a", 1, BEGIN, 5, None), ("a", 1, BEGIN + timedelta(days=900), 4, None)

    write(spark, path, how(None), [[one, other], [one], [], [("b", 1, None, 6, None)]])

    assert [row[3] for row in found(spark, path)] == [4, 6]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_files_of_other_times_are_not_read(spark, tmp_path):
    """A batch of a day finds its copies although the files of the days before are gone."""
    path = tmp_path / "t"
    days = [[("a", n, BEGIN + timedelta(days=n), n, None)] for n in range(3)]
    write(spark, str(path), how(3_600_000), days[:2])
    for file in path.glob("*.parquet"):
        file.rename(tmp_path / file.name)
    chain = DeltaChain(spark, str(path), Link(pipeline="p", sink="s", run="r"))
    chain.load()

    for number, rows in ((3, days[2]), (4, days[2])):
        assert put(spark, chain, how(3_600_000), rows, number).metrics["numTargetRowsInserted"] == (
            number == 3
        )


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_kills_and_a_lost_checkpoint_bring_no_copy_in(lab):
    lab.write_file(on_error="fail", sinks=SINKS)
    lab.produce(30)
    lab.run(rows=20)
    lab.produce(30)
    lab.die("mid_commit:2", rows=20)
    lab.lose_checkpoint()
    lab.produce(10)
    result = lab.run(rows=50)

    assert sorted(lab.arrow("rows")["id"].to_pylist()) == list(range(7))
    assert sum(lab.arrow("sums")["records"].to_pylist()) == lab.sent
    assert result.sinks["rows"].copies == result.sinks["rows"].records
    assert lab.chain_ends("rows", "rows") == lab.topic_ends()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{ keys: [id, idd] }", r"sinks\.rows\.deduplicate: no column idd in `rows`; it has: id"),
        ("{ keys: [id], time: v, within: 1h }", r"deduplicate\.time: `v` is INT; expected a col"),
    ],
)
def test_columns_that_tell_no_copies_are_refused_by_plan(lab, said, message):
    lab.write_file(sinks=SINKS.replace("{ keys: [k] }", said))

    with pytest.raises(ConfigError, match=message):
        plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))

"""Every version of each key: against a model, in any batches; exactly once whatever dies."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ConfigError, Place, RunError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.offset_chain import Commit
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from pipelines.model.pipeline import Latest, Mode, Placed, Sink
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import ensure_table
from pipelines.transforms.scd2 import history, versions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCHEMA = "k STRING, at INT, seq INT, v DOUBLE, more MAP<STRING, INT>, gone BOOLEAN"
PLACE = Place(file="f", line=1, column=1)
SINK = Sink(
    name="s", place=PLACE, input="", path=None, table=None, keys=("k",), aggregates=(),
    mode=Mode.SCD2,
    latest=Latest(
        columns=("at", "seq"), places=(PLACE, PLACE), marks=True,
        delete_when=Placed(text="gone", place=PLACE, path=""),
    ),
)  # fmt: skip
SINKS = """\
sinks:
  history:
    type: delta
    inputs: [rows]
    path: ${LAB}/tables/history
    mode: scd2
    keys: [k]
    order_by: id
    delete_when: v is null
"""


def least(value: Any) -> tuple[bool, Any]:
    """As SQL compares: null is the least."""
    return (value is not None, value)


def model(rows: list[Any]) -> list[tuple[Any, ...]]:
    """(k, at, seq, v, deleted, valid to, current) of each version."""
    each: dict[Any, Any] = {}
    for row in rows:
        k, at, seq, v, more, gone = row
        rank = (bool(gone), least(v), least(str(more) if more else None), least(gone))
        if (k, at, seq) not in each or each[k, at, seq][0] < rank:
            each[k, at, seq] = (rank, row)
    held = []
    for k in {key[0] for key in each}:
        ordered = sorted((key for key in each if key[0] == k), key=lambda e: [*map(least, e[1:])])
        for this, following in itertools.zip_longest(ordered, ordered[1:]):
            _, _, _, v, _, gone = each[this][1]
            until = following[1] if following else None
            held.append((*this, v, bool(gone), until, following is None and not gone))
    return sorted(held, key=str)


def write(spark, path: str, rows: list[Any], cuts: tuple[int, ...]) -> DeltaChain:
    chain = DeltaChain(spark, path, Link(pipeline="p", sink="s", run="r"))
    for number, (start, end) in enumerate(itertools.pairwise(cuts), 1):
        frame = versions(spark.createDataFrame(rows[start:end], SCHEMA), SINK)
        if chain.tip is None:
            ensure_table(spark, path, None, frame.schema)
            chain.load()
        reached = TopicOffsets(ends={("t", 0): number})
        commit = Commit(start={("t", 0): number - 1}, end=reached, txn_version=number)
        chain.merge(frame, history(SINK, frame.schema), commit, number)
    return chain


def found(spark, path: str) -> list[tuple[Any, ...]]:
    columns = ("k", "at", "seq", "v", "_deleted", "_valid_to", "_current", "_valid_from")
    rows = spark.read.format("delta").load(path).select(*columns).collect()
    assert all(row["_valid_from"] == row["at"] for row in rows)
    return sorted((tuple(row)[:-1] for row in rows), key=str)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_the_history_is_the_same_in_whatever_batches_and_order_the_versions_come(spark, tmp_path):
    """Late ones, copies, ties, deletes and keys that come back; null keys and times, too."""
    rng = Random(12)
    rows = [
        (
            rng.choice(["a", "b", "c", None]),
            rng.choice([None, 1, 2, 3, 4, 5]),
            rng.choice([1, 2]),
            rng.choice([None, 0.5, 1.5]),
            rng.choice([None, {"x": 1}, {"x": 2}]),
            rng.choice([None, True, False, False]),
        )
        for _ in range(90)
    ]
    expected = model(rows)

    for cuts in ((0, 90), (0, 1, 30, 31, 90)):
        path = str(tmp_path / f"t{len(cuts)}")
        write(spark, path, rows, cuts)
        assert found(spark, path) == expected
        rng.shuffle(rows)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_batch_that_is_there_changes_no_row(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = [("a", 1, 1, 0.5, {"x": 1}, False), ("a", 2, 1, None, None, True)]
    chain = write(spark, path, [*rows, *rows], (0, 2, 4))

    metrics = chain._log.entry(chain._version).metrics
    assert (metrics["numTargetRowsInserted"], metrics["numTargetRowsUpdated"]) == (0, 0)
    assert found(spark, path) == model(rows)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_history_that_dies_and_loses_its_checkpoint_has_each_version_once(lab):
    lab.write_file(on_error="fail", sinks=SINKS)
    lab.produce(40)
    lab.run(rows=21)
    lab.produce(20)
    lab.die("mid_commit:2", rows=13)
    lab.lose_checkpoint()
    lab.produce(14)
    lab.run(rows=17)

    rows = sorted(lab.arrow("history").to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(lab.sent))
    for row in rows:
        n = row["id"]
        following = n + 7 if n + 7 < lab.sent else None
        assert (row["_valid_from"], row["_valid_to"]) == (n, following)
        assert row["_deleted"] == (n % 3 == 0)
        assert row["_current"] == (following is None and n % 3 != 0)
    assert lab.chain_ends("history", "history") == lab.topic_ends()

    lab.write_file(on_error="fail", sinks=SINKS.replace("order_by: id", "order_by: _offset"))
    with pytest.raises(RunError, match="has a row for each k, id, the file's keys are k, _offset"):
        lab.run()


TESTS = """
tests:
  - name: versions
    given: { events: [ { value: { id: 1, k: a, v: 1 } }, { value: { id: 2, k: a } } ] }
    expect:
      history: { columns: subset, rows: [
        { id: 1, _valid_from: 1, _valid_to: 2, _current: false, _deleted: false },
        { id: 2, _valid_from: 2, _valid_to: null, _current: false, _deleted: true } ] }
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_file_s_tests_see_versions_and_plan_refuses_columns_of_the_sinks_own(lab):
    lab.write_file(sinks=SINKS)
    lab.file.write_text(lab.file.read_text() + TESTS)
    pipeline = read_pipeline(lab.file, lab.environment(10))
    (outcome,) = run_cases(lab.spark, pipeline)
    assert outcome.complaints == ()

    lab.write_file(sinks=SINKS, **{"topic as _topic": "topic as _valid_to"})
    with pytest.raises(ConfigError, match="has a column `_valid_to`, which is the sink's own"):
        plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))

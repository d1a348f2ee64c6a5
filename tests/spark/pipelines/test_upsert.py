"""The latest row of each key: the order against a model, and exactly once whatever dies."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ConfigError, Place, RunError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.offset_chain import Commit
from pipelines.inspect.plan import plan
from pipelines.model.pipeline import Latest, Mode, Placed, Sink
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import ensure_table
from pipelines.transforms.dataframes import stored
from pipelines.transforms.upsert import latest_rows, upsert
from tests.spark.pipelines.test_kill import FAILPOINTS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

UPSERTS = """\
sinks:
  latest:
    type: delta
    inputs: [rows]
    path: ${LAB}/tables/latest
    mode: upsert
    keys: [k]
    order_by: id
    delete_when: v is null
    on_delete: mark
"""
PRESENT = """\
  present:
    type: delta
    inputs: [rows]
    path: ${LAB}/tables/present
    mode: upsert
    keys: [k, _partition]
    order_by: [_offset]
    delete_when: v is null
"""


def check_latest(lab) -> None:
    """Of each key's events, in both partitions, the one that was sent last; dead ones marked."""
    found = {row["k"]: (row["id"], row["v"], row["_deleted"]) for row in _rows(lab, "latest")}
    last = {f"k{n % 7}": n for n in range(lab.sent)}
    assert found == {k: (n, None if n % 3 == 0 else n, n % 3 == 0) for k, n in last.items()}
    assert len(_rows(lab, "latest")) == len(last)
    dead = sorted((row["partition"], row["offset"]) for row in _rows(lab, "dead"))
    assert dead == sorted(lab.bad)
    for name, app in (("latest", "latest"), ("dead", "dead_letter.events")):
        assert lab.chain_ends(name, app) == lab.topic_ends()


def check_present(lab) -> None:
    """Of each key and partition the event that was sent last, where it deletes nothing."""
    last = {(f"k{n % 7}", n % 2): n for n in range(lab.sent)}
    expected = sorted((*key, n) for key, n in last.items() if n % 3 != 0)
    found = sorted((row["k"], row["_partition"], row["id"]) for row in _rows(lab, "present"))
    assert found == expected
    assert "_josefine_deleted" not in _rows(lab, "present")[0]


def _rows(lab, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lab.arrow(name).to_pylist()
    return rows


EVERY_DEATH = tuple(itertools.product(FAILPOINTS, (False, True)))
"""(failpoint, whether the checkpoint is lost with it)."""


@pytest.mark.slow
def test_an_upsert_that_dies_at_every_failpoint_ends_with_the_latest_rows(lab):
    """With the checkpoint kept and deleted. A key's events lie in both partitions, so batches cut
    otherwise bring them late; each life recovers from the death before it, and dies in its second
    batch: there is more for it to read than two."""
    lab.write_file(sinks=UPSERTS)
    lab.produce(40)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 20))

    for number, (fail, loses) in enumerate(EVERY_DEATH):
        lab.die(fail if "@" in fail else f"{fail}@2", rows=13 + number % 4)
        if loses:
            lab.lose_checkpoint()
        lab.produce(34)
    lab.run(rows=500)

    check_latest(lab)


def test_of_deleted_keys_no_row_is_left_and_a_lost_checkpoint_changes_nothing(lab):
    lab.write_file(sinks=UPSERTS + PRESENT)
    lab.produce(50)
    first = lab.run(rows=30)
    lab.lose_checkpoint()
    lab.produce(34)
    lab.run(rows=35)

    check_latest(lab)
    check_present(lab)
    assert first.sinks["latest"].rows > 7


def test_what_a_sink_s_condition_may_not_be_is_told_at_its_line(lab):
    wrong = {
        "v is null": "v + 1",
        "order_by: id": "order_by: idd",
    }
    told = {
        "v is null": "sinks.latest.delete_when: expected a condition; it is INT",
        "order_by: id": "sinks.latest: no column idd in `rows`",
    }
    for old, new in wrong.items():
        lab.write_file(sinks=UPSERTS.replace(old, new))
        with pytest.raises(ConfigError) as refused:
            plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))
        assert told[old] in str(refused.value)
    for condition in ("count(*) > 1", "row_number() over (order by v) > 1"):
        lab.write_file(sinks=UPSERTS.replace("v is null", condition))
        with pytest.raises(ConfigError, match=r"sinks\.latest\.delete_when: .*needs more than one"):
            plan(lab.spark, read_pipeline(lab.file, lab.environment(10)))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_other_keys_and_another_mode_are_refused_before_a_row_is_touched(lab):
    lab.write_file(sinks=UPSERTS)
    lab.produce(10)
    lab.run()
    for change, told in {
        "keys: [k]": "has a row for each k, the file's keys are k, _partition",
        "mode: upsert": "was written with mode upsert, the file has append",
    }.items():
        new = {"keys: [k]": "keys: [k, _partition]"}.get(change, "mode: append")
        text = UPSERTS.replace(change, new)
        if new == "mode: append":
            text = text[: text.index("    keys:")]
        lab.write_file(sinks=text)
        with pytest.raises(RunError, match=told):
            lab.run()

    assert len(_rows(lab, "latest")) == 7


SCHEMA = "k STRING, at INT, n DOUBLE, more MAP<STRING, INT>, gone BOOLEAN"
PLACE = Place(file="f", line=1, column=1)


def _sink(*, marks: bool) -> Sink:
    gone = Placed(text="gone", place=PLACE, path="")
    latest = Latest(columns=("at",), places=(PLACE,), delete_when=gone, marks=marks)
    return Sink(
        name="s", place=PLACE, input="", path=None, table=None, keys=("k",), aggregates=(),
        mode=Mode.UPSERT, latest=latest,
    )  # fmt: skip


def _rank(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """As the manual says it: `order_by`, deletes first, the other columns; nulls least."""
    _, at, n, more, gone = row
    mapped = None if more is None else str(sorted(more.items()))
    ordered = (at, bool(gone), n, mapped, gone)
    return tuple((value is not None, value) for value in ordered)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_the_latest_row_is_the_same_whatever_batches_the_rows_come_in(spark, tmp_path):
    """Rows that are equal in the order, nulls in it and values that Spark does not compare."""
    rng = Random(11)
    rows = [
        (
            rng.choice(["a", "b", "c", "d", None]),
            rng.choice([None, 1, 2, 3]),
            rng.choice([None, 0.5, 1.5]),
            rng.choice([None, {"x": 1}, {"x": 2}]),
            rng.choice([None, True, False, False]),
        )
        for _ in range(120)
    ]
    expected = sorted(
        (max((r for r in rows if r[0] == key), key=_rank) for key in {r[0] for r in rows}), key=str
    )

    for cuts in ((0, 120), (0, 7, 40, 41, 120)):
        path = str(tmp_path / f"latest-{len(cuts)}")
        chain, sink = _chain(spark, path), _sink(marks=True)
        _upsert(spark, chain, sink, rows, cuts)
        found = spark.read.format("delta").load(path).collect()
        assert sorted((tuple(r)[:5] for r in found), key=str) == expected
        assert {r.k: r["_deleted"] for r in found} == {r[0]: bool(r[4]) for r in expected}
        rng.shuffle(rows)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_removed_key_comes_back_only_by_a_row(spark, tmp_path):
    """And the column of somebody else keeps its value where a row stays."""
    chain, sink = _chain(spark, str(tmp_path / "t")), _sink(marks=False)
    one = ("a", 1, None, None, False)
    _upsert(spark, chain, sink, [one, ("b", 1, None, None, False)], (0, 2))
    spark.sql(f"ALTER TABLE delta.`{chain.path}` ADD COLUMN note STRING")
    spark.sql(f"UPDATE delta.`{chain.path}` SET note = 'theirs'")

    gone, later = ("a", 2, None, None, True), ("b", 3, None, None, False)
    _upsert(spark, chain, sink, [gone, later, ("c", 1, None, None, True)], (0, 3))
    assert _found(spark, chain) == [("b", 3, "theirs")]
    _upsert(spark, chain, sink, [("a", 1, None, None, False), ("b", 2, None, None, True)], (0, 2))

    assert _found(spark, chain) == [("a", 1, None), ("b", 3, "theirs")]


def _chain(spark, path: str) -> DeltaChain:
    return DeltaChain(spark, path, Link(pipeline="p", sink="s", run="r"))


def _upsert(
    spark,
    chain: DeltaChain,
    sink: Sink,
    rows: list[Any],
    cuts: tuple[int, ...],
    schema: str = SCHEMA,
) -> None:
    for start, end in itertools.pairwise(cuts):
        frame = latest_rows(spark.createDataFrame(rows[start:end], schema), sink)
        if chain.tip is None:
            ensure_table(spark, chain.path, None, stored(frame).schema)
            chain.load()
        version = chain.tip.txn_version + 1 if chain.tip else 1
        reached = TopicOffsets(ends={("t", 0): version})
        commit = Commit(start={("t", 0): version - 1}, end=reached, txn_version=version)
        chain.merge(frame, upsert(sink, frame.schema), commit, version)


def _found(spark, chain: DeltaChain) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(chain.path).select("k", "at", "note").collect()
    return sorted(tuple(row) for row in rows)

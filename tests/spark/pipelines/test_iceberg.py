"""A pipeline into an Iceberg table: each row once, whatever is killed and whatever becomes of the
checkpoint, as a reader finds it that is not Spark."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ChainError, ConfigError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.offset_moves import Move, setting
from pipelines.inspect.offset_writer import put
from pipelines.inspect.sink_status import Sides, all_sides
from pipelines.inspect.status import status
from pipelines.sinks.commits import Link, StoppedError
from pipelines.sinks.iceberg.catalog import TablePlace
from pipelines.sinks.iceberg.chain import IcebergChain
from pipelines.sinks.iceberg.columns import schema_of
from pipelines.sources.kinds import ANY_KIND
from tests.spark.pipelines.conftest import Lab
from tests.spark.pipelines.test_kill import killed_at
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

REBASE = "spark.sql.parquet.datetimeRebaseModeInWrite"
SINK = """\
sinks:
  out:
    type: iceberg
    inputs: [rows]
    mode: append
    table: lab.events
    %s
    catalog: { warehouse: "${LAB}/warehouse" }
"""


def into_iceberg(lab: Lab, more: str = "", on_error: str = "fail") -> None:
    """The lab with one Iceberg sink."""
    lab.write_file(on_error=on_error, sinks=SINK % more)


def table(lab: Lab) -> Any:
    found = TablePlace(read_pipeline(lab.file, lab.environment(1)).sinks["out"]).find()
    assert found is not None
    return found


def ids(lab: Lab) -> list[int]:
    return sorted(table(lab).scan().to_arrow()["id"].to_pylist())


def sides_of(lab: Lab) -> Sides:
    return all_sides(read_pipeline(lab.file, lab.environment(1)), ANY_KIND.look)[0]


def folders(lab: Lab) -> int:
    """How many commits' files lie there. Folders may vanish meanwhile, which `walk` passes over."""
    found = os.walk(lab.directory / "warehouse")
    is_of_commit = re.compile(r".*/\d{10}-\w+").fullmatch
    return sum(
        any(n.endswith(".parquet") for n in names) for at, _, names in found if is_of_commit(at)
    )


def test_each_row_is_in_the_table_once_whatever_becomes_of_run_and_checkpoint(lab: Lab) -> None:
    """A run that dies with files and without a commit, one that dies after its commit, and the
    checkpoint lost after each."""
    into_iceberg(lab)
    lab.produce(30)
    lab.die("mid_write", rows=20)
    assert sides_of(lab).stop is None
    lab.lose_checkpoint()
    lab.die("mid_commit:2", rows=20)
    lab.lose_checkpoint()
    lab.produce(10)

    done = lab.run(rows=100)

    assert ids(lab) == list(range(40))
    assert done.sinks["out"].path.startswith("lab.events of ")
    seen = sides_of(lab)
    assert isinstance(seen.tip, Tip)
    assert (dict(seen.tip.reached.ends), seen.stop) == (lab.topic_ends(), None)
    (told,) = status(read_pipeline(lab.file, lab.environment(1)), ANY_KIND.look)
    assert (told.behind, told.stops, told.version) == (0, "", seen.tip.txn_version)
    assert folders(lab) == len([s for s in table(lab).snapshots() if s.summary["added-records"]])


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_column_comes_and_each_type_is_read_back_as_spark_wrote_it(lab: Lab) -> None:
    into_iceberg(lab)
    lab.produce(4)
    lab.run()
    into_iceberg(lab, "schema_evolution: add", on_error="dead_letter")
    typed = (
        "value.id as ID, cast(value.v as decimal(12,3)) as d, timestamp as at, "
        "timestamp_ntz'2026-01-02 03:04:05.000006' as local, date'1500-03-01' as day, "
        "array(value.k) as ks, map(value.k, value.v) as m, named_struct('x', 1.5D) as s, "
        "cast(value.k as binary) as b"
    )
    text = lab.file.read_text()
    assert "select value.*," in text
    lab.file.write_text(text.replace("select value.*,", f"select {typed}, value.k, value.v,"))
    lab.produce(2)
    lab.produce_raw(0, b"not json")
    assert lab.spark is not None
    lab.spark.conf.set(REBASE, "LEGACY")  # a user's setting, which Iceberg's days must not obey
    try:
        lab.run()
    finally:
        lab.spark.conf.unset(REBASE)

    assert [row["value"] for row in lab.arrow("dead").to_pylist()] == [b"not json"]
    rows = table(lab).scan("id >= 4").to_arrow().sort_by("id").to_pylist()

    assert ids(lab) == [*range(6)]
    (last,) = (row for row in rows if row["id"] == 5)
    assert str(last["d"]) == "5.000"
    assert last["at"].utcoffset().total_seconds() == 0
    assert last["local"].isoformat() == "2026-01-02T03:04:05.000006"
    assert last["day"].isoformat() == "1500-03-01"
    assert (last["ks"], last["m"], last["s"]) == (["k5"], [("k5", 5)], {"x": 1.5})
    assert last["b"] == b"k5"
    old = table(lab).scan("id < 4").to_arrow().to_pylist()
    assert {row["d"] for row in old} == {None}


def test_a_type_that_iceberg_lacks_stops_the_run_before_there_is_a_table(lab: Lab) -> None:
    into_iceberg(lab)
    text = lab.file.read_text()
    lab.file.write_text(text.replace("select value.*,", "select cast(value.v as tinyint) as v,"))
    lab.produce(2)

    with pytest.raises(ConfigError, match="column `v`: TINYINT has no counterpart"):
        lab.run()
    assert not (lab.directory / "warehouse").exists()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_chain_that_expiry_took_out_of_sight_stops_the_run_with_its_offsets(lab: Lab) -> None:
    into_iceberg(lab)
    lab.produce(6)
    lab.run()
    one = table(lab)
    for _ in range(2):  # as a compaction and a later commit of another engine
        one.overwrite(one.scan().to_arrow())
    gone = [each.snapshot_id for each in one.snapshots()[:-1]]
    one.maintenance.expire_snapshots().by_ids(gone).commit()

    assert isinstance(sides_of(lab).tip, Unreadable)
    with pytest.raises(ChainError, match="the table's property has of") as caught:
        lab.run()
    assert json.dumps({"0": 3, "1": 3}) in str(caught.value)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_ends_are_moved_and_names_handed_on_by_the_catalog_alone(lab_without_spark: Lab) -> None:
    """`offsets set`, `status` and `--rename` of a real topic: no Spark is started."""
    lab = lab_without_spark
    into_iceberg(lab)
    lab.produce(6)
    pipeline = read_pipeline(lab.file, lab.environment(1))
    assert sides_of(lab).tip is None
    place = TablePlace(pipeline.sinks["out"])
    made = place.ensure(schema_of({"fields": [{"name": "id", "type": "integer"}]}))
    tps = {TopicPartition(lab.topic, n): 3 for n in range(2)}
    ids_now = ANY_KIND.look(pipeline.sources["events"]).latest.topic_ids
    reached = TopicOffsets(ends=tps, topic_ids=ids_now)

    def chain_of(name: str) -> IcebergChain:
        link = Link(pipeline="lab", sink=name, run=name)
        chain = IcebergChain(place.find(), place.told, link, lambda: pytest.fail("Spark"))
        chain.load()
        return chain

    old, new = chain_of("old"), chain_of("out")
    old.move(Commit(start={}, end=reached, txn_version=1))
    assert sides_of(lab).stop is not None, "another name has read this topic into that table"
    new.load()
    new.take_over(new.others()[0])
    assert sides_of(lab).tip == Tip(reached=reached, txn_version=0)
    back = setting(Tip(reached=reached, txn_version=0), dict.fromkeys(tps, 1), ids_now)
    assert isinstance(back, Move)

    put(pipeline, sides_of(lab), back, lambda: pytest.fail("Spark is asked for"))

    moved = sides_of(lab).tip
    assert isinstance(moved, Tip)
    assert (dict(moved.reached.ends), moved.txn_version) == (dict.fromkeys(tps, 1), 1)
    assert len(made.refresh().snapshots()) == 3
    with pytest.raises(StoppedError):
        old.move(Commit(start={}, end=reached, txn_version=2))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_the_files_own_tests_need_no_catalog(lab: Lab) -> None:
    file = "conf/pipelines/iceberg.yaml"
    pipeline = read_pipeline(file, {**os.environ, "LAKE": str(lab.directory)})

    assert lab.spark is not None
    found = run_cases(lab.spark, pipeline)

    assert [each.complaints for each in found] == [()]
    assert not (lab.directory / "iceberg").exists()


@pytest.mark.slow
def test_a_driver_killed_at_every_step_loses_and_repeats_nothing(lab: Lab) -> None:
    """Each process is killed with its JVM; the checkpoint is lost in between."""
    into_iceberg(lab)
    lab.produce(60)
    for number, fail in enumerate(
        ("before_commit", "mid_write", "mid_commit:2", "after_commit_before_log")
    ):
        killed_at(lab, fail, 20)
        if number % 2:
            lab.lose_checkpoint()
        lab.produce(20)
    before, process = folders(lab), lab.command(rows=10)
    try:
        wait_until(lambda: folders(lab) > before or process.poll() is not None, 300, "a commit")
    finally:
        lab.kill(process)

    lab.run(rows=500)

    assert ids(lab) == list(range(lab.sent))

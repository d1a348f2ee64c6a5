"""Every mode of a sink through the same trouble: real kills, what others do to its table between
runs, two runs at once, a commit of others within its own. Its rows against a model, read by
delta-rs. Windows and joins have theirs in test_windows.py and test_joins.py.
"""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Callable
from typing import Any

import pytest
from deltalake.exceptions import DeltaProtocolError
from pyspark.sql import functions as F  # noqa: N812

from pipelines.base import failpoints
from pipelines.base.errors import ChainError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Lab, Quiet, expected_sums
from tests.spark.pipelines.test_kill import killed_at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SINK = """\
sinks:
  rows:
    type: delta
    inputs: [rows]
    path: ${LAB}/tables/rows
    mode: %s
"""
SAID = {
    "append": "append",
    "merge": "merge\n    keys: [k]\n    aggregate: { records: count(*), v_sum: sum(v) }",
    "upsert": "upsert\n    keys: [k]\n    order_by: id",
    "scd2": "scd2\n    keys: [k]\n    order_by: id",
    "deduplicate": "append\n    deduplicate: { keys: [k] }",
}
"""Mode → its words."""
Row = dict[str, Any]


def _merged(sent: int) -> list[Row]:
    return [{name: row[name] for name in ("k", "records", "v_sum")} for row in expected_sums(sent)]


def _upserted(sent: int) -> list[Row]:
    return [{"k": f"k{n % 7}", "id": n} for n in range(max(0, sent - 7), sent)]


def _versions(sent: int) -> list[Row]:
    after = {n: n + 7 if n + 7 < sent else None for n in range(sent)}
    return [
        {"id": n, "_valid_from": n, "_valid_to": after[n], "_current": after[n] is None}
        for n in range(sent)
    ]


MODEL: dict[str, Callable[[int], list[Row]]] = {
    "append": lambda sent: [{"id": n} for n in range(sent)],
    "merge": _merged,
    "upsert": _upserted,
    "scd2": _versions,
    "deduplicate": lambda sent: [{"k": f"k{n}"} for n in range(min(7, sent))],
}
"""Mode → what the table has of so many events."""


def wrong(lab: Lab, mode: str) -> list[Row]:
    """What of the table is not as in the model, and the other way round; by delta-rs."""
    expected = MODEL[mode](lab.sent)
    found = [{name: row[name] for name in expected[0]} for row in lab.arrow("rows").to_pylist()]
    spare = [row for row in found if row not in expected]
    spare += [row for row in expected if found.count(row) != 1]
    return spare


def begin(lab: Lab, mode: str) -> None:
    lab.write_file(on_error="fail", sinks=SINK % SAID[mode])
    lab.produce(40)


@pytest.mark.slow
@pytest.mark.parametrize("loses", [False, True], ids=["kept", "deleted"])
@pytest.mark.parametrize("mode", SAID)
def test_a_driver_that_is_killed_leaves_every_mode_right(lab, mode, loses):
    """kill -9 between the data and their commit, then behind a commit that Spark knows nothing
    of."""
    begin(lab, mode)

    for fail in ("mid_write@2", "after_commit_before_log@2"):
        killed_at(lab, fail, 13)
        if loses:
            lab.lose_checkpoint()
        lab.produce(34)
    lab.run(rows=17)

    assert wrong(lab, mode) == []
    assert lab.chain_ends("rows", "rows") == lab.topic_ends()


@pytest.mark.slow
@pytest.mark.parametrize("mode", SAID)
def test_what_others_do_to_a_table_between_runs_is_gone_on_from_or_stops(lab, mode):
    """OPTIMIZE, RESTORE, a commit of others, the table deleted; never a row lost or twice."""
    begin(lab, mode)
    lab.run(rows=25)
    table = f"delta.`{lab.table('rows')}`"
    version = lab.history("rows")[0].version
    lab.produce(21)

    lab.spark.sql(f"OPTIMIZE {table}")
    lab.spark.sql(f"DELETE FROM {table} WHERE k = 'k3'")
    foreign = lab.spark.read.format("delta").option("versionAsOf", version).load(lab.table("rows"))
    foreign.where("k = 'k3'").write.format("delta").mode("append").save(lab.table("rows"))
    lab.run(rows=25)
    assert wrong(lab, mode) == []

    lab.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}")
    with pytest.raises(ChainError, match="the table has less than the checkpoint committed"):
        lab.run()
    lab.run(trust=Trust.TABLE)
    assert wrong(lab, mode) == []

    shutil.rmtree(lab.table("rows"))
    with pytest.raises(ChainError, match="the table has no commit of this sink"):
        lab.run()
    lab.run(trust=Trust.TABLE)
    assert wrong(lab, mode) == []
    assert lab.chain_ends("rows", "rows") == lab.topic_ends()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["merge", "upsert", "scd2", "deduplicate"])
def test_of_two_runs_at_once_one_stops_whatever_the_mode(lab, mode):
    """Of append: test_exactly_once.py."""
    begin(lab, mode)
    pipeline = read_pipeline(lab.file, lab.environment(20))
    twin = dataclasses.replace(pipeline, checkpoint=str(lab.directory / "twin"))
    other = Quiet()

    class Interrupted(Quiet):
        def batch(self, done):
            if not other.batches:
                arguments = (lab.spark.newSession(), twin, other)
                thread = threading.Thread(target=run_pipeline, args=arguments)
                thread.start()
                thread.join()

    with pytest.raises(ChainError, match="another run of this sink has committed") as stopped:
        run_pipeline(lab.spark, pipeline, Interrupted())

    assert "Let one run continue and stop the other" in str(stopped.value)
    assert wrong(lab, mode) == []


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize(
    "mode", ["upsert", *(pytest.param(each, marks=pytest.mark.slow) for each in ("merge", "scd2"))]
)
def test_a_commit_of_others_within_a_merge_is_no_end_it_is_made_again(lab, mode, monkeypatch):
    """By delta-rs, while the merge reads the rows that it puts in: it changes what they meet."""
    begin(lab, mode)
    lab.run()
    lab.produce(14)
    path, mark = lab.table("rows"), str(lab.directory / "meddled")

    def meddled(frame):
        def pass_on(batches):
            from pathlib import Path

            from deltalake import DeltaTable

            if not Path(mark).exists():
                Path(mark).touch()
                DeltaTable(path).optimize.compact(target_size=1 << 30)
                DeltaTable(path).update(predicate="k = 'k1'", updates={"k": "'k1'"})
            yield from batches

        return frame.coalesce(1).mapInArrow(pass_on, frame.schema)

    monkeypatch.setattr(failpoints, "disturbed", meddled)
    lab.run()

    # Sums are merged by Arrow, after Spark has made them: nothing comes between.
    seen = [] if mode == "merge" else ["another commit came between"]
    assert [says for _, _, says in lab.reporter.retries] == seen
    assert wrong(lab, mode) == []


@pytest.mark.slow
def test_a_clustered_and_optimized_table_is_read_by_delta_rs_and_one_whose_types_grew_refused(lab):
    """It knows no type widening, and says so: no wrong rows."""
    begin(lab, "append")
    lab.write_file(
        on_error="fail", sinks=SINK % "append\n    cluster_by: [k]\n    schema_evolution: widen"
    )
    lab.run()
    lab.spark.sql(f"OPTIMIZE delta.`{lab.table('rows')}`")
    assert wrong(lab, "append") == []
    lab.produce(10)
    lab.run()
    assert wrong(lab, "append") == []
    lab.write_file(
        on_error="fail",
        sinks=SINK % "append\n    cluster_by: [k]\n    schema_evolution: widen",
        **{"select value.*,": "select cast(value.id as bigint) as id, value.k, value.v,"},
    )
    lab.produce(10)
    lab.run()

    frame = lab.spark.read.format("delta").load(lab.table("rows"))
    assert dict(frame.dtypes)["id"] == "bigint"
    assert frame.agg(F.count_distinct("id")).first()[0] == frame.count() == lab.sent
    with pytest.raises(DeltaProtocolError, match="typeWidening"):
        lab.arrow("rows")

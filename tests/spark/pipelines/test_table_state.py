"""A commit finds the table's state there, and the session is as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.sinks.delta_commits import compute_state

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STAGES, FACTORY = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"


def commit(spark: Any, path: str, version: int) -> int:
    """One with a transaction; how many jobs it takes."""
    group = f"table-state-{version}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        writer = spark.range(3).write.format("delta").mode("append").option("txnAppId", "a")
        writer.option("txnVersion", str(version)).save(path)
    finally:
        spark.sparkContext._jsc.clearJobGroup()
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_commit_behind_it_has_no_state_to_compute(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(path)

    alone = commit(spark, path, 1)
    compute_state(spark, path, 1)
    behind = commit(spark, path, 2)
    compute_state(spark, path, 7)
    of_another = commit(spark, path, 3)

    assert behind < of_another == alone
    assert spark.read.format("delta").load(path).count() == 12


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_the_session_goes_on_as_it_was_also_where_there_is_no_table(
    spark: Any, tmp_path: Path
) -> None:
    own = spark.newSession()
    own.conf.set(FACTORY, "FALLBACK")
    before = {name: own.conf.get(name) for name in (STAGES, FACTORY)}

    spark.range(3).write.format("delta").save(str(tmp_path / "table"))

    for path in (tmp_path / "table", tmp_path / "none"):
        compute_state(own, str(path), 0)

    assert before[FACTORY] == "FALLBACK"
    assert {name: own.conf.get(name) for name in (STAGES, FACTORY)} == before

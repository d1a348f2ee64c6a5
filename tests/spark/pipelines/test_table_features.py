"""Features of a Delta table: each is in the table, a reader beside Spark sees the rows, and what an
existing table does not get is refused before anything changes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from deltalake import DeltaTable as OtherReader
from deltalake import QueryBuilder
from py4j.protocol import Py4JError
from pyspark.errors import IllegalArgumentException

from pipelines.base.errors import RunError
from pipelines.model.table_features import FEATURES, PLAIN
from pipelines.sinks.delta_tables import ensure_table, settings_of
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LAKE = """\
version: 1
name: lake
spark: { checkpoint: "${LAB}/ck" }
sources:
  rows:
    type: delta
    stream: true
    path: "${LAB}/from"
    schema: id BIGINT, country STRING, v DOUBLE
    limit: { files: 1 }
sinks:
  lake:
    type: delta
    inputs: [rows]
    path: "${LAB}/lake"
    mode: upsert
    keys: [country, id]
    order_by: v
    partition_by: [country]
    features:
      change_data_feed: true
      deletion_vectors: true
      row_tracking: true
      column_mapping: name
      in_commit_timestamps: true
      v2_checkpoints: true
      optimize_write: true
      auto_compact: true
    properties: { delta.checkpointInterval: 7, team: it's ours }
    optimize: { every: 1 batch, zorder_by: [v], file_size: 1MiB }
trigger: { available_now: true }
"""


@pytest.fixture
def lab(spark, tmp_path: Path) -> FilesLab:
    return FilesLab(spark, tmp_path, LAKE, ())


def write(lab: FilesLab, ids: range, value: float) -> None:
    rows = [(n, "de" if n % 2 else "fr", value) for n in ids]
    frame = lab.spark.createDataFrame(rows, "id BIGINT, country STRING, v DOUBLE")
    frame.coalesce(1).write.format("delta").mode("append").save(f"{lab.folder}/from")


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_one_table_with_every_feature_has_each_row_once_for_two_readers(lab, spark):
    """All that delta-rs reads: type widening it refuses, UniForm needs a jar."""
    write(lab, range(8), 1.0)
    write(lab, range(4), 2.0)
    lab.run()

    path = f"{lab.folder}/lake"
    expected = sorted((n, "de" if n % 2 else "fr", 2.0 if n < 4 else 1.0) for n in range(8))
    assert sorted(tuple(row) for row in lab.collected("lake")) == expected
    (detail,) = DeltaTable.forPath(spark, path).detail().collect()
    assert {
        "changeDataFeed", "deletionVectors", "rowTracking", "columnMapping", "inCommitTimestamp",
        "v2Checkpoint",
    } <= {*detail.tableFeatures}  # fmt: skip
    assert detail.partitionColumns == ["country"]
    assert (detail.properties["delta.checkpointInterval"], detail.properties["team"]) == (
        "7", "it's ours",
    )  # fmt: skip
    operations = [row.operation for row in DeltaTable.forPath(spark, path).history().collect()]
    assert "OPTIMIZE" in operations
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    changes = feed.option("startingVersion", 0).load(path)
    assert changes.where("_change_type = 'update_postimage'").count() == 4
    query = QueryBuilder().register("lake", OtherReader(path))
    seen = query.execute("select id, country, v from lake").read_all()
    columns = [seen.column(name).to_pylist() for name in ("id", "country", "v")]
    assert sorted(zip(*columns, strict=True)) == expected


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_an_existing_table_gets_what_no_reader_has_to_know_and_nothing_of_a_refused_file(
    lab, spark
):
    write(lab, range(4), 1.0)
    path = f"{lab.folder}/lake"
    schema = spark.createDataFrame([], "id BIGINT, country STRING, v DOUBLE").schema
    ensure_table(spark, path, None, schema)

    with pytest.raises(RunError) as refused:
        lab.run()
    assert "has no partitions, the file has `partition_by` country" in str(refused.value)
    without = LAKE.replace("    partition_by: [country]\n", "")
    lab.write(without)
    with pytest.raises(RunError) as refused:
        lab.run()
    assert "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')" in str(refused.value)
    assert "delta.enableChangeDataFeed" not in settings_of(spark, path)

    kept = [line for line in without.splitlines() if not _is_refused(line)]
    lab.write("\n".join(kept))
    lab.run()
    settings = settings_of(spark, path)
    assert settings["delta.enableChangeDataFeed"] == "true"
    assert (settings["delta.autoOptimize.autoCompact"], settings["team"]) == ("true", "it's ours")
    assert len(lab.collected("lake")) == 4


def _is_refused(line: str) -> bool:
    return any(f" {each.keyword}:" in line for each in FEATURES if each.why_new)


def test_a_feature_without_its_jar_is_refused_before_there_is_a_table(lab, spark):
    write(lab, range(2), 1.0)
    lab.write(LAKE.replace("column_mapping: name", "uniform: iceberg"))
    with pytest.raises(RunError, match="needs the jar delta-iceberg, which this Spark has not"):
        lab.run()
    assert not Path(lab.folder, "lake").exists()


@pytest.mark.slow
def test_the_table_of_features_is_deltas(spark, tmp_path):
    """Each row's protocol is that of a table made with it alone, and Delta has each property."""
    schema = spark.createDataFrame([], "id BIGINT").schema
    for each in FEATURES:
        path = str(tmp_path / each.keyword)
        settings = ((each.key, each.choices[0] if each.choices else each.on), *each.with_it)
        ensure_table(spark, path, None, schema, settings)
        (detail,) = DeltaTable.forPath(spark, path).detail().collect()
        made = {*(detail.tableFeatures or ())} - {"appendOnly", "invariants"}
        assert made == {*each.needs.rpartition(": ")[2].split(", ")} - {""}, each.keyword
        # A reader has to know a feature exactly if the table's reader version says so.
        assert (detail.minReaderVersion > 1) is each.needs.startswith("readers"), each.keyword
    for name in PLAIN:
        path = str(tmp_path / name)
        # A column that the table lacks is an AnalysisException, as a property that Delta lacks is.
        value = "id" if name == "delta.dataSkippingStatsColumns" else "no such value"
        with contextlib.suppress(Py4JError, IllegalArgumentException):  # a value that is not valid
            ensure_table(spark, path, None, schema, [(name, value)])

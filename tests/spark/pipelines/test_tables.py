"""The tables as others see them: readers that are not Spark, older versions, wider schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pipelines.base.errors import RunError
from tests.spark.pipelines.conftest import ONE_SINK

RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_tables_are_read_by_spark_and_by_a_reader_that_is_not_spark(lab):
    """Checklist row 89: both readers, versions of the past, vacuum, a schema that grew. Versions
    are of whole batches of 30 records; that a kill commits all or nothing is in test_kill.py."""
    lab.produce(60)
    lab.run(rows=30)

    versions = [entry.version for entry in lab.history("rows")]
    table = DeltaTable(lab.table("rows"))
    assert table.to_pyarrow_table().num_rows == 60
    assert DeltaTable(lab.table("rows"), version=versions[-1]).to_pyarrow_table().num_rows == 30
    spark = lab.spark.read.format("delta")
    assert spark.load(lab.table("rows")).count() == 60
    assert spark.option("versionAsOf", versions[-1]).load(lab.table("rows")).count() == 30
    assert offsets_by_version(lab) == [
        (versions[-1], {lab.topic: {"0": 0, "1": 0}}, {lab.topic: {"0": 15, "1": 15}}),
        (versions[-2], {lab.topic: {"0": 15, "1": 15}}, {lab.topic: {"0": 30, "1": 30}}),
    ]

    lab.spark.sql(f"ALTER TABLE delta.`{lab.table('rows')}` ADD COLUMN note STRING")
    lab.spark.sql(f"ALTER TABLE delta.`{lab.table('sums')}` ADD COLUMN note STRING")
    replaced = _files_stored(lab.table("sums")) - _files_of_the_last_version(lab.table("sums"))
    assert replaced, "the second merge replaced no file"
    lab.spark.conf.set(RETENTION_CHECK, "false")
    lab.spark.sql(f"VACUUM delta.`{lab.table('sums')}` RETAIN 0 HOURS")
    lab.spark.conf.unset(RETENTION_CHECK)
    assert _files_stored(lab.table("sums")) == _files_of_the_last_version(lab.table("sums"))
    lab.produce(40)
    lab.run(rows=40)

    assert DeltaTable(lab.table("rows")).to_pyarrow_table().column("note").null_count == 100
    assert lab.arrow("sums").to_pylist()[0].keys() >= {"k", "records", "note"}
    assert sum(lab.arrow("sums")["records"].to_pylist()) == 100


def offsets_by_version(lab) -> list[tuple[int, Any, Any]]:
    """(version, start, end), as docs/reference/pipelines/tables.md asks for them."""
    history = lab.spark.sql(f"DESCRIBE HISTORY delta.`{lab.table('rows')}`")
    own = history.where("get_json_object(userMetadata, '$.sink') = 'rows'")
    parts = (f"get_json_object(userMetadata, '$.{name}')" for name in ("start", "end"))
    rows = own.selectExpr("version", *parts).orderBy("version").collect()
    return [(row[0], json.loads(row[1]), json.loads(row[2])) for row in rows]


def _files_stored(table: str) -> set[str]:
    return {each.name for each in Path(table).glob("*.parquet")}


def _files_of_the_last_version(table: str) -> set[str]:
    return {Path(each).name for each in DeltaTable(table).file_uris()}


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_folder_that_a_kill_left_without_its_first_commit_becomes_the_table(lab):
    """Found by a random kill: Delta takes a folder with an empty `_delta_log` for a table."""
    for sink in ("rows", "sums"):
        Path(lab.table(sink), "_delta_log").mkdir(parents=True)
    lab.produce(20)

    lab.run(rows=30)

    assert DeltaTable(lab.table("rows")).to_pyarrow_table().num_rows == 20


def test_a_table_with_other_columns_stops_before_anything_is_written(lab):
    lab.spark.createDataFrame([], "id STRING, other INT").write.format("delta").save(
        lab.table("rows")
    )
    lab.produce(5)

    with pytest.raises(RunError) as stopped:
        lab.run()

    assert str(stopped.value).startswith(
        f"sink `rows`: {lab.table('rows')} has other columns: id is string, the pipeline has int, "
        "k is not there, the pipeline has string"
    )


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_columns_that_the_file_changes_are_told_and_follow_when_it_says_so(lab):
    """One came, one grew, one went."""
    lab.produce(10)
    lab.run()
    changed = {
        "select value.*,": "select cast(value.id as bigint) as id, value.k, 'x' as note,",
        "path: ${LAB}/tables/sums": "path: ${LAB}/tables/sums2",
        "values: count(v)": "notes: count(note)",
        "v_sum: sum(v)": "id_sum: sum(id)",
        "v_min: min(v)": "id_min: min(id)",
        "v_max: max(v)": "id_max: max(id)",
    }
    lab.write_file(**changed)
    lab.produce(10)
    table = f"delta.`{lab.table('rows')}`"

    with pytest.raises(RunError) as stopped:
        lab.run()
    assert str(stopped.value) == (
        f"sink `rows`: {lab.table('rows')} has other columns: id is int, the pipeline has bigint, "
        "note is not there, the pipeline has string, v is written no more (columns come and go "
        "with `schema_evolution: add`; those that go are null in new rows; types grow with "
        "`schema_evolution: widen`). Set it in the file, or change the table:\n"
        f"  ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true');\n"
        f"  ALTER TABLE {table} ALTER COLUMN `id` TYPE bigint;\n"
        f"  ALTER TABLE {table} ADD COLUMNS (`note` string);"
    )
    lab.write_file(**changed, **{"mode: append": "mode: append, schema_evolution: widen"})
    lab.lose_checkpoint()
    lab.run()

    rows = lab.spark.read.format("delta").load(lab.table("rows"))
    assert dict(rows.dtypes)["id"] == "bigint"
    found = {row.id: (row.v, row.note) for row in rows.collect()}
    assert sorted(found) == list(range(20))
    assert found[1] == (1, None)
    assert found[11] == (None, "x")


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_table_of_the_catalog_is_written_like_one_of_a_path(lab):
    lab.spark.sql(f"CREATE DATABASE IF NOT EXISTS lab_{lab.topic.replace('-', '_')}")
    name = f"lab_{lab.topic.replace('-', '_')}.rows"
    dead = name.replace("rows", "dead")
    lab.write_file(
        on_error="dead_letter",
        **{
            'path: "${LAB}/tables/rows"': f"table: {name}",
            'path: "${LAB}/tables/dead"': f"table: {dead}",
        },
    )
    lab.produce(10)
    lab.produce_raw(1, b"not json")

    first = lab.run()
    lab.lose_checkpoint()
    lab.run()

    assert lab.spark.table(name).count() == 10
    assert lab.spark.table(dead).count() == 1
    assert first.sinks["rows"].path.endswith("/rows")

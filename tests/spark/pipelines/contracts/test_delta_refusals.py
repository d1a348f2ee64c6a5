"""What lint reports of Delta, Delta does refuse, and of the other types nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipelines.lint.delta_refusals import INDEXED_MAX, REFUSED
from pipelines.sinks.delta_tables import cluster, ensure_table, settings_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NULLS = {
    "MAP": "MAP<STRING, INT>",
    "ARRAY": "ARRAY<INT>",
    "STRUCT": "STRUCT<a: INT>",
    "INTERVAL": "INTERVAL DAY",
    "DECIMAL": "DECIMAL(10,2)",
}
KINDS = ("BOOLEAN", "BINARY", "ARRAY", "MAP", "STRUCT", "VARIANT", "TIME", "INTERVAL",
         "DECIMAL", "TIMESTAMP_NTZ")  # fmt: skip
"""Those that are refused, and two of the others, of which none is (once tried with all)."""


def test_types_and_names_are_refused_as_the_table_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    found: dict[str, list[str]] = {"stored": [], "clustered": [], "compared": []}
    for kind in KINDS:
        path = str(tmp_path / kind)
        try:
            # Spark itself refuses TIME unless a setting allows it.
            rows = spark.sql(f"select 1 as id, cast(null as {NULLS.get(kind, kind)}) as k")
            ensure_table(spark, path, None, rows.schema)
        except PySparkException:
            found["stored"].append(kind)
            continue
        try:
            cluster(spark, path, ("k",))
        except PySparkException:
            found["clustered"].append(kind)
        try:
            table = DeltaTable.forPath(spark, path).alias("t")
            _ = table.toDF().alias("t").join(rows.alias("s"), on=_same(), how="inner").schema
        except PySparkException:
            found["compared"].append(kind)

    assert found == {use: sorted(kinds, key=KINDS.index) for use, kinds in REFUSED.items()}


def _same():  # type: ignore[no-untyped-def]
    return F.expr("t.k <=> s.k")


def test_no_name_is_refused_for_its_characters(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"a{character}b" for character in " ,;{}()\n\t=.`"]
    schema = spark.range(0).select(*[F.lit(1).alias(name) for name in names]).schema

    path = ensure_table(spark, str(tmp_path / "table"), None, schema)

    assert spark.read.format("delta").load(path).columns == names


def test_the_columns_after_the_first_have_no_statistics(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = [f"id as c{number}" for number in range(INDEXED_MAX + 1)]
    path = ensure_table(
        spark, str(tmp_path / "wide"), None, spark.range(0).selectExpr(*columns).schema
    )

    cluster(spark, path, (f"c{INDEXED_MAX - 1}",))
    with pytest.raises(PySparkException, match="to have stats"):
        cluster(spark, path, (f"c{INDEXED_MAX}",))


def test_table_that_exists_is_found_with_a_checkpoint_interval_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also with a column that needs a setting, which CREATE names each time."""
    path = str(tmp_path / "table")
    schema = spark.createDataFrame([(1,)], "`net amount` INT").schema
    ensure_table(spark, path, None, schema, [("delta.checkpointInterval", "100")])

    assert ensure_table(spark, path, None, schema) == path
    assert settings_of(spark, path)["delta.checkpointInterval"] == "100"

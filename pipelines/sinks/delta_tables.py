"""Delta tables without their chains: create, find, change columns and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.model.pipeline import Pipeline
from pipelines.model.schema_evolution import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ensure_table(spark: SparkSession, path: str | None, table: str | None, schema: Any) -> str:
    """Create the Delta table if it does not exist; return its folder."""
    from delta.tables import DeltaTable
    from pyspark.errors import PySparkException

    builder = DeltaTable.createIfNotExists(spark).addColumns(schema)
    if path is None:
        builder.tableName(str(table)).execute()
        return folder_of(spark, str(table))
    try:
        builder.location(path).execute()
    except PySparkException as error:
        if "DELTA_TABLE_NOT_FOUND" not in str(error):
            raise
        # A kill between the creation of `_delta_log` and the first commit: CREATE takes the folder
        # for a table, only a write sees that there is none.
        spark.createDataFrame([], schema).write.format("delta").mode("append").save(path)
    return path


def change_columns(spark: SparkSession, path: str, steps: Steps) -> None:
    """Change the table's columns. After a crash the next start finds the rest due."""
    table = f"delta.`{path}`"
    if steps.add:
        columns = ", ".join(f"`{name}` {kind}" for name, kind in steps.add)
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({columns})")
    if steps.widen:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    for name, kind in steps.widen:
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN `{name}` TYPE {kind}")


def cluster(spark: SparkSession, path: str, columns: tuple[str, ...]) -> None:
    """Cluster the table's rows by these columns, from its next OPTIMIZE on."""
    from delta.tables import DeltaTable

    detail = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
    assert detail is not None
    there = [name.lower() for name in detail[0] or ()]
    if there != [name.lower() for name in columns]:
        names = ", ".join(f"`{name}`" for name in columns)
        spark.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY ({names})")


def layout_of(spark: SparkSession, path: str) -> tuple[list[dict[str, Any]], list[str]]:
    """(the fields of the table's schema with their metadata, its partition columns)."""
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, path)
    detail = table.detail().select("partitionColumns").first()
    assert detail is not None
    fields: list[dict[str, Any]] = table.toDF().schema.jsonValue()["fields"]
    return fields, list(detail[0] or ())


def settings_of(spark: SparkSession, path: str) -> dict[str, str]:
    """The table's own settings, `delta.*` and others."""
    from delta.tables import DeltaTable

    detail = DeltaTable.forPath(spark, path).detail().select("properties").first()
    assert detail is not None
    return dict(detail[0] or {})


def constrain(spark: SparkSession, path: str, name: str, condition: str) -> None:
    """Add a CHECK constraint to the table. Raises Spark's error if a row violates it."""
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT `{name}` CHECK ({condition})")


def letters_folder(spark: SparkSession, pipeline: Pipeline) -> str | None:
    """The folder of the dead-letter table; None if the catalog has no such table."""
    name = pipeline.dead_letter_table
    return pipeline.dead_letter_path if name is None else found_folder(spark, name)


def found_folder(spark: SparkSession, table: str) -> str | None:
    """The folder of a table in the catalog; None if the catalog has no such table."""
    return folder_of(spark, table) if spark.catalog.tableExists(table) else None


def folder_of(spark: SparkSession, table: str) -> str:
    """The folder of a table in the catalog."""
    from delta.tables import DeltaTable

    detail = DeltaTable.forName(spark, table).detail().select("location").first()
    assert detail is not None
    return str(detail[0])

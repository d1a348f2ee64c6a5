"""Delta tables without their chains: create, find, read, change columns and settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import delta_table, quoted, unquoted
from pipelines.model.pipeline import Pipeline
from pipelines.model.schema_evolution import Steps, alterations, settings_for
from pipelines.model.table_columns import Fields
from pipelines.sinks.delta_log import newest_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEATURE = "delta.feature."
"""The prefix of the settings that add a table feature."""


def ensure_table(
    spark: SparkSession,
    path: str | None,
    table: str | None,
    schema: Any,
    settings: Iterable[tuple[str, str]] = (),
    partition_by: Sequence[str] = (),
) -> str:
    """Create the Delta table if it does not exist; return its folder. `settings`: properties of a
    new table; none for a table that exists, nor `partition_by`, its partition columns."""
    from delta.tables import DeltaTable
    from pyspark.errors import PySparkException

    builder = DeltaTable.createIfNotExists(spark).addColumns(schema)
    columns = (((field["name"],), field["type"]) for field in schema.jsonValue()["fields"])
    for name, value in settings_for(columns):
        if not name.startswith(FEATURE):  # a new table has the features that its columns need
            builder = builder.property(name, value)
    for name, value in settings:
        builder = builder.property(name, value)
    if partition_by:
        builder = builder.partitionedBy(*partition_by)
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
        rows = spark.createDataFrame([], schema).write.format("delta").mode("append")
        if partition_by:
            rows = rows.partitionBy(*partition_by)
        rows.save(path)
        set_settings(spark, path, settings)
    return path


def change_columns(spark: SparkSession, path: str, steps: Steps) -> None:
    """Change the table's columns. After a crash the next start finds the rest due."""
    for statement in alterations(delta_table(path), steps):
        spark.sql(statement)


def set_settings(spark: SparkSession, path: str, settings: Iterable[tuple[str, str]]) -> None:
    """Set properties of the table, in one commit; none for no settings."""
    texts = ", ".join(f"{_literal(name)} = {_literal(value)}" for name, value in settings)
    if texts:
        spark.sql(f"ALTER TABLE {delta_table(path)} SET TBLPROPERTIES ({texts})")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def schema_fields(spark: SparkSession, path: str) -> Fields:
    """The fields of the table's schema with all of their metadata, which a DataFrame of the table
    lacks in part: that a column is generated, or may not be null."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, TypeError):  # TypeError: another version of Delta may lack the class
        text = newest_snapshot(spark, path).metadata().schemaString()
        fields: Fields = json.loads(text)["fields"]
        return fields
    return list(spark.read.format("delta").load(path).schema.jsonValue()["fields"])


def cluster(spark: SparkSession, path: str, columns: tuple[str, ...]) -> None:
    """Cluster the table's rows by these columns, from its next OPTIMIZE on."""
    from delta.tables import DeltaTable

    detail = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
    assert detail is not None
    there = [unquoted(name).lower() for name in detail[0] or ()]
    if there != [name.lower() for name in columns]:
        names = ", ".join(quoted(name) for name in columns)
        spark.sql(f"ALTER TABLE {delta_table(path)} CLUSTER BY ({names})")


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


def has_setting(spark: SparkSession, path: str, name: str, value: str) -> bool:
    """Whether the table has this setting, which may be a table feature."""
    from delta.tables import DeltaTable

    if name.startswith(FEATURE):
        detail = DeltaTable.forPath(spark, path).detail().select("tableFeatures").first()
        assert detail is not None
        return name.removeprefix(FEATURE) in (detail[0] or ())
    return settings_of(spark, path).get(name) == value


def constrain(spark: SparkSession, path: str, name: str, condition: str) -> None:
    """Add a CHECK constraint to the table. Raises Spark's error if a row violates it."""
    spark.sql(f"ALTER TABLE {delta_table(path)} ADD CONSTRAINT {quoted(name)} CHECK ({condition})")


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

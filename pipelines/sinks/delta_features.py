"""Features and properties of a sink's Delta table: those that are due, and missing jars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.base.errors import RunError
from pipelines.base.quoting import delta_table
from pipelines.model.pipeline import Sink
from pipelines.model.table_features import Settings, due, feature_of, other_partitions
from pipelines.sinks.delta_tables import layout_of, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_due(spark: SparkSession, sink: Sink, path: str) -> Settings:
    """The properties that an existing table lacks. Raises RunError if it cannot get them, or if
    its partitions are others than the file's."""
    found: Settings | str = ()
    if sink.partition_by:
        found = other_partitions(layout_of(spark, path)[1], sink.partition_by)
    if sink.wishes and not found:
        found = due(settings_of(spark, path), sink.wishes, delta_table(path))
    if isinstance(found, str) and found:
        raise RunError(f"sink `{sink.name}`: {sink.told} {found}")
    return found or ()


def refuse_missing_jars(spark: SparkSession, sink: Sink) -> None:
    """Raise RunError if a feature's jar is missing: Delta would set the property and do nothing."""
    from py4j.protocol import Py4JError

    for wish in sink.wishes:
        feature = feature_of(wish)
        if feature is None or not feature.jar_class:
            continue
        try:
            loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
            loader.loadClass(feature.jar_class)
        except Py4JError as error:
            raise RunError(
                f"sink `{sink.name}`: `{wish.word}: {wish.value}` needs the jar {feature.jar}, "
                "which this Spark has not: add the one of your Delta to spark.jars.packages of "
                f"`spark.conf`, or leave the keyword out ({wish.place})"
            ) from error

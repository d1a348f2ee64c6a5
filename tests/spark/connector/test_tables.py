"""SQL's way to a topic: temporary views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.connector.conftest import Topics

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
KEY_AND_VALUE = ("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")


def options(topics: Topics, **given: str) -> str:
    """The OPTIONS clause."""
    pairs = {"kafka.bootstrap.servers": topics.bootstrap, **given}
    return "OPTIONS (" + ", ".join(f"'{name}' '{value}'" for name, value in pairs.items()) + ")"


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_temporary_view_reads_a_topic(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 3)

    spark.sql(f"CREATE TEMPORARY VIEW view_in USING josefine {options(topics, subscribe=topic)}")

    assert rows(spark.table("view_in").where("offset > 0").selectExpr(*KEY_AND_VALUE)) == [
        ("k1", "1"),
        ("k2", "2"),
    ]


def test_insert_into_a_temporary_view_writes_a_topic(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    topic = topics.create()
    spark.sql(
        "CREATE TEMPORARY VIEW view_out (key STRING, value STRING) "
        f"USING josefine {options(topics, topic=topic)}"
    )

    spark.sql("INSERT INTO view_out VALUES ('a', '1'), (null, '2')")
    spark.sql("INSERT INTO view_out (value) SELECT CAST(id AS STRING) FROM range(3, 5)")

    found = {
        tuple(row)
        for row in read(topic).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
    }
    assert found == {("a", "1"), (None, "2"), (None, "3"), (None, "4")}


def test_what_is_only_written_names_its_columns(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(Exception, match="name the columns"):
        spark.sql(f"CREATE TEMPORARY VIEW no USING josefine {options(topics, topic='t')}")


def test_a_table_can_be_made_from_options_and_be_described(
    spark: SparkSession, topics: Topics
) -> None:
    """Reading it is what Spark does not do for a Python source: docs/spark.md."""
    topic = topics.create()

    spark.sql(f"CREATE TABLE table_in USING josefine {options(topics, subscribe=topic)}")

    described = spark.sql("DESCRIBE table_in").collect()
    assert [row.col_name for row in described][:2] == ["key", "value"]

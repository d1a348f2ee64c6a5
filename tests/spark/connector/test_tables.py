"""SQL's ways to a topic: temporary views and tables of the session catalog."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from josefine_spark.sessions.registration import make_active
from tests.spark.connector.conftest import Topics

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
_numbers = itertools.count()
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


@pytest.fixture
def plain(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with Spark's own session catalog in place of Delta's."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "builtin")
    make_active(session)
    yield session
    make_active(spark)


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """A name that is free, and free again."""
    name = f"table_{next(_numbers)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_is_read_as_it_was_made(
    plain: SparkSession, topics: Topics, table: str, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 3)
    plain.sql(
        f"CREATE TABLE {table} USING josefine {options(topics, subscribe=topic)} "
        "COMMENT 'c' TBLPROPERTIES ('team' 'x')"
    )

    found = rows(plain.table(table).where("offset > 0").selectExpr(*KEY_AND_VALUE))
    stream = plain.readStream.option("startingOffsets", "earliest").table(table).select("value")
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    query.awaitTermination()

    assert found == [("k1", "1"), ("k2", "2")]
    assert sum(progress.numInputRows for progress in query.recentProgress) == 3


def test_insert_into_a_table_writes_a_topic(
    plain: SparkSession, topics: Topics, table: str, read: Read
) -> None:
    topic = topics.create()
    plain.sql(f"CREATE TABLE {table} USING josefine {options(topics, topic=topic)}")

    plain.sql(f"INSERT INTO {table} VALUES ('a', '1'), (null, '2')")

    assert rows(read(topic).selectExpr(*KEY_AND_VALUE).where("key IS NOT NULL")) == [("a", "1")]
    assert read(topic).count() == 2


def test_what_is_read_from_a_table_can_be_written_elsewhere(
    plain: SparkSession, topics: Topics, table: str, read: Read
) -> None:
    topic, target = topics.create(), topics.create()
    topics.fill(topic, 0, 3)
    plain.sql(f"CREATE TABLE {table} USING josefine {options(topics, subscribe=topic)}")

    writer = plain.table(table).drop("topic", "partition").write.format("josefine").mode("append")
    writer.options(**{"kafka.bootstrap.servers": topics.bootstrap, "topic": target}).save()

    assert read(target).count() == 3


def test_a_table_with_columns_of_its_own_says_how_to_make_it(
    plain: SparkSession, topics: Topics, table: str
) -> None:
    plain.sql(
        f"CREATE TABLE {table} (key STRING, value STRING) USING josefine "
        f"{options(topics, topic='t')}"
    )

    with pytest.raises(Exception, match="declare no columns"):
        plain.sql(f"INSERT INTO {table} VALUES ('a', '1')")


def test_behind_deltas_catalog_a_table_is_made_and_not_read(
    spark: SparkSession, topics: Topics, table: str
) -> None:
    """Spark looks for no Python source behind a session catalog that is not its own:
    docs/reference/spark.md advises views there. A Spark that does is met here first."""
    spark.sql(f"CREATE TABLE {table} USING josefine {options(topics, subscribe=topics.create())}")

    described = spark.sql(f"DESCRIBE {table}").collect()

    assert [row.col_name for row in described][:2] == ["key", "value"]
    with pytest.raises(AnalysisException, match="not a valid Spark SQL Data Source"):
        spark.table(table).count()

"""The flights' two tables by a job that somebody writes by hand who knows Spark: its own Kafka
source, from_json, Delta's sink for the append, foreachBatch and MERGE for the delays, each batch's
number as Delta's transaction. No dead letters, no anchored offsets, nothing of ours. A sink whose
name starts with `flights` is an append.

Shuffle and snapshot partitions are what two cores want, the JVM's options those of
conf/pipelines/flights.yaml, or of a job of hours (`warm`) the JVM's own.
`python -m tests.bench.pipelines_by_hand BOOTSTRAP TOPIC FOLDER ROWS JARS short|warm SINK...`
"""

import sys
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

PIPELINES = Path(__file__).parents[2] / "conf" / "pipelines"
DDL = PIPELINES / "flights.ddl"
CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
OPTIONS = "spark.driver.extraJavaOptions"
SUMS = {"flights": "count(*)", "departed": "count(dep_time)", "arrived": "count(arr_delay)"} | {
    f"{column}_sum": f"sum({column})" for column in ("dep_delay", "arr_delay")
}
MAXIMA = {f"{column}_max": f"max({column})" for column in ("dep_delay", "arr_delay")}
KEYS = ("carrier", "time_hour")
TRANSACTION = "spark.databricks.delta.write.txn"


def main(
    bootstrap: str, topic: str, folder: str, rows: str, jars: str, lasts: str, *sinks: str
) -> None:
    builder = SparkSession.builder.appName("by hand").master("local[2]").config("spark.jars", jars)
    for key, value in (CONF | (of_short_runs() if lasts == "short" else {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    queries = []
    for sink in sinks:
        flights = decoded(spark, bootstrap, topic, rows)
        writer = flights.writeStream.trigger(availableNow=True).option(
            "checkpointLocation", f"{folder}/checkpoints/{sink}"
        )
        path = f"{folder}/tables/{sink}"
        if sink.startswith("flights"):
            queries.append(writer.format("delta").start(path))
        else:
            queries.append(writer.foreachBatch(merging(spark, path)).start())
    for query in queries:
        query.awaitTermination()
    spark.stop()


def of_short_runs() -> dict[str, str]:
    """The JVM's options of the shipped file."""
    import yaml

    said = yaml.safe_load((PIPELINES / "flights.yaml").read_text())
    return {OPTIONS: said["spark"]["conf"][OPTIONS]}


def decoded(spark: Any, bootstrap: str, topic: str, rows: str) -> Any:
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows)
        .load()
    )
    value = F.from_json(F.col("value").cast("string"), DDL.read_text()).alias("value")
    return stream.select(
        value,
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
    ).select("value.*", "_topic", "_partition", "_offset")


def merging(spark: Any, path: str) -> Any:
    """What foreachBatch calls."""
    columns = [F.expr(sql).alias(name) for name, sql in (SUMS | MAXIMA).items()]

    def merge(batch: Any, number: int) -> None:
        session = batch.sparkSession
        delays = batch.groupBy(*KEYS).agg(*columns)
        if not DeltaTable.isDeltaTable(session, path):
            DeltaTable.createIfNotExists(session).location(path).addColumns(delays.schema).execute()
        session.conf.set(f"{TRANSACTION}AppId", "delays")
        session.conf.set(f"{TRANSACTION}Version", str(number))
        update = {c: f"coalesce(t.{c} + s.{c}, t.{c}, s.{c})" for c in SUMS}
        update |= {c: f"greatest(t.{c}, s.{c})" for c in MAXIMA}
        same = " AND ".join(f"t.{key} <=> s.{key}" for key in KEYS)
        table = DeltaTable.forPath(session, path).alias("t")
        merged = table.merge(delays.alias("s"), same).whenMatchedUpdate(set=update)
        merged.whenNotMatchedInsertAll().execute()

    return merge


if __name__ == "__main__":
    main(*sys.argv[1:])

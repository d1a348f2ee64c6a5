"""A user's job, run by spark-submit: a topic into a Parquet table and into another topic.

It imports nothing of the tests; its last line on stdout is what it saw, as JSON. With a folder for
`--hold` every first attempt of a task stops behind its first rows until somebody writes to the pipe
`go` there, and says by a file `held-<number>` which process started its Python.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession


def holding(folder):
    """For mapInArrow: passes everything on."""

    def hold(batches):
        context = TaskContext.get()
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and context.attemptNumber() == 0:
                mark = Path(folder, f"held-{context.partitionId()}.new")
                mark.write_text(str(os.getppid()))
                mark.rename(mark.with_suffix(""))
                os.close(os.open(Path(folder, "go"), os.O_RDONLY))

    return hold


def whereabouts(_):
    """Of an executor's Python: which one it is and where it has us from."""
    import josefine_spark

    return sys.executable, os.path.abspath(josefine_spark.__file__)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--session", choices=("own", "registered", "ours"), default="own")
    parser.add_argument("--hold", default="")
    given = parser.parse_args()
    if given.session == "ours":
        from josefine_spark import session

        spark = session("job")
    else:
        spark = SparkSession.builder.appName("job").getOrCreate()
    if given.session == "registered":
        from josefine_spark import register

        register(spark)
    spark.sparkContext.setLogLevel("ERROR")

    options = {"kafka.bootstrap.servers": given.bootstrap, "subscribe": given.source}
    whole = spark.read.format("josefine").options(**options).load()
    batch = whole.selectExpr("count(*)", "count(DISTINCT partition, offset)").first()
    stream = spark.readStream.format("josefine").options(**options)
    stream = stream.option("startingOffsets", "earliest").option("maxRecordsPerPartition", "2000")
    rows = stream.load()
    if given.hold:
        rows = rows.mapInArrow(holding(given.hold), rows.schema)
    writer = rows.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(given.directory / "checkpoint"))
    writer.start(str(given.directory / "table")).awaitTermination()
    table = spark.read.parquet(str(given.directory / "table"))
    kept = table.selectExpr("count(*)", "count(DISTINCT partition, offset)").first()
    out = table.selectExpr("key", "value").write.format("josefine").mode("append")
    out.option("kafka.bootstrap.servers", given.bootstrap).option("topic", given.target).save()
    seen = spark.sparkContext.parallelize(range(8), 8).map(whereabouts).distinct().collect()
    print(json.dumps({"batch": list(batch), "table": list(kept), "seen": sorted(seen)}))
    spark.stop()


if __name__ == "__main__":
    main()

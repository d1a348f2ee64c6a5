"""Makes the archive of Spark's classes by the work of a short run: `python -m
josefine_spark.make_archive`, which does nothing when it is there.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from josefine_spark.class_archive import OPTIONS, QUIET, archive
from josefine_spark.session import session


def make() -> None:
    """Make the archive unless it is there, by the work that a short run does."""
    path = archive()
    if path is None or path.is_file():
        return
    print("making an archive of Spark's classes; sessions start faster with it", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as scratch:
        made = Path(scratch) / "classes.jsa"
        table = str(Path(scratch) / "table")
        options = f"{QUIET} -XX:ArchiveClassesAtExit={made} -XX:TieredStopAtLevel=1"
        spark = session("josefine-classes", {OPTIONS: options}, "local[2]")
        _work(spark, table)
        _end(spark)
        if made.is_file():
            made.rename(path)


def _work(spark: Any, table: str) -> None:
    rows = spark.range(20).selectExpr("id", "cast(id % 3 as string) k", "id * 2 v")
    rows.write.format("delta").save(table)
    rows.write.format("delta").mode("append").save(table)
    found = spark.read.format("delta").load(table)
    found.groupBy("k").agg({"v": "sum"}).collect()
    rows.createOrReplaceTempView("new_rows")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING new_rows s ON t.id = s.id + 10 "
        "WHEN MATCHED THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    stream = spark.readStream.format("delta").load(table).writeStream.format("delta")
    stream = stream.option("checkpointLocation", f"{table}-checkpoint").trigger(availableNow=True)
    stream.start(f"{table}-copy").awaitTermination()


def _end(spark: Any) -> None:
    """Let the JVM exit by itself, which is when it writes; Python's end would only detach."""
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(timeout=300)


if __name__ == "__main__":
    make()

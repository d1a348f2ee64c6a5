"""Command that makes the JVM's class archive (`josefine_spark.sessions.class_data_sharing`) by
running a short pipeline: `python -m pipelines.run.make_class_archive`. It keeps an existing one.

The archive has only classes that were loaded. So the pipeline uses every step of a run, and the
command then reads and changes tables as users do outside a run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from josefine_arrow.cache.directory import forget_unused
from josefine_spark.sessions.class_data_sharing import OPTIONS, QUIET, archive
from pipelines.config.validate import read_pipeline
from pipelines.report.progress import LineReporter
from pipelines.run.run import run_pipeline
from pipelines.run.session import start_named

FILE = """\
version: 1
name: classes
spark: { master: "local[2]", checkpoint: "${WORK}/checkpoints" }
sources:
  lines:
    type: file
    path: ${WORK}/in
    limit: { bytes: 40KB }
    decode:
      value:
        format: json
        schema: "id BIGINT, name STRING, at TIMESTAMP, amount DOUBLE"
        on_error: dead_letter
transforms:
  rows:
    inputs: [lines]
    sql: select value.*, topic as _topic, partition as _partition, offset as _offset from lines
checks:
  named: { on: rows, expr: name is not null, action: warn }
sinks:
  rows: { type: delta, inputs: [rows], path: "${WORK}/rows", mode: append }
  latest:
    type: delta
    inputs: [rows]
    path: ${WORK}/latest
    mode: upsert
    keys: [name]
    order_by: _offset
  sums:
    type: delta
    inputs: [rows]
    path: ${WORK}/sums
    mode: merge
    keys: [name]
    aggregate: { n: count(*), amount: sum(amount), most: max(amount) }
dead_letter: { type: delta, path: "${WORK}/dead" }
trigger: { available_now: true }
"""
LINES = 900
SCRATCH = "making-"
NAMES = ("[0-9a-f]" * 16 + ".jsa", SCRATCH + "?" * 8)
"""Names of archives, and of the folders that a killed command leaves."""


def make() -> None:
    """Make the archive unless it exists; remove unused ones of other versions."""
    forget_unused("classes", NAMES, time.time())
    path = archive()
    if path is None or path.is_file():
        return
    print("making an archive of Spark's classes; sessions start faster with it", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=SCRATCH) as scratch:
        work = Path(scratch)
        made = work / "classes.jsa"
        options = f"{QUIET} -XX:ArchiveClassesAtExit={made} -XX:TieredStopAtLevel=1"
        conf = {OPTIONS: options, "spark.sql.shuffle.partitions": "2"}
        spark = start_named("josefine-classes", conf, "local[2]")
        _run(spark, work)
        _look(spark, work)
        _end(spark)
        if made.is_file():
            made.rename(path)


def _run(spark: Any, work: Path) -> None:
    """Two batches into three tables; some lines become dead letters."""
    (work / "in").mkdir()
    lines = [
        json.dumps({"id": n, "name": f"n{n % 7}", "at": "2026-01-01T00:00:00Z", "amount": n / 4})
        for n in range(LINES)
    ]
    lines[:: LINES // 3] = ["not json"] * len(lines[:: LINES // 3])
    (work / "in" / "lines.json").write_text("\n".join(lines) + "\n")
    file = work / "classes.yaml"
    file.write_text(FILE)
    run_pipeline(
        spark, read_pipeline(str(file), {"WORK": str(work)}), LineReporter(Console(quiet=True))
    )


def _look(spark: Any, work: Path) -> None:
    """The rest: SQL over tables, and a table as a stream."""
    rows = f"delta.`{work}/rows`"
    spark.sql(f"SELECT name, sum(amount) FROM {rows} GROUP BY name ORDER BY name").collect()
    stream = spark.readStream.format("delta").load(f"{work}/rows")
    stream = stream.writeStream.format("delta").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{work}/copying").start(f"{work}/copy").awaitTermination()


def _end(spark: Any) -> None:
    """Let the JVM exit by itself: it writes the archive then. Python's exit would only detach."""
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(timeout=300)


if __name__ == "__main__":
    make()

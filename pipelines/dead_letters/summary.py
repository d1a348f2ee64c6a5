"""Summary of a pipeline's dead letters for people: counts by reason, and the newest ones."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pipelines.base.plurals import counted
from pipelines.dead_letters.replay_table import (
    LETTER,
    RECORD,
    ReplayTable,
    same_letter,
    with_sink,
)
from pipelines.formats.decode import UNREADABLE_REASON
from pipelines.model.pipeline import Pipeline
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.sinks.delta_tables import letters_folder
from pipelines.spark.files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUES = "'[^']*'"
"""A value in Spark's errors: the same error of other values is the same reason."""
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def letters(spark: SparkSession, pipeline: Pipeline, *, every: bool) -> DataFrame | None:
    """The dead letters that were never replayed; with `every` all. None: there is no table."""
    path = letters_folder(spark, pipeline)
    if path is None or not DeltaLogReader(HadoopFiles(spark), path, "").versions():
        return None
    dead = with_sink(spark.read.format("delta").load(path))
    if every:
        return dead
    tables = [ReplayTable(spark, pipeline, source, "") for source in pipeline.sources.values()]
    done = reduce(
        lambda one, other: one.unionByName(other),
        [table.rows().select("source", *LETTER) for table in tables],
    )
    return dead.join(done, same_letter(dead, done, ("source", *LETTER)), "left_anti")


def waiting(spark: SparkSession, pipeline: Pipeline, *, every: bool) -> list[tuple[str, str, int]]:
    """(source, reason, number of dead letters), the largest number first. The reason of a sink's
    own dead letters starts with the sink, and has no values."""
    from pyspark.sql import functions as F  # noqa: N812

    found = letters(spark, pipeline, every=every)
    if found is None:
        return []
    # Each unreadable batch has its own offsets in its reason: remove them to group all of them.
    offsets = f"^{UNREADABLE_REASON}[0-9]+ to [0-9]+"
    found = found.withColumn("reason", F.regexp_replace("reason", offsets, "unreadable batch"))
    of_sink = F.concat(
        F.lit("sink "), F.col("sink"), F.lit(": "), F.regexp_replace("reason", VALUES, "'…'")
    )
    found = found.withColumn("reason", F.coalesce(of_sink, F.col("reason")))
    counts = found.groupBy("source", "reason").count()
    rows = counts.orderBy("count", "source", "reason", ascending=[False, True, True]).collect()
    return [(row[0], row[1], row[2]) for row in rows]


def newest(
    spark: SparkSession, pipeline: Pipeline, many: int, *, every: bool
) -> list[dict[str, Any]]:
    """The latest dead letters by the record's time; bytes as text, a record batch as its size."""
    from pyspark.sql import functions as F  # noqa: N812

    found = letters(spark, pipeline, every=every)
    if found is None or many == 0:
        return []
    names = ("timestamp", "topic", "partition", "offset", "sink")
    last = [F.col(name).desc() for name in names]
    at = F.date_format(F.to_utc_timestamp("timestamp", F.current_timezone()), _TIME)
    rows = found.orderBy(*last).limit(many).withColumn("timestamp", at).collect()
    return [letter_as_text(row.asDict()) for row in rows]


def letter_as_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table for people: bytes as text, a record batch as its size."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else bytes(value).decode("utf-8", "backslashreplace")

    said = {name: row[name] for name in ("source", *RECORD, "reason")}
    said |= {"sink": row.get("sink") or None, "stage": row.get("stage")}
    if row["reason"].startswith(UNREADABLE_REASON):
        return {**said, "key": None, "value": f"{counted(len(row['value']), 'byte')} of a batch"}
    return {**said, "key": text(row["key"]), "value": text(row["value"])}

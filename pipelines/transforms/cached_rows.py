"""A batch's rows in memory, for all that looks at them before it is done.

Where all tasks run in one process (a local master) they are kept as the rows that they are: a
columnar cache builds columns of them and reads those back (of 120,000 flights, read and decoded
once and looked at three times, 12.3 s of CPU instead of 10.4). Where an executor may be lost, Spark
caches the frame, which it can make again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_one_process(spark: SparkSession) -> bool:
    """Whether all tasks run in the driver's JVM."""
    return bool(spark._jsc.sc().isLocal())


def keep(frame: DataFrame, which: str) -> tuple[DataFrame, int]:
    """Make all rows, and count those that are so; kept until `let_go`. Nothing is kept where that
    fails."""
    if is_one_process(frame.sparkSession):
        kept = frame.localCheckpoint(eager=False)
    else:
        kept = frame.persist()
    try:
        return kept, kept.where(which).count()
    except BaseException:
        let_go(kept)
        raise


def let_go(kept: DataFrame) -> None:
    """Of what `keep` gave."""
    plan: Any = kept._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() == "LogicalRDD":
        plan.rdd().unpersist(False)
    else:
        kept.unpersist()

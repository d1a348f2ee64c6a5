"""A runner of `availableNow` queries that also reads everything with PySpark 4.1 and on a busy
machine.

PySpark 4.1 ends an `availableNow` run of a Python source after one batch, even if a limit left
records unread. And Spark gives a Python process 10 s to start, which cannot be configured: a query
that fails for this reason is started again from its checkpoint.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from josefine_spark.options.environment import NO_WORKER

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

STARTS_MAX = 3
"""Starts of one run whose Python process does not connect in time."""


def run_available_now(start: "Callable[[], StreamingQuery]") -> "list[StreamingQuery]":
    """Start the query and wait for its end; with PySpark 4.1 repeat until a run reads nothing.

    `start` starts a query with `trigger(availableNow=True)` and the same `checkpointLocation` each
    time. Returns the queries that ran, in order. Raises what a query raised.
    """
    ran = [_ended(start)]
    while not _knows_limits() and any(map(_moved, ran[-1].recentProgress)):
        ran.append(_ended(start))
    return ran


def _ended(start: "Callable[[], StreamingQuery]") -> "StreamingQuery":
    from pyspark.errors import StreamingQueryException

    for left in reversed(range(STARTS_MAX)):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if left == 0 or NO_WORKER not in str(error):
                raise
        else:
            return query
    raise AssertionError("the last start returns or raises")


def _knows_limits() -> bool:
    from pyspark.sql.datasource import DataSourceStreamReader

    return hasattr(DataSourceStreamReader, "getDefaultReadLimit")


def _moved(progress: Any) -> bool:
    """Whether that batch advanced offsets. In a compacted topic it may do so without rows."""
    return any(each.startOffset != each.endOffset for each in progress.sources)

"""Workaround for a race in Spark: the environment map that all streams of a JVM share is filled
before any stream starts.

Spark keeps one environment map for the workers of `format("josefine")`, for all sessions. Each
starting stream puts the names below into it, from its own thread and without a lock
(PythonStreamingSourceRunner.init), and every task that reads the source carries the map along. If
the first two streams of a JVM insert the same name at once, the map counts one entry more than it
has, and no task of this source can be serialized in this JVM any more ("Illegal size 5 of
collection, expected 6"). Overwriting an existing name is harmless, so one thread inserts the names
here, once. A test compares the list with Spark's.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
"""The names that a starting stream inserts. Spark overwrites the values before it starts a worker.
"""
NO_WORKER = "Python worker failed to connect back"
"""Spark's error when a Python process takes more than 10 s to start, as on a busy machine."""
ATTEMPTS = 3


def settle_environment(spark: "SparkSession") -> None:
    """Insert the names. Call it before concurrent streams start; repeated calls are harmless.

    Loads the Python data sources, as the first `format(...)` of a session does (about a second).
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    for _ in range(ATTEMPTS):
        try:
            environment = shared_environment(spark)
            for name in NAMES:
                environment.putIfAbsent(name, "")
        except (AttributeError, TypeError, Py4JError, PySparkException) as error:
            # No JVM (Spark Connect), another version of Spark, or the source is not found, which
            # format("josefine") reports itself.
            if NO_WORKER not in str(error):
                return
        else:
            return


def shared_environment(spark: "SparkSession") -> Any:
    """Spark's own java.util.Map, as a Py4J proxy."""
    session: Any = spark._jsparkSession
    source = session.sessionState().dataSourceManager().lookupDataSource("josefine")
    return source.dataSourceCls().envVars()

"""Gives the environment that all streams of a JVM share its final shape before a stream starts.

Spark keeps one environment map for the workers of `format("josefine")`, for all sessions. Each
starting stream puts the names below into it, from its own thread and without a lock
(PythonStreamingSourceRunner.init), and every task that reads the source carries the map along. Two
streams that are the first of their JVM may put one name in twice: the map then counts one entry
more than it has, and no task of this source can be serialized any more in this JVM ("Illegal size 5
of collection, expected 6"). A name that is there already is only overwritten, which is harmless: so
the names are put in here, once, by one thread. A test holds the list equal to what Spark does.
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
"""What a starting stream puts in. Whoever starts a worker overwrites the values first."""
NO_WORKER = "Python worker failed to connect back"
"""Spark gives a Python process 10 s to start, which a busy machine may not."""
ATTEMPTS = 3


def settle_environment(spark: "SparkSession") -> None:
    """Put the names in. Call it before streams are started at once; again is harmless.

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
            # No JVM of ours (Spark Connect), another Spark, or the source is not found, as
            # format("josefine") will say.
            if NO_WORKER not in str(error):
                return
        else:
            return


def shared_environment(spark: "SparkSession") -> Any:
    """Spark's own java.util.Map, behind Py4J."""
    session: Any = spark._jsparkSession
    source = session.sessionState().dataSourceManager().lookupDataSource("josefine")
    return source.dataSourceCls().envVars()

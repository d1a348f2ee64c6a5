"""Registration of `format("josefine")` with a session whose workers are not on this machine.

PySpark also discovers the format by itself, but then its workers run the driver's interpreter, by
its path, and do not receive the files of `--py-files` and `addPyFile` (PythonUtils creates the
function of a discovered source with no includes). A registered source runs like user functions:
with `spark.pyspark.python` and all sent files.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josefine_spark.base.sent_files import link_for_streams
from josefine_spark.options.environment import settle_environment
from josefine_spark.options.kafka_options import settings_without_effect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("josefine.spark")


def register(spark: "SparkSession") -> None:
    """Register the source and the sink with this session; repeated calls are harmless.

    Call it on a cluster before the first read or write, after the last `addPyFile`, and in every
    thread that reads or writes except the one that created the session (see make_active). Also for
    Spark Connect, whose server must be able to import this package.
    """
    from pyspark import SparkFiles

    from josefine_spark.source import JosefineDataSource

    make_active(spark)
    spark.dataSource.register(JosefineDataSource)
    if _has_jvm(spark):
        link_for_streams(Path(SparkFiles.getRootDirectory()))
    settle_environment(spark)
    log_without_effect(spark)


_logged: set[str] = set()
"""Clauses that this process has logged: every thread registers."""


def log_without_effect(spark: "SparkSession") -> None:
    """Log the session's settings for Spark's Kafka connector that have no effect here.

    This happens at registration because a source never sees the settings of a session.
    """
    for clause in settings_without_effect(spark.conf.getAll):
        if clause not in _logged:
            _logged.add(clause)
            log.warning("a setting without effect here: %s", clause)


def make_active(spark: "SparkSession") -> None:
    """Make this session the active one of the calling thread.

    Spark looks for Python data sources in the active session only (DataSource.lookupDataSource),
    and PySpark gives each Python thread a JVM thread, which has no active session: without this
    call every other thread than the session's own gets DATA_SOURCE_NOT_FOUND.
    """
    if _has_jvm(spark):
        jvm: Any = spark._jvm
        jvm.SparkSession.setActiveSession(spark._jsparkSession)


def active_session() -> "SparkSession | None":
    """The calling thread's active session, or None.

    PySpark's `getActiveSession` asks the JVM only whether there is one and then returns the
    session that made a frame last, in whichever thread.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None or not _has_jvm(active):
        return active
    jvm: Any = active._jvm
    there = jvm.SparkSession.getActiveSession().get()
    if there.equals(active._jsparkSession):
        return active
    return SparkSession(active.sparkContext, there)


def _has_jvm(spark: "SparkSession") -> bool:
    """Whether the session has a JVM in reach; false with Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def needs_registration(master: str) -> bool:
    """Whether workers of this master run outside of the driver's own process tree."""
    return master != "local" and not master.startswith("local[")

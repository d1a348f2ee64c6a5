"""Makes `format("josefine")` known to a session whose workers are not on this machine.

PySpark finds the format by itself too, but then its workers run the driver's own interpreter, by
its path, and none of what `--py-files` and `addPyFile` sent reaches them (PythonUtils makes the
function of a found source with no includes). A source that was registered runs as user functions
do: with `spark.pyspark.python` and all that was sent.
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
    """Register the source and the sink with this session; again is harmless.

    Call it on a cluster before the first read or write, after the last `addPyFile`, and in every
    thread that reads or writes but the one that made the session (see make_active). Also for Spark
    Connect, whose server must be able to import this package.
    """
    from pyspark import SparkFiles

    from josefine_spark.source import JosefineDataSource

    make_active(spark)
    spark.dataSource.register(JosefineDataSource)
    if _has_jvm(spark):
        link_for_streams(Path(SparkFiles.getRootDirectory()))
    settle_environment(spark)
    tell_without_effect(spark)


_told: set[str] = set()
"""Once in a process: each thread registers."""


def tell_without_effect(spark: "SparkSession") -> None:
    """Log what the session sets for Spark's Kafka connector and nothing here looks at.

    Here, for a source is not shown the settings of a session, in any of its processes.
    """
    for clause in settings_without_effect(spark.conf.getAll):
        if clause not in _told:
            _told.add(clause)
            log.warning("a setting without effect here: %s", clause)


def make_active(spark: "SparkSession") -> None:
    """Make this session the active one of the calling thread.

    Spark looks for Python data sources in the active session alone (DataSource.lookupDataSource),
    and PySpark gives each Python thread a thread of the JVM, in which none is active: what the
    thread that made the session finds is DATA_SOURCE_NOT_FOUND for all others.
    """
    if _has_jvm(spark):
        jvm: Any = spark._jvm
        jvm.SparkSession.setActiveSession(spark._jsparkSession)


def _has_jvm(spark: "SparkSession") -> bool:
    """Not so through Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def needs_registration(master: str) -> bool:
    """Do workers of this master run elsewhere than in the driver's own process tree?"""
    return master != "local" and not master.startswith("local[")

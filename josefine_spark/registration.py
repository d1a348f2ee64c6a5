"""Makes `format("josefine")` known to a session whose workers are not on this machine.

PySpark finds the format by itself too, but then its workers run the driver's own interpreter, by
its path, and none of what `--py-files` and `addPyFile` sent reaches them (PythonUtils makes the
function of a found source with no includes). A source that was registered runs as user functions
do: with `spark.pyspark.python` and all that was sent.
"""

from typing import TYPE_CHECKING

from josefine_spark.environment import settle_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register the source and the sink with this session; again is harmless.

    Call it on a cluster before the first read or write, after the last `addPyFile`. Also for
    Spark Connect, whose server must be able to import this package.
    """
    from josefine_spark.source import JosefineDataSource

    spark.dataSource.register(JosefineDataSource)
    settle_environment(spark)


def needs_registration(master: str) -> bool:
    """Do workers of this master run elsewhere than in the driver's own process tree?"""
    return master != "local" and not master.startswith("local[")

"""PySpark finds modules named `pyspark_*` by itself: this one makes format("josefine") known."""

from josefine_spark.source import JosefineDataSource as DefaultSource

__all__ = ["DefaultSource"]

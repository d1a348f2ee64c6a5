"""The Spark session of `josefine journal replicate --spark`: a new one, or the running one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from josefine_cli.base.extras import need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, stopped afterwards if it was started here. Raises UserError, PipelineError."""
    need("a replicator in Spark", "pyspark", "delta", "pyarrow")
    from josefine_spark.sessions.session import running_session
    from pipelines.run.session import start_named
    from pipelines.spark.jvm import stopping

    is_there = running_session() is not None
    spark = start_named("josefine journal", conf)
    with nullcontext() if is_there else stopping(spark):
        yield spark

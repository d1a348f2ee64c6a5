"""One Spark session for all tests that need Spark: a session takes seconds to start.

Tests isolate themselves by their own temporary folders and their own topics, not by sessions.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from josefine_spark import session
from josefine_spark.sessions.registration import make_active
from tests.support.spark_settings import settings_kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark without code that it makes and compiles for each plan: two fifths of the time of tests
whose frames have a few rows each."""


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> "Iterator[SparkSession]":
    """A local Spark with Delta, two cores, UTC; its warehouse is a temporary folder.

    The slow tests have it as users do, and so has each pipeline that is a process of its own.
    """
    is_slow = request.config.getoption("markexpr") == "slow"
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    spark = session(
        "josefine-tests",
        {
            **({} if is_slow else INTERPRETED),
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            # VACUUM lists its folders in this many tasks: 10,000 unless told, on two cores.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.driver.memory": "1g",
            # Python and its JVM give each other 15 s by themselves, which load 30 exceeds.
            "spark.python.authenticate.socketTimeout": "240s",
            # In minutes on two cores the optimizing compiler takes more than it gives.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
        master="local[2]",
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(autouse=True)
def _as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins with the shared session as the active one, and leaves its settings as they
    were.

    A test with a session of its own (`newSession`) leaves that one active in the thread, and a
    later test would read its settings where it asks for the active session.
    """
    if "spark" not in request.fixturenames:
        yield
        return
    spark: SparkSession = request.getfixturevalue("spark")
    make_active(spark)
    with settings_kept(spark):
        yield

"""What a session needs to be told so that a stream and another thread find the format."""

from __future__ import annotations

import importlib
import sys
import uuid
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from josefine_spark import register, session
from josefine_spark.sessions.registration import make_active
from tests.spark.connector.conftest import Topics
from tests.support import probe_source

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TIMEOUT_S = 240
Elsewhere = Callable[[Callable[[], object]], object]


@pytest.fixture
def sent(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A module that is nowhere but in a zip that was sent to the driver, which Spark serves for as
    long as its context lives."""
    name = f"sent_{uuid.uuid4().hex}"
    packed = tmp_path_factory.mktemp("sent") / f"{name}.zip"
    with zipfile.ZipFile(packed, "w") as file:
        file.write(str(probe_source.__file__), f"{name}.py")
    spark.sparkContext.addPyFile(str(packed))
    yield importlib.import_module(name)
    sys.path[:] = [path for path in sys.path if not path.endswith(packed.name)]
    sys.modules.pop(name)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """Calls a function in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(work).result(TIMEOUT_S)


def test_a_stream_finds_what_was_sent_to_the_driver(
    spark: SparkSession, sent: ModuleType, tmp_path: Path
) -> None:
    """Spark shows its process a folder that nothing makes: josefine_spark/base/sent_files.py."""
    log = tmp_path / "calls"
    register(spark)
    spark.dataSource.register(sent.ProbeSource)

    stream = spark.readStream.format(sent.FORMAT).option("log", str(log)).load()
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(TIMEOUT_S)

    assert "read" in {call["call"] for call in sent.noted(str(log))}


def test_registering_lets_another_thread_write(
    spark: SparkSession, topics: Topics, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """Spark looks for a format that is written to in what this thread's session has."""
    topic = topics.create()
    at = {"kafka.bootstrap.servers": topics.bootstrap}

    def write() -> int:
        register(spark)
        row = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
        row.write.format("josefine").mode("append").options(topic=topic, **at).save()
        stream = spark.readStream.format("josefine").options(subscribe=topic, **at)
        rows = stream.option("startingOffsets", "earliest").load().select("value")
        writer = rows.writeStream.format("josefine").options(topic=topic, **at)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination(TIMEOUT_S)
        return spark.read.format("josefine").options(subscribe=topic, **at).load().count()

    assert elsewhere(write) == 2


def test_delegation_tokens_are_told_to_have_no_effect_once_and_without_their_values(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    name = "spark.kafka.clusters.main.sasl.token.mechanism"
    spark.conf.set(name, "a-secret")
    try:
        for _ in range(2):
            session()
            register(spark)
    finally:
        spark.conf.unset(name)

    (told,) = [one.getMessage() for one in caplog.records if "without effect" in one.getMessage()]
    assert told.startswith(f"a setting without effect here: {name} (delegation tokens are not")
    assert "a-secret" not in told


def test_another_thread_gets_the_session_that_is_there_and_it_is_active(
    spark: SparkSession, elsewhere: Elsewhere
) -> None:
    """Active where Spark looks, in the JVM: its Python keeps one for all threads, the last that a
    test made."""
    jvm_class = SparkSession._get_j_spark_session_class(spark.sparkContext._jvm)

    found, active = elsewhere(lambda: (session(), jvm_class.getActiveSession().get()))

    assert found is spark
    assert active.equals(spark._jsparkSession)


def test_a_thread_gets_its_own_session_whichever_was_used_last(
    spark: SparkSession, elsewhere: Elsewhere
) -> None:
    """PySpark's `active()` answers with the session that made a frame last, in any thread."""
    other = spark.newSession()
    make_active(spark)

    elsewhere(lambda: (make_active(other), other.createDataFrame([(1,)], "n int"))[0])

    assert session()._jsparkSession.equals(spark._jsparkSession)
    assert elsewhere(session)._jsparkSession.equals(other._jsparkSession)

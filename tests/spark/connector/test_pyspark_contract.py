"""What the connector takes for granted of PySpark's data source API, by version: a release that
changes one of these fails here first, and says which.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession, datasource

from tests.support.probe_source import BATCHES, FORMAT, ProbeSource, noted
from tests.support.waiting import wait_until

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
HAS_LIMITS = VERSION >= (4, 2)
TIMEOUT_S = 180

SIGNATURES = {
    "DataSource": {
        "name": ["cls"], "schema": ["self"], "reader": ["self", "schema"],
        "streamReader": ["self", "schema"], "writer": ["self", "schema", "overwrite"],
        "streamWriter": ["self", "schema", "overwrite"],
    },
    "DataSourceReader": {"partitions": ["self"], "read": ["self", "partition"]},
    "DataSourceStreamReader": {
        "initialOffset": ["self"],
        "latestOffset": ["self", "start", "limit"] if HAS_LIMITS else ["self"],
        "partitions": ["self", "start", "end"], "read": ["self", "partition"],
        "commit": ["self", "end"], "stop": ["self"],
    },
    "DataSourceArrowWriter": {
        "write": ["self", "iterator"], "commit": ["self", "messages"],
        "abort": ["self", "messages"],
    },
    "DataSourceStreamArrowWriter": {
        "write": ["self", "iterator"], "commit": ["self", "messages", "batchId"],
        "abort": ["self", "messages", "batchId"],
    },
}  # fmt: skip
END_CALLS = ("commit", "abort")
SINCE_4_2 = ("ReadAllAvailable", "ReadMaxRows", "SupportsTriggerAvailableNow")


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_that_we_implement(name: str) -> None:
    kind = getattr(datasource, name)

    found = {
        method: list(inspect.signature(inspect.getattr_static(kind, method)).parameters)
        if method != "name"
        else list(inspect.signature(kind.name.__func__).parameters)
        for method in SIGNATURES[name]
    }

    assert found == SIGNATURES[name]


@pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 limits no batch of a Python source")
def test_limits_and_available_now_are_where_we_look_for_them() -> None:
    limits = importlib.import_module("pyspark.sql.streaming.datasource")

    assert [name for name in SINCE_4_2 if not hasattr(limits, name)] == []
    assert limits.ReadMaxRows(7).max_rows == 7
    assert hasattr(limits.SupportsTriggerAvailableNow, "prepareForTriggerAvailableNow")
    for method in ("getDefaultReadLimit", "reportLatestOffset"):
        assert hasattr(datasource.DataSourceStreamReader, method)


@pytest.fixture(scope="module")
def calls(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of a query of three batches; the commit of the last one fails."""
    directory = tmp_path_factory.mktemp("probe")
    log = directory / "calls"
    spark.dataSource.register(ProbeSource)
    # Makes it the active one: a query looks for its sink there, and another test has used another.
    spark.createDataFrame([], "n int")
    frame = spark.readStream.format(FORMAT).option("log", str(log)).load()
    writer = frame.writeStream.format(FORMAT).option("log", str(log))
    writer = writer.option("fail", str(BATCHES - 1))
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        why = wait_until(query.exception, TIMEOUT_S, "the commit that fails")
    finally:
        query.stop()
    assert "the commit that fails" in str(why)
    return noted(str(log))


def of(calls: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [call for call in calls if call["call"] == name]


@pytest.mark.spark
def test_a_query_has_one_reader_process(calls: list[dict[str, Any]]) -> None:
    """The reader remembers in itself what it reported and what it found."""
    asked = of(calls, "initialOffset") + of(calls, "latestOffset")

    assert len({call["pid"] for call in asked}) == 1
    assert 1 <= len(of(calls, "initialOffset")) <= 2
    assert {call["arguments"] for call in of(calls, "latestOffset")} <= {0, 2}


@pytest.mark.spark
def test_tasks_know_their_batch_and_query(calls: list[dict[str, Any]]) -> None:
    """The way to an exactly-once sink."""
    written = [call for call in of(calls, "write") if call["rows"]]

    assert [call["batch_id"] for call in written] == [str(n) for n in range(BATCHES)]
    assert {call["query_id"] for call in of(calls, "read") + written} == {written[0]["query_id"]}
    assert written[0]["query_id"] is not None


@pytest.mark.spark
def test_a_writer_is_pickled_once_for_each_batch_before_its_tasks_write(
    calls: list[dict[str, Any]],
) -> None:
    """The one moment that is the driver's own: a batch is planned there. Those that commit are
    others, and are not pickled."""
    order = [call["call"] for call in calls if call["call"] in ("writer pickled", *END_CALLS)]

    assert order == ["writer pickled", "commit"] * BATCHES + ["abort"]
    first = next(n for n, call in enumerate(calls) if call["call"] == "write")
    assert "writer pickled" in [call["call"] for call in calls[:first]]


@pytest.mark.spark
def test_a_commit_that_fails_is_followed_by_an_abort_with_all_messages(
    calls: list[dict[str, Any]],
) -> None:
    """So an abort must not undo what a commit has begun."""
    ends = [(c["call"], c["batch"], c["messages"]) for c in calls if c["call"] in END_CALLS]
    messages = ends[-1][2]

    assert ends[-2:] == [("commit", BATCHES - 1, messages), ("abort", BATCHES - 1, messages)]
    assert messages >= 1


@pytest.mark.spark
def test_the_source_is_told_of_a_commit_one_batch_late(calls: list[dict[str, Any]]) -> None:
    """So nothing that must happen for each batch may hang on it."""
    assert len(of(calls, "source commit")) == BATCHES - 1

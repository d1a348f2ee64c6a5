"""The connector at a listener that wants TLS and a password: both ways, and who is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.connector.conftest import run_to_the_end
from tests.support.certificates import Authority
from tests.support.secured import PASSWORD, Secured, secured_broker

pytestmark = pytest.mark.spark


def options_of(served: Secured, **changed: str) -> dict[str, str]:
    """How a job reaches it; the password is in a file."""
    words = served.words(password=f"file:{served.password}") | {
        key.replace("_", "."): value for key, value in changed.items()
    }
    own = {f"kafka.{name}": value for name, value in words.items()}
    return {"kafka.bootstrap.servers": served.broker.bootstrap, **own}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.mark.parametrize(
    ("delivery", "changed"),
    [("at_least_once", {"sasl_password": PASSWORD}), ("exactly_once", {})],
    ids=["password", "exactly-once-file"],
)
def test_rows_are_written_read_and_streamed(
    spark: SparkSession, served: Secured, tmp_path: Path, delivery: str, changed: dict[str, str]
) -> None:
    """What Spark tells of its plans and progress has no password in it."""
    options, topic = options_of(served, **changed), delivery.replace("_", "-")
    sink = {"delivery": delivery} | ({"sinkId": topic} if delivery == "exactly_once" else {})
    rows = spark.range(0, 100, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")

    rows.write.format("josefine").options(**options, **sink, topic=topic).mode("append").save()

    read = spark.read.format("josefine").options(**options, subscribe=topic).load()
    assert sorted(int(row.value) for row in read.collect()) == list(range(100))
    told: list[str] = []

    def start() -> Any:
        source = spark.readStream.format("josefine").options(
            **options, subscribe=topic, startingOffsets="earliest"
        )
        writer = source.load().writeStream.format("parquet").trigger(availableNow=True)
        checkpoint = str(tmp_path / "checkpoint")
        query = writer.option("checkpointLocation", checkpoint).start(str(tmp_path / "table"))
        told.append(str(query._jsq.explainInternal(True)))
        return query

    query = run_to_the_end(start)
    told += [str(query.lastProgress), str(read._jdf.queryExecution())]
    assert spark.read.parquet(str(tmp_path / "table")).count() == 100
    assert not [text for text in told if PASSWORD in text]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl_password": "wrong-sesame"}, "authentication failed: wrong user"),
        ({"ssl_ca_location": "other"}, "certificate"),
        ({"sasl_password": "file:gone"}, "kafka.sasl.password"),
    ],
    ids=["password", "authority", "file"],
)
def test_who_does_not_come_in_is_told_why(
    spark: SparkSession,
    served: Secured,
    tmp_path: Path,
    changed: dict[str, str],
    said: str,
) -> None:
    if "ssl_ca_location" in changed:
        changed = {"ssl_ca_location": str(Authority(tmp_path / "other").certificate)}
    options = options_of(served, **changed)

    with pytest.raises((PySparkException, StreamingQueryException)) as failed:
        spark.read.format("josefine").options(**options, subscribe="t").load().collect()

    assert said in str(failed.value)
    assert "wrong-sesame" not in str(failed.value)

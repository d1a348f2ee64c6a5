"""Through Spark Connect: the client has no JVM, and the server finds the package by itself.

Skipped without grpcio (`pip install 'josefine[connect]'`). By hand:
`pytest -m slow tests/spark/deploy`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import REPOSITORY, BrokerProcess
from tests.support.ports import free_ports
from tests.support.spark_cluster import environment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is missing"),
]

SERVER = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
builder = builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
spark = builder.config("spark.connect.grpc.binding.port", sys.argv[1]).getOrCreate()
print("serves", flush=True)
sys.stdin.read()
spark.stop()
"""
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from josefine_spark import register

bootstrap, topic, target, directory, port, way = sys.argv[1:]
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
if way == "registered":
    register(spark)
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
batch = spark.read.format("josefine").options(**options).load()
stream = spark.readStream.format("josefine").options(**options)
stream = stream.option("startingOffsets", "earliest").load()
writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{directory}/c")
writer.trigger(availableNow=True).start(f"{directory}/table").awaitTermination()
kept = spark.read.parquet(f"{directory}/table")
out = kept.select("value").write.format("josefine").mode("append")
out.option("kafka.bootstrap.servers", bootstrap).option("topic", target).save()
back = spark.read.format("josefine").options(**{**options, "subscribe": target}).load()
print(json.dumps([type(spark).__module__, batch.count(), kept.count(), back.count()]))
spark.stop()
"""
ROWS = 100


@pytest.mark.parametrize("way", ["found", "registered"])
def test_reads_and_writes_work_through_spark_connect(tmp_path: Path, way: str) -> None:
    (port,) = free_ports(1)
    with BrokerProcess(tmp_path / "b") as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("in", 1), NewTopic("out", 1)])
        records = [Record(None, b"%d" % n) for n in range(ROWS)]
        client.produce({TopicPartition("in", 0): build_batch(records)})
        with serving(port, tmp_path / "server.log"):
            done = subprocess.run(
                [sys.executable, "-c", CLIENT, broker.bootstrap, "in", "out", str(tmp_path),
                 str(port), way],
                env=with_our_path(), capture_output=True, text=True, timeout=300,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    assert done.returncode == 0, done.stderr[-6000:]
    module, *counts = json.loads(done.stdout.splitlines()[-1])
    assert module == "pyspark.sql.connect.session"
    assert counts == [ROWS] * 3


def with_our_path() -> dict[str, str]:
    """An environment in which the package is found."""
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return {**environment(), "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def serving(port: int, log: Path) -> Iterator[None]:
    """A Connect server, until the end."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(port)],
            env=with_our_path(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line == b"serves\n", log.read_text(errors="replace")[-6000:]
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()

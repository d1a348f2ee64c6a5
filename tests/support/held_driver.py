"""Spark's driver of a kill test: it copies a topic, or runs a pipeline, and can be held at every
arrow (`arrows`).

`python -m tests.support.held_driver copy MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT`, or
`… pipeline FILE`. It runs until somebody kills it.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import josefine_spark.source
from pipelines.base import failpoints
from pipelines.sinks import topic_records
from tests.support.arrows import FOLDER, HeldSource, HeldStore, stop

SESSIONS = importlib.import_module("josefine_spark.sessions.session")
"""The package has a function of that name."""
REPOSITORY = Path(__file__).resolve().parents[2]
CONF = {
    "spark.driver.memory": "700m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "240s",  # 15 s are too few under load
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    f"spark.executorEnv.{FOLDER}": os.environ.get(FOLDER, ""),
}


def in_place_of_the_connector() -> None:
    """Whoever asks for `format("josefine")` is given the one that can be held."""
    for module, name, other in (
        (josefine_spark.source, "JosefineDataSource", HeldSource),
        (SESSIONS, "needs_registration", lambda master: True),
        (topic_records, "SinkStore", HeldStore),
    ):
        setattr(module, name, other)
    hit = failpoints.hit

    def held(name: str, index: int | None = None) -> None:
        stop(f"pipeline:{name}" if index is None else f"pipeline:{name}:{index}")
        hit(name, index)

    failpoints.hit = held


def copy(master: str, bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    spark = SESSIONS.session("held", CONF, master=master)
    spark.sparkContext.setLogLevel("ERROR")
    reading = {"subscribe": source, "startingOffsets": "earliest"}
    frame = (
        spark.readStream.format("josefine")
        .option("bootstrapServers", bootstrap)
        .options(**reading, **{"kafka.isolation.level": "read_committed"})
        .load()
    )
    writer = frame.select("key", "value").writeStream.format("josefine")
    writer = writer.options(bootstrapServers=bootstrap, topic=target, delivery="exactly_once")
    writer = writer.options(sinkId=target, checkpointLocation=checkpoint)
    writer = writer.option("kafka.batch.size", "1024")  # several batches a task
    writer.trigger(processingTime="100 milliseconds").start().awaitTermination()


def main(what: str, *arguments: str) -> None:
    in_place_of_the_connector()
    if what == "copy":
        copy(*arguments)
    else:
        from josefine_cli.main import main as josefine

        sys.argv = ["josefine", "pipeline", "run", *arguments, "--json"]
        josefine()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A driver that copies a topic exactly once and is killed at a step of the protocol: the whole
process group with SIGKILL, from the process where Spark has the step done.

`python -m tests.support.mortal_sink BOOTSTRAP SOURCE TARGET CHECKPOINT`; `JOSEFINE_DIE` is
`plan|commit:STEP:before|after@HIT`: the step by its number in `sink_steps`, in the HIT-th process
that reaches it. Spark's workers import this module by its name.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from josefine_spark.source import JosefineDataSource
from josefine_spark.write.coordinator_store import SinkStore
from josefine_spark.write.exactly_once import ExactlyOnceStreamWriter
from josefine_spark.write.protocol import Steps
from josefine_spark.write.sink_options import sink_options

FORMAT = "josefine_mortal"
PLACE, GROUP, HITS = "JOSEFINE_DIE", "JOSEFINE_DIE_GROUP", "JOSEFINE_DIE_HITS"


class MortalStore(SinkStore):
    """Takes the steps until it is time."""

    _what = ""
    _steps = 0

    def run(self, steps: Steps) -> Any:
        self._what, self._steps = steps.__name__, 0
        return super().run(steps)

    def _take(self, step: Any) -> Any:
        self._pass("before")
        result = super()._take(step)
        self._pass("after")
        self._steps += 1
        return result

    def _pass(self, side: str) -> None:
        place, _, hit = os.environ.get(PLACE, "").partition("@")
        if place == f"{self._what}:{self._steps}:{side}":
            hits = Path(os.environ[HITS])
            with hits.open("a", encoding="utf-8") as file:
                file.write("hit\n")
            if len(hits.read_text().splitlines()) == int(hit or "1"):
                os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)


class MortalWriter(ExactlyOnceStreamWriter):
    def _store(self, sink_id: str) -> SinkStore:
        store = super()._store(sink_id)
        store.__class__ = MortalStore
        return store


class MortalSource(JosefineDataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return MortalWriter(sink_options(self.options), schema)


def main() -> None:
    from josefine_spark import session

    bootstrap, source, target, checkpoint = sys.argv[1:]
    os.environ[GROUP] = str(os.getpgid(0))
    conf = {
        "spark.driver.memory": "600m",
        "spark.python.authenticate.socketTimeout": "240s",  # 15 s are too few under load
    }
    spark = session("mortal", conf, master="local[2]")
    spark.dataSource.register(MortalSource)
    frame = (
        spark.readStream.format("josefine")
        .option("bootstrapServers", bootstrap)
        .options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="10")
        .load()
    )
    writer = frame.select("key", "value").writeStream.format(FORMAT)
    writer = writer.options(bootstrapServers=bootstrap, topic=target, delivery="exactly_once")
    query = writer.options(sinkId=target, checkpointLocation=checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()

"""The hash of a topic's committed records from `earliest` on, as Spark has them.

`python -m tests.proofs.hashing.spark BOOTSTRAP TOPIC`: the tasks read the archive's files below the
local start, and brokers above it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tests.proofs.hashing.record_hash import Sum

COLUMNS = ("partition", "offset", "key", "value")
TASK_RECORDS = 250_000


def summed(batches: Iterable[Any]) -> Iterator[Any]:
    """One row for a task's records."""
    found = Sum()
    for batch in batches:
        named = {name: batch.column(name).to_pylist() for name in (*COLUMNS, "headers")}
        times_us = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for at, (partition, offset, key, value) in enumerate(
            zip(*(named[name] for name in COLUMNS), strict=True)
        ):
            headers = [(each["key"], each["value"]) for each in named["headers"][at] or ()]
            found.add(partition, offset, times_us[at] // 1_000, key, value, headers)
    yield pa.RecordBatch.from_pydict({"count": [found.count], "total": [str(found.total)]})


def read(bootstrap: str, topic: str) -> dict[str, Any]:
    from josefine_spark import session

    spark = session("hash", {"spark.driver.memory": "1g"}, master="local[2]")
    try:
        rows = (
            spark.read.format("josefine")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("archive", "auto")
            .option("includeHeaders", "true")
            .option("kafka.isolation.level", "read_committed")
            .option("maxRecordsPerPartition", str(TASK_RECORDS))
            .load()
        )
        parts = rows.mapInArrow(summed, "count BIGINT, total STRING").collect()
    finally:
        spark.stop()
    total = Sum(
        count=sum(each["count"] for each in parts),
        total=sum(int(each["total"]) for each in parts) % (1 << 64),
    )
    return total.to_json()


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1], sys.argv[2])))

"""The age of the oldest record that a table or an archive lacks, for a status without a writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_lake.writer.ports import Log
from josefine_lake.writer.topic_reader import OutOfRangeError
from josefine_spark.base.topic_offsets import ByPartition

WAIT_MS = 500
US_PER_MS = 1_000


def lag_age_ms(
    log: Log, positions: Mapping[Any, int], ends: ByPartition, now_ms: int
) -> int | None:
    """0: nothing is lacking. None: unknown, as when the first records have no timestamp or cannot
    be read. `now_ms`: since 1970."""
    behind = {tp: positions.get(tp, 0) for tp, end in ends.items() if positions.get(tp, 0) < end}
    if not behind:
        return 0
    try:
        reads = log.fetch(behind, WAIT_MS)
    except (KafkaError, CorruptData, OutOfRangeError):
        return None
    times = [pc.min(each.column("timestamp").cast(pa.int64())).as_py() for read in reads
             for each in read.batches]  # fmt: skip
    known = [each // US_PER_MS for each in times if each is not None and each >= 0]
    return max(0, now_ms - min(known)) if known else None


def seconds(age_ms: int | None) -> str:
    """For people."""
    return "?" if age_ms is None else f"{age_ms / 1_000:.1f} s"

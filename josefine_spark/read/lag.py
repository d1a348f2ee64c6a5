"""The lag of a stream in offsets, bytes and seconds. Pure.

The first three names are those of the metrics of Spark's Kafka source. A Python source cannot add
metrics to a query's progress, but it can report the latest offset. So the figures are part of that
JSON: `progress.sources[0].latestOffset`, under `lag`.
"""

import json
from collections.abc import Mapping
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.record_sizes import Sample, offset_bytes

LAG = "lag"


def backlog(reached: TopicOffsets, latest: TopicOffsets) -> dict[TopicPartition, int]:
    """Number of unread offsets of each partition."""
    return {
        tp: max(0, end - reached.ends.get(tp, latest.first.get(tp, end)))
        for tp, end in latest.ends.items()
    }


def lag_of(
    behind: Mapping[TopicPartition, int], samples: Mapping[TopicPartition, Sample], now_ms: int
) -> dict[str, float]:
    """The figures. Bytes and seconds follow from `samples` at the next offsets to be read; `now_ms`
    is since 1970.

    Bytes are an estimate; seconds are the age of the oldest unread batch.
    """
    counts = list(behind.values())
    waiting = [tp for tp, count in behind.items() if count > 0]
    sizes = offset_bytes(samples, waiting)
    ages_ms = [now_ms - samples[tp].timestamp_ms for tp in waiting if tp in samples]
    return {
        "minOffsetsBehindLatest": min(counts, default=0),
        "maxOffsetsBehindLatest": max(counts, default=0),
        "avgOffsetsBehindLatest": sum(counts) / len(counts) if counts else 0.0,
        "offsetsBehindLatest": sum(counts),
        "bytesBehindLatest": round(sum(behind[tp] * sizes[tp] for tp in waiting)),
        "secondsBehindLatest": max(0, *ages_ms, 0) / 1000,
    }


def read_lag(latest_offset: str | None) -> dict[str, float] | None:
    """The figures in `progress.sources[n].latestOffset`; None where it has none."""
    try:
        data: Any = json.loads(latest_offset) if latest_offset else None
    except ValueError:
        return None
    lag = data.get(LAG) if isinstance(data, dict) else None
    return dict(lag) if isinstance(lag, dict) else None

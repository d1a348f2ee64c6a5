"""How far a stream is behind its topics: in offsets, bytes and seconds. Pure.

The first three names are those of the metrics of Spark's Kafka source. A Python source cannot add
metrics to a query's progress; it can say what the latest offset is, so the figures stand in there,
beside the offsets: `progress.sources[0].latestOffset`, under `lag`.
"""

import json
from collections.abc import Mapping
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.record_sizes import Sample, offset_bytes

LAG = "lag"


def backlog(reached: TopicOffsets, latest: TopicOffsets) -> dict[TopicPartition, int]:
    """Offsets of each partition that were not given out yet."""
    return {
        tp: max(0, end - reached.ends.get(tp, latest.first.get(tp, end)))
        for tp, end in latest.ends.items()
    }


def lag_of(
    behind: Mapping[TopicPartition, int], samples: Mapping[TopicPartition, Sample], now_ms: int
) -> dict[str, float]:
    """The figures. Bytes and seconds by `samples` at what is to be read next; `now_ms` since 1970.

    Bytes are an estimate; seconds are the age of the oldest batch of those that wait.
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
    """The figures out of `progress.sources[n].latestOffset`; None where there are none."""
    try:
        data: Any = json.loads(latest_offset) if latest_offset else None
    except ValueError:
        return None
    lag = data.get(LAG) if isinstance(data, dict) else None
    return dict(lag) if isinstance(lag, dict) else None

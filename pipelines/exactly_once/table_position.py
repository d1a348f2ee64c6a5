"""The position of a stream in a Delta table, as one offset of one partition. Pure.

Delta's streaming offset names the table's id, a version, an index among the version's files, and
whether these are the files of the table's first snapshot. A micro-batch may end inside a version.
The offset chain compares one whole number per partition, so a position is
`version * 1,000,000,000 + file`: `file` is 0 before the first file of the version, and higher by
500,000,000 within the snapshot. Both directions are exact: a lost checkpoint is written again from
the number in the table, and Delta continues at the file.

Source: DeltaSourceOffset of delta-spark 4.4, `sourceVersion` 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets

TABLE = TopicPartition("delta_table", 0)
"""The partition of every table: another table is the same one under another id, which is refused as
a recreated topic is."""

VERSION = 1_000_000_000
_SNAPSHOT = 500_000_000
_FIRST_INDEX = 1
_BEFORE_FILES = (-1, -100)
"""Delta's index before the first file, as written and in memory."""
_AFTER_FILES = _SNAPSHOT - 2
"""Our index after all files of a version: its position is that before the next version."""
OF_TABLE = "reservoirId"
"""The key of the table's id in Delta's offsets. A topic of this name has an object there."""


def is_of_table(data: object) -> bool:
    """Whether the JSON of an offset is Delta's."""
    return isinstance(data, dict) and isinstance(data.get(OF_TABLE), str)


def position_of(data: Mapping[str, Any]) -> TopicOffsets:
    """The offset in Delta's JSON. Raises KeyError and ValueError for another version of it."""
    index, version = int(data["index"]), int(data["reservoirVersion"])
    if index in _BEFORE_FILES:
        file = 0
    elif 0 <= index < _SNAPSHOT - _FIRST_INDEX:
        file = index + _FIRST_INDEX
    else:
        raise ValueError(f"index {index} of a Delta source is unknown")
    if index == _AFTER_FILES and not data["isStartingVersion"]:
        version, file = version + 1, 0
    if data["isStartingVersion"]:
        file += _SNAPSHOT
    table = str(data["reservoirId"])
    return TopicOffsets(ends={TABLE: version * VERSION + file}, topic_ids={TABLE.topic: table})


def delta_offset(position: int, table_id: str) -> str:
    """The JSON from which Delta continues at a position."""
    version, file = divmod(position, VERSION)
    in_snapshot, place = divmod(file, _SNAPSHOT)
    return json.dumps(
        {
            "sourceVersion": 1,
            "reservoirId": table_id,
            "reservoirVersion": version,
            "index": place - _FIRST_INDEX if place else _BEFORE_FILES[0],
            "isStartingVersion": bool(in_snapshot),
        }
    )


def position_since(since_ms: int, commits: Mapping[int, int], end: int) -> int | str:
    """The position before the first commit at or after a time, or why it is unknown. `commits`:
    version → its time, of the log; `end`: the position of the next commit, where none is that late.
    """
    late = [version for version, time_ms in commits.items() if time_ms >= since_ms]
    if not late:
        return end
    oldest = min(commits)
    if min(late) == oldest > 0:
        return (
            f"Delta's log starts with version {oldest}, which is not older: commits before it may "
            "be missing; start later, or at earliest, which is the whole table"
        )
    return min(late) * VERSION


def checkpoint_of(
    at: TopicOffsets, query_id: str, *, is_last: bool = False
) -> tuple[tuple[str, str], ...]:
    """The files of a checkpoint whose stream continues at a position: (name, text), in the order
    to write them. `is_last`: the position's version is not committed yet.

    Two finished micro-batches that end at the same offset: Spark reads the newest one again from
    the one before it, and Delta answers that with no rows, without a look at its log. Of the change
    data feed it looks, for a version that must be there: with `is_last` both end after all files of
    the version before. A driver that dies between two files leaves a planned batch 0 at the table's
    end, which is skipped."""
    end = at.ends[TABLE]
    if is_last and end >= VERSION and end % VERSION == 0:
        end += _AFTER_FILES + _FIRST_INDEX - VERSION
    plan = "\n".join(
        [
            "v1",
            json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}),
            delta_offset(end, at.topic_ids[TABLE.topic]),
        ]
    )
    done = 'v1\n{"nextBatchWatermarkMs":0}'
    return (
        ("metadata", json.dumps({"id": query_id})),
        ("offsets/0", plan),
        ("commits/0", done),
        ("offsets/1", plan),
        ("commits/1", done),
    )

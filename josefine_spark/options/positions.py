"""Start and end positions of a read, from options: offsets, timestamps, or relative to now.

Pure: text in, `Position` out. Formats are those of Spark's Kafka source. The source's own offset
JSON (see `read/offsets.py`) is accepted too, so that a stored position can be used as an option.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.moments import moment_ms
from josefine_spark.base.errors import OptionError
from josefine_spark.options.parse import duration_ms

EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
"""Spark's and Kafka's special values for the two ends in offset JSON."""


class Kind(Enum):
    """The kind of a position."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"  # one for all partitions
    TIMESTAMPS = "timestamps"  # one per partition
    AGO = "ago"  # a duration before the start of the read
    LAST = "last"  # a number of offsets before the end of each partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A start or end before it is resolved against a broker."""

    kind: Kind
    values: Mapping[TopicPartition, int]
    """Offsets or timestamps in ms, by kind; empty otherwise."""
    timestamp_ms: int = -1
    ago_ms: int = -1
    count: int = -1
    """For LAST: number of offsets per partition."""
    lenient: bool = False
    """For timestamps: a partition without a record that late starts at its end."""
    topic_ids: Mapping[str, str] | None = None
    """Ids of the topics that the offsets belong to, if known."""
    option: str = ""
    """The option of this position, for messages."""


EARLIEST = Position(kind=Kind.EARLIEST, values={})
LATEST = Position(kind=Kind.LATEST, values={})

_AGO = re.compile(r"(.+?)\s+ago", re.IGNORECASE)
_LAST = re.compile(r"last\s+(\d{1,18})(?:\s+records)?", re.IGNORECASE)


def parse_offsets(option: str, text: str) -> Position:
    """`earliest`, `latest`, `10m ago`, `last 100` or `{"topic":{"0":23,"1":-2}}`. Raises
    OptionError."""
    word = text.strip().lower()
    if word == "earliest":
        return Position(kind=Kind.EARLIEST, values={}, option=option)
    if word == "latest":
        return Position(kind=Kind.LATEST, values={}, option=option)
    relative = _relative(option, word)
    if relative is not None:
        return relative
    shape = 'earliest, latest, "10m ago", "last 100" or JSON as {"topic":{"0":23,"1":-2}}'
    data = _object(option, text, shape)
    ids = None
    if data.get("v") == 1 and "offsets" in data:
        ids = dict(data.get("topic_ids") or {})
        data = data["offsets"]
    values = _per_partition(option, data, shape)
    for partition, offset in values.items():
        if offset < EARLIEST_OFFSET:
            raise OptionError(f"{option}: offset {offset} of {partition} is below -2 (earliest)")
    return Position(kind=Kind.OFFSETS, values=values, topic_ids=ids, option=option)


def parse_timestamps(option: str, text: str) -> Position:
    """`{"topic":{"0":1700000000000}}`, milliseconds since the epoch. Raises OptionError."""
    shape = 'JSON as {"topic":{"0":1700000000000}}'
    values = _per_partition(option, _object(option, text, shape), shape)
    return Position(kind=Kind.TIMESTAMPS, values=values, option=option)


def parse_timestamp(option: str, text: str) -> Position:
    """Milliseconds since the epoch, an ISO 8601 time or `10m ago`, for all partitions. Raises
    OptionError."""
    relative = _relative(option, text.strip())
    if relative is not None and relative.kind is Kind.AGO:
        return relative
    text = text.strip()
    is_number = re.fullmatch(r"[+-]?[0-9]+", text) is not None
    timestamp_ms = int(text) if is_number else moment_ms(text)
    if timestamp_ms is None or timestamp_ms < 0:
        raise OptionError(
            f"{option}: {text!r} is neither a number of milliseconds since 1970 nor a time since "
            'then, as 2026-01-01T00:00Z or "10m ago"'
        )
    return Position(kind=Kind.TIMESTAMP, values={}, timestamp_ms=timestamp_ms, option=option)


def at_time(position: Position, now_ms: int) -> Position:
    """Resolve "10m ago" at `now_ms` since 1970; other positions are returned unchanged."""
    if position.kind is not Kind.AGO:
        return position
    return Position(
        kind=Kind.TIMESTAMP,
        values={},
        timestamp_ms=max(0, now_ms - position.ago_ms),
        option=position.option,
        lenient=True,
    )


def _relative(option: str, text: str) -> Position | None:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        ago_ms = duration_ms(ago[1])
        if ago_ms is None:
            raise OptionError(f'{option}: expected a time such as "10m ago", got {text!r}')
        return Position(kind=Kind.AGO, values={}, ago_ms=ago_ms, option=option)
    last = _LAST.fullmatch(text)
    if last is not None:
        return Position(kind=Kind.LAST, values={}, count=int(last[1]), option=option)
    return None


def _object(option: str, text: str, shape: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{option}: expected {shape}, got {text!r} ({error})") from error
    if not isinstance(data, dict):
        raise OptionError(f"{option}: expected {shape}, got {text!r}")
    return data


def _per_partition(option: str, data: Any, shape: str) -> dict[TopicPartition, int]:
    values: dict[TopicPartition, int] = {}
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise OptionError(f"{option}: expected {shape}; {topic!r} has {partitions!r}")
        for partition, value in partitions.items():
            if not partition.isdigit() or isinstance(value, bool) or not isinstance(value, int):
                raise OptionError(f"{option}: expected {shape}; {topic!r} has {partitions!r}")
            values[TopicPartition(topic, int(partition))] = value
    return values

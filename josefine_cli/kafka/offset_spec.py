"""The notation for start and end positions: offsets, keywords, times, ages.

`earliest` · `latest` · `42` (that offset) · `-5` (five before the end) · `-10m` (ten minutes ago;
ms, s, m, h, d, w) · `2013-01-01`, `2013-01-01T05:00:00Z` (UTC unless it names another zone).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from josefine_broker.base.durations import duration_ms
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.moments import moment_ms
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_cli.base.errors import UsageError

FORMS = "earliest, latest, an offset, -N (before the end), an age like -10m, or an ISO time"

_OFFSET = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class AtOffset:
    """An absolute offset, or one counted back from the end when negative."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time; EARLIEST and LATEST are Kafka's own such times."""

    timestamp_ms: int


Place = AtOffset | AtTime


def parse_place(text: str, option: str, now_ms: int) -> Place:
    """Parse a position. Raises UsageError with `option` and the accepted forms."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return AtTime(EARLIEST if word == "earliest" else LATEST)
    age_ms = duration_ms(word[1:]) if word.startswith("-") else None
    if age_ms is not None:
        return AtTime(max(0, now_ms - age_ms))
    if _OFFSET.fullmatch(word):
        return AtOffset(int(word))
    moment = moment_ms(text.strip())
    if moment is None:
        raise UsageError(f"{option} '{text}' is not valid: expected {FORMS}")
    return AtTime(moment)


def is_after(first: Place, last: Place) -> bool:
    """Whether `first` lies after `last` in every topic, as far as the two can be compared."""
    if isinstance(first, AtTime) and isinstance(last, AtTime):
        return _moment(first) > _moment(last)
    if isinstance(first, AtOffset) and isinstance(last, AtOffset):
        return (first.offset < 0) == (last.offset < 0) and first.offset > last.offset
    return first == AtTime(LATEST) and isinstance(last, AtOffset) and last.offset < 0


def _moment(place: AtTime) -> float:
    return {EARLIEST: -math.inf, LATEST: math.inf}.get(place.timestamp_ms, place.timestamp_ms)


def resolve(
    client: BlockingClient,
    place: Place,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset of `place` in each partition of `latest`; a time past every record is the end."""
    if isinstance(place, AtOffset):
        if place.offset >= 0:
            return dict.fromkeys(latest, place.offset)
        return {tp: max(earliest[tp], end + place.offset) for tp, end in latest.items()}
    if place.timestamp_ms == EARLIEST:
        return dict(earliest)
    if place.timestamp_ms == LATEST:
        return dict(latest)
    listed = client.list_offsets(dict.fromkeys(latest, place.timestamp_ms))
    return {tp: at.offset if at.offset >= 0 else latest[tp] for tp, at in listed.items()}

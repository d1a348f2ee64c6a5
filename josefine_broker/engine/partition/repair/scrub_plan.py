"""The plan of the scrub: which segment is read next, and how old the oldest unverified byte is.

Rules: a round reads every sealed segment once, in the order of partitions and offsets, and starts
one interval after the previous round started. Its progress is a small value that survives restarts:
a round continues where it was, and a segment that was read is not read again before the next round.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition

_PROGRESS = Struct(">qqqih")
DONE = TopicPartition("", -1)


class Place(NamedTuple):
    """The next segment of a round: of this partition, at or after this offset."""

    tp: TopicPartition
    offset: int


_FIRST, _OVER = Place(TopicPartition("", 0), 0), Place(DONE, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubProgress:
    """See the module. Times since the Unix epoch."""

    started_ms: int
    """Start of this round."""
    previous_ms: int
    """Start of the round before: what this round has not read yet was verified since then."""
    place: Place = _OVER
    """Where this round continues; DONE: it is over."""

    @classmethod
    def new(cls, now_ms: int) -> "ScrubProgress":
        """Nothing was verified yet."""
        return cls(started_ms=now_ms, previous_ms=now_ms, place=_FIRST)

    @property
    def is_over(self) -> bool:
        return self.place.tp == DONE

    def next_round(self, now_ms: int, interval_ms: int) -> "ScrubProgress":
        """The next round if it is due, else this one."""
        if not self.is_over or now_ms < self.started_ms + interval_ms:
            return self
        return ScrubProgress(started_ms=now_ms, previous_ms=self.started_ms, place=_FIRST)

    def passed(self, tp: TopicPartition, end_offset: int) -> "ScrubProgress":
        """The segment of `tp` that ends there was read."""
        return replace(self, place=Place(tp, end_offset))

    def over(self) -> "ScrubProgress":
        return replace(self, place=_OVER)

    def oldest_ms(self, now_ms: int) -> int:
        """Age of the verification that is the longest ago."""
        return max(0, now_ms - (self.started_ms if self.is_over else self.previous_ms))

    def left_of(self, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions that this round has not finished, in its order."""
        return [] if self.is_over else sorted(each for each in tps if each >= self.place.tp)

    def to_bytes(self) -> bytes:
        topic = self.place.tp.topic.encode()
        fields = self.started_ms, self.previous_ms, self.place.offset
        return _PROGRESS.pack(*fields, self.place.tp.partition, len(topic)) + topic

    @classmethod
    def from_bytes(cls, data: bytes) -> "ScrubProgress":
        """Raises CorruptData."""
        if len(data) < _PROGRESS.size:
            raise CorruptData(f"scrub progress of {len(data)} bytes")
        started_ms, previous_ms, offset, partition, size = _PROGRESS.unpack_from(data)
        if len(data) != _PROGRESS.size + size:
            raise CorruptData(f"scrub progress of {len(data)} bytes, {size} of them a topic")
        place = Place(TopicPartition(data[_PROGRESS.size :].decode(), partition), offset)
        return cls(started_ms=started_ms, previous_ms=previous_ms, place=place)

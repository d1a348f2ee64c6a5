"""The offset-range calculator: how much a batch takes, and which task reads which range. Pure.

Rules: a batch never exceeds the limit nor a partition's end; every partition with records gets at
least one as soon as the limit allows; the result depends only on the arguments, so that a replay
decides the same. `Admission` is the one mutable class: it remembers the target of an AvailableNow
run and when minOffsetsPerTrigger last admitted a batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Records of one partition for one task: start <= offset < end."""

    partition: TopicPartition
    topic_id: str
    start: int
    end: int
    continues: bool = False
    """Another task of the same micro-batch reads the offsets directly before `start`."""

    @property
    def size(self) -> int:
        return self.end - self.start


class Admission:
    """Decides the end offsets of the next batch of a stream."""

    def __init__(
        self,
        *,
        offsets_max: int | None = None,
        offsets_min: int | None = None,
        delay_ms_max: int = 0,
    ) -> None:
        self.offsets_max = offsets_max
        self._offsets_min = offsets_min
        self._delay_ms_max = delay_ms_max
        self._target: dict[TopicPartition, int] | None = None
        self._triggered_ms: int | None = None

    @property
    def target(self) -> ByPartition | None:
        """End offsets that an AvailableNow run must reach exactly; None for other triggers."""
        return self._target

    def freeze(self, latest: ByPartition, stops_at: ByPartition | None = None) -> None:
        """Start an AvailableNow run: it reads up to `latest`, and no further than `stops_at`. It
        reads nothing of partitions that `stops_at` does not name."""
        stops = latest if stops_at is None else stops_at
        self._target = {tp: min(end, stops[tp]) for tp, end in latest.items() if tp in stops}

    def admit(
        self,
        start: ByPartition,
        latest: ByPartition,
        now_ms: int,
        *,
        offsets_max: int | None,
    ) -> dict[TopicPartition, int]:
        """End offsets for the partitions of `latest`; `start` names all of them too.

        Partitions found after `freeze` are left out. An end is never below its start.
        """
        ends = {tp: max(start[tp], self._capped(tp, end)) for tp, end in latest.items()}
        if self._target is not None:
            ends = {tp: end for tp, end in ends.items() if tp in self._target}
        begins = {tp: start[tp] for tp in ends}
        total = sum(ends.values()) - sum(begins.values())
        if self._too_early(total, now_ms):
            return begins
        if offsets_max is None or total <= offsets_max:
            return ends
        shares = share_out(offsets_max, {tp: ends[tp] - begins[tp] for tp in ends}, begins)
        return {tp: begins[tp] + shares[tp] for tp in ends}

    def _capped(self, tp: TopicPartition, end: int) -> int:
        if self._target is None:
            return end
        return min(end, self._target.get(tp, end))

    def _too_early(self, total: int, now_ms: int) -> bool:
        """minOffsetsPerTrigger waits for enough records, but no longer than maxTriggerDelay after
        the previous trigger; the first call of a run counts as one, as in Spark's Kafka source.

        Never in an AvailableNow run: it would not end, because its target must be reached.
        """
        if self._offsets_min is None or self._target is not None:
            return False
        waited_ms = None if self._triggered_ms is None else now_ms - self._triggered_ms
        over = waited_ms is None or waited_ms >= self._delay_ms_max
        if not over and total < self._offsets_min:
            return True
        self._triggered_ms = now_ms
        return False


def share_out(limit: int, backlog: ByPartition, position: ByPartition) -> dict[TopicPartition, int]:
    """Divide `limit` records among partitions in proportion to their backlog; the sum is exact.

    Each partition with a backlog first gets one record. If the limit does not allow even that, the
    partition that is served first rotates with the positions, so that none starves.
    """
    waiting = sorted(tp for tp in backlog if backlog[tp] > 0)
    shares = dict.fromkeys(backlog, 0)
    total = sum(backlog[tp] for tp in waiting)
    if total <= limit:
        return shares | {tp: backlog[tp] for tp in waiting}
    turn = sum(position.values()) % len(waiting) if waiting else 0
    in_turn = waiting[turn:] + waiting[:turn]
    for tp in in_turn[:limit]:
        shares[tp] = 1
    left = limit - min(limit, len(waiting))
    if left == 0:
        return shares
    rest = total - len(waiting)
    for tp in waiting:
        shares[tp] += left * (backlog[tp] - 1) // rest
    # Largest remainder method: rounding down leaves a few records over.
    over = limit - sum(shares.values())
    by_remainder = sorted(in_turn, key=lambda tp: -(left * (backlog[tp] - 1) % rest))
    for tp in by_remainder[:over]:
        shares[tp] += 1
    return shares


def limit_bytes(
    bytes_max: int,
    begins: ByPartition,
    ends: ByPartition,
    offset_bytes: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """`ends`, moved back until the ranges have about `bytes_max` bytes in all.

    It is as exact as `offset_bytes`. Each partition first gets one offset, in an order that rotates
    with the positions; the rest is divided in proportion to the unread bytes. The very first offset
    is taken whatever its size: otherwise a record larger than the limit would never be read.
    """
    waiting = {tp: end - begins[tp] for tp, end in ends.items() if end > begins[tp]}
    if sum(count * offset_bytes[tp] for tp, count in waiting.items()) <= bytes_max:
        return dict(ends)
    names = sorted(waiting)
    turn = sum(begins.values()) % len(names)
    # The rotation is derived from the positions, not from state: a replay gets the same ranges.
    taken = dict.fromkeys(ends, 0)
    left = float(bytes_max)
    for place, tp in enumerate(names[turn:] + names[:turn]):
        if place == 0 or offset_bytes[tp] <= left:
            taken[tp] = 1
            left -= offset_bytes[tp]
    rest = {tp: (waiting[tp] - taken[tp]) * offset_bytes[tp] for tp in names}
    total = sum(rest.values())
    if left > 0 and total > 0:
        for tp in names:
            taken[tp] += min(
                waiting[tp] - taken[tp], int(left * rest[tp] / total / offset_bytes[tp])
            )
    return {tp: begins[tp] + taken[tp] for tp in ends}


def split_ranges(
    ranges: Sequence[OffsetRange],
    *,
    partitions_min: int | None = None,
    records_max: int | None = None,
) -> list[OffsetRange]:
    """One range per task: by size first, then into about `partitions_min` pieces (a hint).

    The ranges cover exactly what went in, in order; empty ones are dropped.
    """
    pieces = [one for one in ranges if one.size > 0]
    if records_max is not None:
        pieces = [p for one in pieces for p in _cut(one, -(-one.size // records_max))]
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    total = sum(one.size for one in pieces)
    return [p for one in pieces for p in _cut(one, round(one.size * partitions_min / total))]


def _cut(one: OffsetRange, count: int) -> list[OffsetRange]:
    """`count` pieces whose sizes differ by one at most, none empty."""
    count = max(1, min(count, one.size))
    cuts = [one.start + one.size * n // count for n in range(count + 1)]
    return [
        replace(one, start=a, end=b, continues=one.continues or a > one.start)
        for a, b in pairwise(cuts)
    ]

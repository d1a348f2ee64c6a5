"""The leader epochs of a partition's log: which epoch wrote which offsets (KIP-101, KIP-279).

A list of (epoch, start offset), both increasing. It answers OffsetForLeaderEpoch, with which a
client or follower finds where its log diverges from ours. The log stores `to_bytes()` in its
checkpoint.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.records.batch import NO_LEADER_EPOCH

NO_OFFSET = -1

VERSION = 1
_HEAD = Struct(">hi")
_ENTRY = Struct(">iq")


class EpochStart(NamedTuple):
    """The first offset written under an epoch."""

    epoch: LeaderEpoch
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch not above the asked one, and its end offset (exclusive)."""

    epoch: LeaderEpoch
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one partition's log."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[tuple[LeaderEpoch, int]] = ()) -> None:
        self._starts: list[EpochStart] = []
        for epoch, start_offset in starts:
            self.assign(epoch, start_offset)

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """In order of epoch, and so of offset."""
        return tuple(self._starts)

    @property
    def latest(self) -> LeaderEpoch:
        """The epoch of the last records, as far as known; -1 without any."""
        return self._starts[-1].epoch if self._starts else NO_LEADER_EPOCH

    def assign(self, epoch: LeaderEpoch, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset`; False when it was known already.

        An epoch that wrote nothing has the same start offset as the next one, and is dropped.
        """
        if self._starts:
            last = self._starts[-1]
            if epoch == last.epoch:
                return False
            # Two leaders wrote under one epoch, or an epoch went back: divergence could not be
            # found.
            if epoch < last.epoch or start_offset < last.start_offset:
                raise Fatal(f"leader epoch {epoch} at {start_offset} after {last}")
            if start_offset == last.start_offset:
                self._starts.pop()
        self._starts.append(EpochStart(epoch, start_offset))
        return True

    def epoch_of(self, offset: int) -> LeaderEpoch:
        """The epoch that wrote `offset`; -1 before the first known one."""
        at = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        return self._starts[at - 1].epoch if at else NO_LEADER_EPOCH

    def start_after(self, epoch: LeaderEpoch) -> int | None:
        """Where the first epoch above this one starts; None: there is none."""
        at = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        return self._starts[at].start_offset if at < len(self._starts) else None

    def end_of(self, epoch: LeaderEpoch, log_end_offset: int) -> EpochEnd:
        """The end offset of `epoch` (KIP-279); (-1, -1) when it is unknown."""
        if not self._starts or epoch < 0 or epoch > self.latest:
            return EpochEnd(NO_LEADER_EPOCH, NO_OFFSET)
        # It is still being written, so it ends where the log does.
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        at = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        end_offset = self._starts[at].start_offset
        return EpochEnd(self._starts[at - 1].epoch if at else epoch, end_offset)

    def end_before(self, epoch: LeaderEpoch, log_end_offset: int) -> EpochEnd | None:
        """Where the epoch before `epoch` ended, if `epoch` started at `log_end_offset` or later: a
        log with that end can have no batch of it. None: it can, or the start is unknown."""
        at = bisect_left(self._starts, epoch, key=lambda start: start.epoch)
        if not 0 < at < len(self._starts):
            return None
        found, start_offset = self._starts[at]
        if found != epoch or start_offset < log_end_offset:
            return None
        return EpochEnd(self._starts[at - 1].epoch, start_offset)

    def truncate_end(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`: epochs that start at or past it are removed."""
        while self._starts and self._starts[-1].start_offset >= end_offset:
            self._starts.pop()

    def truncate_start(self, start_offset: int) -> None:
        """The log start offset moved: the epoch that wrote `start_offset` now starts there."""
        at = bisect_right(self._starts, start_offset, key=lambda start: start.start_offset)
        if at:
            self._starts[:at] = [EpochStart(self._starts[at - 1].epoch, start_offset)]

    def clear(self) -> None:
        """Forget every epoch: the log was emptied."""
        self._starts.clear()

    def to_bytes(self, log_end_offset: int) -> bytes:
        """The checkpoint's bytes, with the epochs that wrote something. An epoch that wrote nothing
        has no records in the log, so omitting it loses nothing and an election alone writes no
        checkpoint."""
        wrote = [start for start in self._starts if start.start_offset < log_end_offset]
        head = _HEAD.pack(VERSION, len(wrote))
        return head + b"".join(_ENTRY.pack(*start) for start in wrote)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LeaderEpochs":
        """Read what `to_bytes` wrote. Raises CorruptData."""
        if len(data) < _HEAD.size:
            raise CorruptData(f"leader epoch checkpoint of {len(data)} bytes")
        version, count = _HEAD.unpack_from(data)
        if version != VERSION or len(data) != _HEAD.size + count * _ENTRY.size:
            raise CorruptData(
                f"leader epoch checkpoint: version {version}, {count} entries, {len(data)} bytes"
            )
        starts = list(_ENTRY.iter_unpack(data[_HEAD.size :]))
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(starts)):
            raise CorruptData(f"leader epoch checkpoint does not grow: {starts}")
        return cls(starts)

"""Leader epochs that have flipped in the batches of another replica, and what they were.

No checksum covers the leader epoch of a batch, so a read delivers a batch whose epoch has flipped.
But the epochs of a log never fall. Where they do, the fewest batches that explain it are wrong, and
each counts as one of the epoch of the batch before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.records.batch import NO_LEADER_EPOCH, BatchHeader, iter_batches, stamp

__all__ = ["with_rising_epochs"]


def with_rising_epochs(records: bytes, at_least: LeaderEpoch = NO_LEADER_EPOCH) -> bytes:
    """These batches, with epochs that do not fall. `at_least`: the epoch of the batch before them,
    if that is known to be right. The records themselves are never changed."""
    batches: list[tuple[int, BatchHeader]] = []
    with suppress(CorruptData):  # the batches before it count
        batches.extend(iter_batches(memoryview(records)))
    known = [each for each in batches if each[1].leader_epoch != NO_LEADER_EPOCH]
    epochs = [header.leader_epoch for _, header in known]
    if epochs == sorted(epochs) and (not epochs or epochs[0] >= at_least):
        return records
    right = _longest_rise(epochs, at_least)
    data = bytearray(records)
    epoch = at_least if at_least != NO_LEADER_EPOCH else epochs[min(right)]
    for at, (position, header) in enumerate(known):
        if at in right:
            epoch = header.leader_epoch
        else:
            stamp(data, position, header.base_offset, epoch)
    return bytes(data)


def _longest_rise(epochs: Sequence[int], at_least: int) -> set[int]:
    """The positions of the most epochs that do not fall; of two such choices, that which ends with
    the earlier epoch."""
    ends: list[int] = []  # by length: the lowest epoch that a rise of that length ends with
    last: list[int] = []  # ... and its position
    before: dict[int, int] = {}
    for at, epoch in enumerate(epochs):
        if epoch < at_least:
            continue
        length = bisect_right(ends, epoch)
        before[at] = last[length - 1] if length else -1
        ends[length:] = [epoch, *ends[length + 1 :]]
        last[length:] = [at, *last[length + 1 :]]
    found, at = set(), last[-1] if last else -1
    while at >= 0:
        found.add(at)
        at = before[at]
    return found

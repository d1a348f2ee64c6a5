"""Batches of another replica that consumers are given while those here are damaged.

A repair copies a whole segment, which takes seconds for a large one; a consumer does not wait for
that. Rules: only batches that are committed, intact, and of the leader epoch that wrote these
offsets. The first one has the offset that was asked for, so no record is left out. They are kept in
memory, a few megabytes at most, until a segment of the log is repaired.
"""

from collections.abc import Sequence
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches, verify
from josefine_broker.records.crc import Buffer

RUNS_MAX = 4
"""Answers of other replicas that are kept, for readers at different places."""
AGAIN_MS = 1_000
"""Delay after every replica was asked in vain."""


class _Run(NamedTuple):
    """Batches that continue each other."""

    start: int
    end: int
    data: memoryview


class Substitutes:
    """Of one partition, in one leader epoch. Mutable."""

    __slots__ = ("_runs", "is_asking", "leader_epoch", "refused", "retry_at_ms", "wanted")

    def __init__(self, leader_epoch: LeaderEpoch) -> None:
        self.leader_epoch = leader_epoch
        """In a later one an unclean election may have changed what is committed."""
        self.wanted: int | None = None
        """A consumer waits for the batch with this offset."""
        self.is_asking = False
        self.refused: set[int] = set()
        """Replicas that did not send it."""
        self.retry_at_ms = 0
        self._runs: list[_Run] = []

    def read(
        self, offset: int, bytes_max: int, end_offset: int, *, at_least_one: bool
    ) -> Sequence[Buffer]:
        """Batches from the one with `offset`, below `end_offset`, as `LogPort.read`; with
        `at_least_one` the first may be larger than `bytes_max`. Where none was sent yet, the one
        with `offset` is wanted from now on."""
        run = next((each for each in self._runs if each.start <= offset < each.end), None)
        if run is None:
            self.wanted = offset
            return ()
        first, last = -1, -1
        for position, header in iter_batches(run.data):
            if header.last_offset < offset:
                continue
            size = position + header.size_bytes - (position if first < 0 else first)
            has_first = first >= 0 or not at_least_one
            if header.end_offset > end_offset or (has_first and size > bytes_max):
                break
            first = position if first < 0 else first
            last = position + header.size_bytes
        return (run.data[first:last],) if first >= 0 else ()

    def take(self, records: Buffer, offset: int, end_offset: int, epochs: LeaderEpochs) -> bool:
        """The answer of a replica to a read of `offset`, of which all below `end_offset` is
        committed. Returns whether the batch with that offset is among it."""
        data = memoryview(records)
        start = expected = first = last = -1
        try:
            for position, header in iter_batches(data):
                if header.last_offset < offset:
                    continue
                base = header.base_offset
                is_next = base == expected if first >= 0 else base <= offset
                is_its = epochs.epoch_of(base) in (NO_LEADER_EPOCH, header.leader_epoch)
                if not is_next or not is_its or header.end_offset > end_offset:
                    break
                verify(data[position : position + header.size_bytes], 0, header)
                if first < 0:
                    first, start = position, base
                expected, last = header.end_offset, position + header.size_bytes
        except CorruptData:  # the ones before it are of use
            pass
        if first < 0:
            return False
        self._runs = [*self._runs[1 - RUNS_MAX :], _Run(start, expected, data[first:last])]
        self.wanted = None
        self.refused.clear()
        return True

    def refuse(self, replica: int) -> None:
        """This replica did not send it."""
        self.refused.add(replica)

    def exhausted(self, now_ms: int) -> None:
        """Every replica was asked in vain: again later, if a consumer still wants it."""
        self.refused.clear()
        self.wanted, self.retry_at_ms = None, now_ms + AGAIN_MS
